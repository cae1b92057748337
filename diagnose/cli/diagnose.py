"""``gnt-steward diagnose``: what is wrong with this node, as the one object of the protocol.

Standard output carries the object and nothing else, and standard error nothing but a failure:
a program that runs this as a command of a whitelist may read both as one text.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Final, NoReturn

from ganeti_steward.core import log
from ganeti_steward.core.builtins import SELF_DIAGNOSIS
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_table_options, table
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, StewardError, few
from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import (
    EVACUATE,
    EVACUATE_FAILOVER,
    LIVE_REPAIR,
    OK,
    SUSPECT,
    Finding,
)
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.diagnose.config.sections import Agent, Diagnose
from ganeti_steward.diagnose.model.diagnosis import Diagnosis
from ganeti_steward.diagnose.model.hysteresis import Waiting
from ganeti_steward.diagnose.run.files import Busy
from ganeti_steward.diagnose.run.loading import sources, this_machine
from ganeti_steward.diagnose.run.reachability import unreached
from ganeti_steward.diagnose.run.report import daemon_parts
from ganeti_steward.diagnose.run.running import Run, diagnose_node

#: Exit status where another run is under way: "try again later" of sysexits.
EXIT_BUSY: Final = 75

#: Requests to end; SIGINT is an exception already.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)

#: What shells add to a signal's number.
_BY_SIGNAL: Final = 128

_HEADINGS: Final = ("Source", "Status", "Command", "Details")

#: Status -> exit status and word of Nagios.
_NAGIOS: Final = {
    OK: (0, "OK"),
    SUSPECT: (1, "WARNING"),
    LIVE_REPAIR: (1, "WARNING"),
    EVACUATE: (2, "CRITICAL"),
    EVACUATE_FAILOVER: (2, "CRITICAL"),
}
_NAGIOS_UNKNOWN: Final = 3

#: Sources named in a line of Nagios.
_NAMED: Final = 5

_STATUSES: Final = {
    EXIT_OK: "the object was printed; with --format nagios: OK",
    EXIT_FAILURE: "nothing is known about the node, or no run was possible; with --check: the "
    "output has faults; with --format nagios: WARNING (suspect, live-repair)",
    EXIT_USAGE: "the command line cannot be used; with --format nagios: CRITICAL (evacuate, "
    "evacuate-failover)",
    _NAGIOS_UNKNOWN: "with --format nagios: UNKNOWN",
    EXIT_BUSY: "another run is under way",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward diagnose": "the object, as the agent serves it",
            "gnt-steward diagnose --format table": "a row for each source",
            "gnt-steward diagnose --format nagios": "as a check of Nagios",
            "gnt-steward diagnose --check ./raid-controller": "test a command of your own",
        },
        statuses=_STATUSES,
    )
    add = parser.add_argument
    add("--report", action="store_true", help="the report with the object in it")
    add(
        "--sign",
        nargs="?",
        const="",
        metavar="SALT",
        help="the report, signed with the cluster's HMAC key; default salt: the time",
    )
    add("--output", metavar="FILE", help="put it there instead, in one step")
    add("--format", choices=("json", "table", "nagios"), default="json", help="default: json")
    add(
        "--no-state",
        action="store_true",
        help="only what is seen now: nothing is read from earlier runs or kept for later ones",
    )
    add("-v", "--verbose", action="store_true", help="print the rest on standard error")
    add(
        "--check",
        metavar="FILE|COMMAND",
        help="print everything that is wrong with an object, or with a command that prints one",
    )
    add(
        "--forget",
        metavar="SOURCE",
        help="drop what earlier runs found with a source, such as one that was removed",
    )
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the object, in the requested form."""
    # One run makes hardly any garbage, and looking for it would copy what workers share.
    gc.disable()
    if options.format == "nagios" and options.forget is None:
        return _as_nagios(options)
    _check_options(options)
    config = configuration(SELF_DIAGNOSIS)
    if options.check is not None:
        from ganeti_steward.diagnose.cli.checking import check

        return check(options.check, config.section(Diagnose))
    try:
        if options.forget is not None:
            return _forget(config.section(Diagnose).directory, options.forget)
        done = _diagnosed(options, config)
    except Busy as err:
        print(f"gnt-steward diagnose: {err}", file=sys.stderr)
        return EXIT_BUSY
    text = _text(options, config, done)
    if text:
        _deliver(options, text)
    if done.diagnosis.object is None:
        print(f"gnt-steward diagnose: {printable(done.diagnosis.why)}", file=sys.stderr)
        return EXIT_FAILURE
    return EXIT_OK


def _check_options(options: argparse.Namespace) -> None:
    whole = options.report or options.sign is not None
    if whole and options.format != "json":
        raise StewardError(f"a report cannot be printed as {options.format}")
    for name in ("check", "forget"):
        others = options.check is not None and options.forget is not None
        others = others or whole or options.format != "json" or options.output
        if getattr(options, name) is not None and others:
            raise StewardError(f"--{name} stands by itself")


def _forget(directory: str, source: str) -> int:
    from ganeti_steward.diagnose.run.state_file import forget

    for name in forget(directory, source):
        print(f"{printable(name)}: forgotten")
    return EXIT_OK


def _diagnosed(options: argparse.Namespace, config: Config) -> Run:
    log.set_up(config.log.file, config.log.level)
    with _stoppable():
        chosen = sources(config, this_machine if options.no_state else None)
        run = diagnose_node(
            config.section(Diagnose),
            chosen,
            keep=not options.no_state,
            daemon=partial(daemon_parts, config.section(Agent).key_file),
            unreached=partial(unreached, config.section(Agent).port),
        )
    if options.verbose:
        for line in _verbose(run):
            print(printable(line), file=sys.stderr)
    return run


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a request to end go the way of an exception, so that no source is left running."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(_BY_SIGNAL + number)

    # What is ignored, as with nohup, stays so.
    handled = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _text(options: argparse.Namespace, config: Config, done: Run) -> str:
    """What is printed; empty for nothing."""
    if options.format == "table":
        rows = _table_rows(done.diagnosis)
        style = {"separator": options.separator, "no_headers": options.no_headers}
        return table(_HEADINGS, rows, **style)
    if options.sign is not None:
        return _signed(options.sign, config, done)
    content = done.report if options.report else done.diagnosis.object
    return "" if content is None else canonical(content).decode() + "\n"


def _signed(salt: str, config: Config, done: Run) -> str:
    from ganeti_steward.core.ganeti.hmac_key import KeyFile
    from ganeti_steward.core.ganeti.signing import is_salt
    from ganeti_steward.diagnose.run.report import signed

    salt = salt or str(int(time.time()))
    if not is_salt(salt):
        raise StewardError("a salt has 8 to 64 letters, digits, _ and -")
    return signed(KeyFile(config.section(Agent).key_file).key(), done.report, salt).decode() + "\n"


def _deliver(options: argparse.Namespace, text: str) -> None:
    if options.output:
        write_file(options.output, text.encode(), 0o644)
    else:
        sys.stdout.write(text)


def _as_nagios(options: argparse.Namespace) -> int:
    """A line whatever happens: Nagios would take another exit status for a warning."""
    try:
        _check_options(options)
        status, line = _nagios_line(_diagnosed(options, configuration(SELF_DIAGNOSIS)).diagnosis)
    except StewardError as err:
        status, line = _NAGIOS_UNKNOWN, _nagios_text("UNKNOWN", str(err))
    except Exception as err:
        # Such as MemoryError; Python's own exit status would be that of a warning.
        status, line = _NAGIOS_UNKNOWN, _nagios_text("UNKNOWN", sentence(err))
    _deliver(options, line + "\n")
    return status


def _table_rows(outcome: Diagnosis) -> list[tuple[str, ...]]:
    """A row for each thing that is known, waits, is unknown or does not apply."""
    rows = [_row(finding, finding.status) for finding in outcome.findings]
    for waiting in outcome.waiting:
        runs = _runs(waiting)
        rows += [_row(finding, f"{finding.status} ({runs})") for finding in waiting.result]
        if not waiting.result:
            rows.append((waiting.source, f"{OK} ({runs})", "-", "-"))
    rows += [(source, "unknown", "-", reason) for source, reason in outcome.unknown]
    rows += [(source, "not applicable", "-", reason) for source, reason in outcome.not_applicable]
    return sorted(tuple(map(printable, row)) for row in rows)


def _row(finding: Finding, status: str) -> tuple[str, str, str, str]:
    details = "-" if finding.details is None else canonical(finding.details).decode()
    return finding.source, status, finding.command or "-", details


def _runs(waiting: Waiting) -> str:
    return f"{waiting.runs} of {waiting.needed} runs"


def _nagios_line(outcome: Diagnosis) -> tuple[int, str]:
    """Exit status and line of the plugin protocol of Nagios.

    A node that is fine as far as anybody knows is not OK while something is unknown.
    """
    status, word = _NAGIOS_UNKNOWN, "UNKNOWN"
    if outcome.object is not None and not (outcome.object["status"] == OK and outcome.unknown):
        status, word = _NAGIOS[outcome.object["status"]]
    return status, _nagios_text(word, "; ".join(_nagios_parts(outcome)))


def _nagios_text(word: str, text: str) -> str:
    """One line; what follows a bar would be taken for figures."""
    line = printable(" ".join(text.replace("|", "/").split()))
    return f"DIAGNOSE {word} - {line}"


def _nagios_parts(outcome: Diagnosis) -> Iterator[str]:
    if outcome.object is None:
        yield outcome.why
        return
    yield outcome.object["status"]
    findings = (finding for finding in outcome.findings if finding.status != OK)
    wrong = [f"{finding.source} {finding.status}" for finding in findings]
    if wrong:
        yield few(wrong, _NAMED)
    if outcome.unknown:
        yield "unknown: " + few(
            [f"{source} ({reason})" for source, reason in outcome.unknown], _NAMED
        )


def _verbose(run: Run) -> Iterator[str]:
    """What ``--verbose`` adds: all that is no part of the object, a line for each."""
    outcome = run.diagnosis
    for source, reason in outcome.unknown:
        yield f"unknown: {source}: {reason}"
    for source, reason in outcome.not_applicable:
        yield f"not applicable: {source}: {reason}"
    for waiting in outcome.waiting:
        what = ", ".join(finding.status for finding in waiting.result) or OK
        yield f"waiting: {waiting.source}: {what}, {_runs(waiting)}"
    for source_run in run.sources:
        yield f"ran: {source_run.source}: {source_run.seconds:.2f} s"
