"""The program that runs one source: a call in, lines of results out.

Standard input holds a pickled `Job`; standard output gets the results
(`ganeti_steward.diagnose.sources.result_lines`), standard error the source's complaints.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import BinaryIO, NamedTuple, NoReturn

from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.diagnose.sources.result_lines import (
    DONE,
    LONGEST_REASON,
    line_or_fault,
    to_line,
)

#: A source: called without arguments, it returns what it knows.
Source = Callable[[], Iterable[CheckResult] | None]

_log = logging.getLogger(__name__)


class Job(NamedTuple):
    """What a worker does."""

    name: str
    source: bytes
    """the pickled `Source`; read when whatever fails there can be reported"""
    log_level: int
    """of the logging module"""


class _TimeIsUp(BaseException):
    """Raised in a source whose time is over; no ``except Exception`` stops it."""


def main() -> NoReturn:
    """Run the job of standard input and exit, whatever threads the source has left behind."""
    job: Job = pickle.load(sys.stdin.buffer)
    status = 1
    try:
        with _own_output() as output:
            _log_to_standard_error(job.log_level)
            _reset_signals()
            _write_results(job, output)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _own_output() -> BinaryIO:
    """Standard output under another number, where what a source prints does not get."""
    output = os.dup(1)
    with open(os.devnull, "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    return open(output, "wb")


def _log_to_standard_error(level: int) -> None:
    """The caller logs what comes there."""
    logger = logging.getLogger("ganeti_steward")
    logger.handlers, logger.propagate = [logging.StreamHandler(sys.stderr)], False
    logger.setLevel(level)


def _reset_signals() -> None:
    """Whatever the caller ignores or blocks, the source and its programs do not."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _stop)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _TimeIsUp


def _write_results(job: Job, output: BinaryIO) -> None:
    """Write each result as soon as the source has it."""
    own = os.getpid()
    for line in _lines(job):
        if os.getpid() != own:
            # A child the source forked, running on into what is not its own.
            os._exit(1)
        output.write(line + b"\n")
        output.flush()


def _lines(job: Job) -> Iterator[bytes]:
    try:
        source: Source = pickle.loads(job.source)
        results = source()
        for result in () if results is None else results:
            yield line_or_fault(job.name, result)
    except _TimeIsUp:
        _log.warning("stopped here, its time was over:", exc_info=True)
        return
    except BaseException as err:
        # Also what is no Exception, as SystemExit.
        _log.warning("failed:", exc_info=True)
        yield to_line(job.name, Unknown(job.name, f"failed: {sentence(err)}"[:LONGEST_REASON]))
    yield DONE
