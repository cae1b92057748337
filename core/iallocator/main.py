"""``steward-iallocator``: the program Ganeti calls (allocation 1).

    steward-iallocator FILE [--option[=value] ...]

noded starts it as root, in ``/``, umask 077, ``LC_ALL=C``, without ``HOME``.  Standard
output carries exactly one JSON object, or nothing when the exit status is not 0.
"""

from __future__ import annotations

import gc
import os

# One short run: collecting garbage would only cost time, from the first import on.
gc.disable()
# The engine's arrays are far too small for several threads, whose start would cost more.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import orjson

from ganeti_steward.core import builtins, log
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, BadInput, StewardError, reason_of
from ganeti_steward.core.iallocator.dispatch import answer_parsed, left_out
from ganeti_steward.core.iallocator.history import About, Call, about, placed_folder, record
from ganeti_steward.core.iallocator.message import write_answer
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.cluster_reader import parse
from ganeti_steward.core.model.options import parse_cluster_options
from ganeti_steward.core.records import NamedTuple
from ganeti_steward.core.safe_files import UnsafeFile, read_in_time, read_limited
from ganeti_steward.core.version import VERSION

#: Bytes of a message; that of 1000 nodes with 10,000 instances has about 10 MB.
_LONGEST: Final = 2**28

#: Seconds until the whole message has been written into a FIFO.
_WAIT: Final = 10.0

USAGE: Final = """\
usage: steward-iallocator FILE [OPTION ...]

Answers one Ganeti iallocator request (JSON, '-' for standard input) on
standard output.

  --no-capacity-checks          nodes need not stay evacuable
  --ignore-soft-errors          drop the soft rules of the primary
  --restrict-allocation-to=A,B  only these nodes
  --partial-batches[=yes|no]    place what fits of a batch
  --static-kvm-node-memory=MIB  memory of a KVM node itself (default 4096)
  --mond[=yes|no]               use CPU load measured by the monitoring daemons
  --mond-xen                    with --mond: that of each Xen guest
  --mond-time-limit=SECONDS     time limit of all daemons together (default 5)
  --ignore-dynu                 use no measured load whatever else is given
  -h, --help                    this text
  -V, --version                 the version

Other options are ignored; the answer's info names them.
"""

#: What an option prints in place of an answer.
_TEXTS: Final = dict.fromkeys(("-h", "--help"), USAGE) | dict.fromkeys(
    ("-V", "--version"), f"steward-iallocator (ganeti-steward) {VERSION}\n"
)


class _Done(NamedTuple):
    """How a call ended."""

    status: int
    output: bytes
    """the answer, or the error text"""
    left_out: int = 0
    """number of instances without a place, where the others have one"""


def main() -> NoReturn:
    """Run the program and end the process.

    Everything is written by then.  Taking the interpreter down would cost time, and a
    thread that a plugin has left running could hold it back for ever.
    """
    status = run()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)


def run() -> int:
    """Answer the request named on the command line; returns the exit status."""
    started = time.time_ns()
    _open_standard_streams()
    # Whatever a plugin prints must not end up in the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    arguments = sys.argv[1:]
    for option, text in _TEXTS.items():
        if option in arguments:
            os.write(answer_to, text.encode())
            return EXIT_OK
    files = [a for a in arguments if a == "-" or not a.startswith("-")]
    options = tuple(_printable(a) for a in arguments if a != "-" and a.startswith("-"))
    raw, what = b"", About()
    config = Config()
    try:
        config = load_config(config_path(), builtins.ALLOCATION)
        log.set_up(config.log.file, config.log.level)
        for warning in config.warnings:
            logging.getLogger(__name__).warning("%s", warning)
        raw = _read(files)
        chosen = parse_cluster_options(options)
        message = builtins.completed(sent := parse(raw), started / 10**9)
        what = about(message)
        message = _with_recent(message, config, started)
        if message is not sent:
            # What is kept, and what other processes get, is what the answer is about.
            raw = orjson.dumps(message)
        outcome = answer_parsed(message, raw, chosen, config, explain=False)
        _keep_places(message, outcome, config, started)
        left = left_out(outcome, message["request"]["type"])
        done = _Done(EXIT_OK, write_answer(outcome), left)
    except StewardError as err:
        done = _failed(str(err))
    except Exception as err:
        # A fault of this program: the cause is for the log, the sentence for the user.
        logging.getLogger(__name__).exception("the request cannot be answered")
        text = " ".join(str(err).split())
        done = _failed(f"the request cannot be answered: {type(err).__name__}: {text}")
    done = _write(answer_to, done)
    call = Call(started, os.getpid(), options, done.status, what.type, what.instances)
    _keep(config, call._replace(left_out=done.left_out), what.cluster, raw, done.output)
    if done.status == EXIT_OK and "shadow" in config.sections:
        builtins.module(builtins.SHADOWS).start(
            config, raw, parse_cluster_options(options), done.output
        )
    return done.status


def _open_standard_streams() -> None:
    """Let those the caller has closed lead nowhere, so that no file takes their place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _printable(argument: str) -> str:
    """An option as it may appear in answers and logs, whatever bytes the caller gave."""
    if argument.isprintable():
        return argument
    return argument.encode("unicode_escape").decode()


def _failed(text: str) -> _Done:
    return _Done(EXIT_FAILURE, f"Error: {text}\n".encode(errors="backslashreplace"))


def _read(files: Sequence[str]) -> bytes:
    if not files:
        raise BadInput(["This program needs an input file."])
    if len(files) > 1:
        raise BadInput(["Only one argument is accepted (the input file)"])
    standard = files[0] == "-"
    name = "standard input" if standard else f"input file {files[0]!r}"
    try:
        if standard:
            return read_limited(os.dup(0), name, _LONGEST)
        return read_in_time(files[0], _LONGEST, _WAIT)
    except UnsafeFile as err:
        raise BadInput([f"{name}: {err.reason}"]) from None
    except (OSError, ValueError) as err:
        raise BadInput([f"{name}: {reason_of(err)}"]) from None


def _with_recent(message: dict[str, Any], config: Config, now: int) -> dict[str, Any]:
    """The message with what was placed a moment ago; ``now``: ns."""
    recent, folder = config.allocators.recent, placed_folder(config.history)
    if not recent or not os.path.isdir(folder):
        return message
    placements = builtins.module(builtins.RECENT_PLACEMENTS)
    counted: dict[str, Any] = placements.counted(message, folder, now, recent)
    return counted


def _keep_places(message: Mapping[str, Any], outcome: Outcome, config: Config, now: int) -> None:
    """Have later calls count what this one places, from before Ganeti has the answer."""
    placing = message["request"]["type"] in ("allocate", "multi-allocate")
    folder = placed_folder(config.history) if config.allocators.recent else ""
    if placing and folder and isinstance(outcome, Answer):
        placements = builtins.module(builtins.RECENT_PLACEMENTS)
        placements.keep(message, outcome.result, folder, now, os.getpid())


def _write(answer_to: int, done: _Done) -> _Done:
    """Hand over the answer, or the error text; returns how the call ended."""
    left = done.output
    try:
        while left:
            left = left[os.write(answer_to if done.status == EXIT_OK else 2, left) :]
    except OSError as err:
        if done.status == EXIT_OK:
            return _write(answer_to, _failed(f"the answer cannot be written: {err.strerror}"))
    return done


def _keep(config: Config, call: Call, cluster: str, raw: bytes, output: bytes) -> None:
    """Log the call and keep it; neither may spoil the answer, which is out already."""
    logger = logging.getLogger(__name__)
    text = output.decode(errors="replace").strip()
    milliseconds = (time.time_ns() - call.started) // 1_000_000
    if call.left_out:
        logger.warning(
            "type=%s instance=%s instances without a place: %d (success=%s)",
            call.type,
            call.instances,
            call.left_out,
            output.startswith(b'{"success":true'),
        )
    logger.info(
        "request type=%s instance=%s status=%d ms=%d bytes=%d options=%s answer=%s",
        call.type or "-",
        call.instances or "-",
        call.status,
        milliseconds,
        len(raw),
        " ".join(call.arguments) or "-",
        text if len(text) <= 2000 else text[:2000] + "...",
    )
    if not raw:
        return
    try:
        record(config.history, call, raw, output, cluster)
    except StewardError as err:
        logger.warning("%s", err)


if __name__ == "__main__":
    main()
