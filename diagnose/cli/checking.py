"""``gnt-steward diagnose --check``: everything that is wrong with an object or a command.

A command is run as a whitelist would run it, twice and with more than a second between: what it
prints must be the same as long as the hardware is.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import OK, is_name
from ganeti_steward.core.process.following import Ended, ending
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.trusted_program import Executable, Forbidden
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.model.budget import DETAILS, within_budget
from ganeti_steward.diagnose.model.object import (
    object_faults,
    object_remarks,
    parse,
    read_finding,
)
from ganeti_steward.diagnose.sources import whitelist
from ganeti_steward.diagnose.sources.commands import LADDER, SOURCE

#: What a script begins with.
_SCRIPT: Final = b"#!"

#: Seconds between the two runs: a time in seconds is another one then.
_PAUSE: Final = 1.1


#: Faults, and notes: what is allowed, but worth knowing.  Every text is one line.
_Inspection = tuple[list[str], list[str]]


def check(what: str, settings: Diagnose) -> int:
    """Print what is wrong; status 1 when anything is."""
    faults, notes = _inspect(what, settings)
    for note in notes:
        print(f"{what}: note: {note}")
    for fault in faults:
        print(f"{what}: {fault}")
    if not faults:
        print(f"{what}: OK")
    return EXIT_FAILURE if faults else EXIT_OK


def _inspect(what: str, settings: Diagnose) -> _Inspection:
    """Look at a file with an object, standard input (``-``), or a command."""
    if what == "-":
        return _inspect_object(sys.stdin.buffer.read(), settings)
    try:
        mode = os.stat(what).st_mode
        if stat.S_ISREG(mode) and mode & 0o111:
            return _inspect_command(os.path.abspath(what), settings)
        with open(what, "rb") as file:
            raw = file.read(settings.output_limit + 1)
    except OSError as err:
        raise StewardError(f"{what}: {reason_of(err)}") from None
    if raw.startswith(_SCRIPT):
        return ["it is a program, but not executable"], []
    return _inspect_object(raw, settings)


def _inspect_object(raw: bytes, settings: Diagnose) -> _Inspection:
    """Look at the text of an object."""
    faults = object_faults(raw)
    return faults, [] if faults else _object_notes(raw, settings)


def _object_notes(raw: bytes, settings: Diagnose) -> list[str]:
    """The finding in an object without faults, and what is hardly meant."""
    finding, notes = read_finding(SOURCE, raw), object_remarks(raw)
    if finding.status == OK:
        return notes
    command = f" with the command {finding.command}" if finding.command else ""
    runs = settings.appear_after
    after = f"after {runs} runs in a row" if runs > 1 else "at once"
    reported = f"reports {finding.status}{command}, which takes effect {after}"
    (shortened,) = within_budget(SOURCE, [finding])
    if shortened != finding:
        notes.append(f"the details have more than {DETAILS} bytes: only their hash is reported")
    return [reported, *notes]


def _inspect_command(path: str, settings: Diagnose) -> _Inspection:
    """Run a command twice; ``path`` is absolute."""
    faults: list[str] = []
    notes: list[str] = []
    directory, name = os.path.split(path)
    if is_name(name):
        try:
            with whitelist.opened(name, directory):
                pass
        except Forbidden as err:
            # It has to be installed for that.
            notes.append(f"would not be run where it is: {err}")
    else:
        faults.append(f"{quoted(name)} is not a command name (letters, digits, _ and - only)")
    runs = []
    for number in range(2):
        time.sleep(_PAUSE * number)
        started = time.monotonic()
        try:
            runs.append(_run(path, settings))
        except OSError as err:
            return [*faults, f"cannot be run: {reason_of(err)}"], notes
        seconds = time.monotonic() - started
        notes.append(f"run {number + 1} took {seconds:.2f} s of {settings.time_limit:g} s")
    for ended in runs:
        run_faults, run_notes = _inspect_object(ended.output, settings)
        if ended.fault or ended.status:
            unused = f"{ending(ended.status)}: what it printed is not used"
            faults.append(ended.fault or unused)
        faults += run_faults
        notes += run_notes
        if ended.errors:
            line = ended.errors.partition(b"\n")[0].decode(errors="backslashreplace")
            notes.append(f"prints on standard error, which goes to the log: {quoted(line)}")
    faults += _differences(*runs)
    return list(dict.fromkeys(faults)), list(dict.fromkeys(notes))


def _run(path: str, settings: Diagnose) -> Ended:
    """Run a command as `whitelist.run` does, wherever it lies; raises OSError."""
    command = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return run_supervised(
            [path],
            settings.time_limit,
            output_limit=settings.output_limit,
            executable=Executable(command),
            environment={},
            ladder=LADDER,
        )
    finally:
        os.close(command)


def _differences(first_run: Ended, second_run: Ended) -> Iterator[str]:
    """Where the outputs differ: each difference would be a new event in every run."""
    if first_run.output == second_run.output:
        return
    if object_faults(first_run.output) or object_faults(second_run.output):
        yield "prints something else each time"
        return
    first, second = parse(first_run.output), parse(second_run.output)
    if canonical(first) == canonical(second):
        yield "prints the same object in another order each time"
    for place, before, after in _value_differences(first, second):
        yield f"differs from run to run: {place} was {before}, then {after}"


def _value_differences(one: Any, two: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Each place where two JSON values differ, and what is there in both."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            inner = f"{place}.{key}" if place else key
            if key in one and key in two:
                yield from _value_differences(one[key], two[key], inner)
            else:
                yield inner, _shown(one.get(key, _NOTHING)), _shown(two.get(key, _NOTHING))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, pair in enumerate(zip(one, two, strict=True)):
            yield from _value_differences(*pair, f"{place}[{number}]")
    elif canonical(one) != canonical(two):
        yield place, _shown(one), _shown(two)


#: Stands for a key that is not there.
_NOTHING: Final = object()


def _shown(value: Any) -> str:
    if value is _NOTHING:
        return "missing"
    text = canonical(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
