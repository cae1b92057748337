"""The process that runs one source and writes lines of results.

The source's complaints go to standard error.  What comes out is described in
`ganeti_steward.diagnose.sources.result_lines`.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import BinaryIO, NoReturn, TextIO

from ganeti_steward.core import forked
from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.service.memory_lock import lock_memory_again
from ganeti_steward.diagnose.sources.result_lines import (
    DONE,
    LONGEST_REASON,
    OwnName,
    line_or_fault,
    to_line,
)

#: A source: called without arguments, it returns what it knows.
Source = Callable[[], Iterable[CheckResult | OwnName] | None]

_log = logging.getLogger(__name__)


class _TimeIsUp(BaseException):
    """Raised in a source whose time is over; no ``except Exception`` stops it."""


def start_worker(name: str, source: Source, output: int, errors: int) -> int:
    """Fork a worker; its process id.  It writes to these descriptors.  Raises OSError."""
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = forked.fork()
        if not pid:
            _work(name, source, output, errors, parent)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(name: str, source: Source, output: int, errors: int, parent: int) -> NoReturn:
    """Run a source and exit, whatever threads it has left behind."""
    status = 1
    try:
        # Not the caller's file: a worker that cannot be killed must not hold it.
        _log_to_standard_error()
        forked.detach((output,), errors)
        _drop_standard_output()
        _reset_signals()
        forked.end_with_parent(parent)
        lock_memory_again()
        os.chdir("/")
        importlib.invalidate_caches()
        with open(output, "wb") as lines:
            _write_results(name, source, lines)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _log_to_standard_error() -> None:
    """The caller logs what comes there."""
    logger = logging.getLogger("ganeti_steward")
    logger.handlers, logger.propagate = [_StandardError()], False


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _drop_standard_output() -> None:
    with open(os.devnull, "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 1)


def _reset_signals() -> None:
    """Whatever the caller ignores or blocks, the source and its programs do not."""
    signal.signal(signal.SIGTERM, _stop)
    forked.reset_signals(keep=(signal.SIGTERM,))


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _TimeIsUp


def _write_results(name: str, source: Source, output: BinaryIO) -> None:
    """Write each result as soon as the source has it."""
    own = os.getpid()
    for line in _lines(name, source):
        if os.getpid() != own:
            # A child the source forked, running on into what is not its own.
            os._exit(1)
        output.write(line + b"\n")
        output.flush()


def _lines(name: str, source: Source) -> Iterator[bytes]:
    try:
        results = source()
        names: tuple[str, ...] = (name,)
        for result in () if results is None else results:
            if isinstance(result, OwnName):
                names = (name, result.name)
            yield line_or_fault(name, names, result)
    except _TimeIsUp:
        _log.warning("stopped here, its time was over:", exc_info=True)
        return
    except BaseException as err:
        # Also what is no Exception, as SystemExit.
        _log.warning("failed:", exc_info=True)
        yield to_line((name,), Unknown(name, f"failed: {sentence(err)}"[:LONGEST_REASON]))
    yield DONE
