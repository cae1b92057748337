"""A process that has some work done for its parent, and leaves nothing of it running.

It is the subreaper of all that the work starts, which is killed when the work is done, when the
supervisor gets a signal, and when the process that has started it ends in whatever way.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from ganeti_steward.core import forked
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.process_group import ending, ends_within
from ganeti_steward.core.service.memory_lock import lock_memory_again
from ganeti_steward.core.supervision.descendants import (
    Process,
    become_subreaper,
    end_descendants,
)

#: What a supervisor has done; its result is carried to the caller.
Work = Callable[[], bytes]

#: Seconds a supervisor has to end everything when it is stopped.
STOPPING: Final = 4.0

#: Signals that end a supervisor, and all that is below it; the last one when its time is over.
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


#: What is wrong with work that was stopped.
_STOPPED: Final = "it was stopped"


class _Stopped(BaseException):
    """Raised when the supervisor, or the process that works for it, gets a signal."""


def forked_supervisor(
    work: Work, writing: int, descriptors: Sequence[int] = (), limit: float = math.inf
) -> int:
    """Fork a supervisor; only for a process that has no other threads.

    ``writing``: the descriptor that its message is written to.  ``descriptors``: those that the
    work needs.  ``limit``: seconds the work may take.  Raises OSError.
    """
    parent = os.getpid()
    with _signals_blocked():
        pid = forked.fork()
        if not pid:
            supervise(work, writing, descriptors, parent, limit)
    return pid


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Let no handler of the parent run in the child."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def supervise(
    work: Work, writing: int, descriptors: Sequence[int], parent: int, limit: float = math.inf
) -> NoReturn:
    """Be a supervisor, the child of ``parent``: have it worked, end everything, report, exit.

    A process of its own does the work, for a program may kill its parent.
    """
    status = 1
    try:
        # Out of the way of the standard streams, should the parent have closed some of them.
        writing = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 3)
        forked.detach((writing, *descriptors), 2)
        for number in _ENDING:
            signal.signal(number, _stop)
        become_subreaper()
        forked.end_with_parent(parent, signal.SIGTERM)
        lock_memory_again()
        result = os.memfd_create("result")
        _report(writing, *_supervised(work, result, writing, limit), result)
        status = 0
    finally:
        # None of the parent's handlers at exit.
        os._exit(status)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _ignore_signals()
    raise _Stopped(number)


def _ignore_signals() -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _supervised(
    work: Work, result: int, writing: int, limit: float
) -> tuple[str, frozenset[Process]]:
    """Have the work done, its result put into the file ``result``, and nothing of it left.

    What is wrong with its end, and what cannot be killed.
    """
    worker = 0
    try:
        # Not before: a signal that has come meanwhile is raised here.
        forked.reset_signals(_ENDING)
        signal.setitimer(signal.ITIMER_REAL, 0 if math.isinf(limit) else limit)
        with _signals_blocked():
            worker = _fork_worker(work, result, writing)
        fault, worker = _reap_until_end_of(worker), 0
        _ignore_signals()
    except _Stopped as err:
        late = err.args == (signal.SIGALRM,)
        fault = f"killed after {limit:g} s" if late else _STOPPED
        if worker:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)
            ends_within(worker, STOPPING - 1)
    return fault, end_descendants()


def _reap_until_end_of(worker: int) -> str:
    """Reap orphans as they end, until the worker does; what is wrong with its end."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == worker:
            return f"its process {ending(os.waitstatus_to_exitcode(status))}" if status else ""


def _fork_worker(work: Work, result: int, writing: int) -> int:
    parent = os.getpid()
    pid = forked.fork()
    if not pid:
        try:
            os.close(writing)
            forked.end_with_parent(parent)
            lock_memory_again()
            _write_result(work, result)
        finally:
            os._exit(0)
    return pid


def _write_result(work: Work, result: int) -> None:
    """Work; what came of it goes into the file: a line of JSON, then the result."""
    given, fault, number = b"", _STOPPED, 0
    with suppress(_Stopped):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            given, fault = work(), ""
        except OSError as err:
            fault, number = str(err.strerror or err), err.errno or 0
        except StewardError as err:
            fault = str(err)
        except Exception as err:
            fault = f"{type(err).__name__}: {err}"
        _ignore_signals()
    with open(result, "wb", closefd=False) as file:
        file.write(json.dumps({"fault": fault, "number": number, "length": len(given)}).encode())
        file.write(b"\n" + given)


def _report(writing: int, fault: str, stuck: frozenset[Process], result: int) -> None:
    """Send what the worker has left to the caller, behind what is known about its end."""
    about = {"fault": fault, "stuck": sorted(stuck)}
    os.lseek(result, 0, os.SEEK_SET)
    with suppress(BrokenPipeError), open(writing, "wb") as to, open(result, "rb") as source:
        to.write(json.dumps(about).encode() + b"\n")
        to.write(source.read())
