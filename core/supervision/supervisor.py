"""A process that does some work for this one, and leaves nothing of it running.

It is the subreaper of all that the work starts, which is killed when the work is done, when the
supervisor gets a signal, and when the process that has started it ends in whatever way.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn

from ganeti_steward.core import forked
from ganeti_steward.core.process_group import end_group, ending, ends_within
from ganeti_steward.core.service.memory_lock import lock_memory_again
from ganeti_steward.core.supervision.descendants import (
    Process,
    become_subreaper,
    end_descendants,
    is_there,
    process,
)

#: What a supervisor does; its result is carried to the caller.
Work = Callable[[], bytes]

#: Signals that end a supervisor, and all that is below it.
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: Seconds a supervisor may need in addition to its work: to begin, and to end everything.
AROUND: Final = 5.0

#: Seconds it has to end everything when it is stopped.
_STOPPING: Final = 4.0

#: What is wrong with work that was stopped.
_STOPPED: Final = "it was stopped"


class Outcome(NamedTuple):
    """What came of some work."""

    result: bytes | None
    """None where there is none"""
    fault: str = ""
    """why there is none"""
    number: int = 0
    """of the OSError that the work ended with"""
    stuck: frozenset[Process] = frozenset()
    """what it has started and what cannot be killed"""
    reported: bool = True
    """whether the supervisor has ended everything; else it was killed itself"""


#: Starts a supervisor: gets the work, the descriptor for the message, and descriptors that the
#: work needs; returns the process id, raises OSError.
Start = Callable[[Work, int, Sequence[int]], int]


class _Stopped(BaseException):
    """Raised in the work when the supervisor gets a signal."""


class Supervisor:
    """A supervisor that was started, as its parent sees it."""

    def __init__(
        self, work: Work, start: Start | None = None, descriptors: Sequence[int] = ()
    ) -> None:
        """Start it; raises OSError.

        ``start``: `program.program_supervisor` where this process has other threads, by default
        `forked_supervisor`.  ``descriptors``: those of this process that the work needs.
        """
        self._reading, writing = os.pipe()
        self._received, self._complete = bytearray(), False
        try:
            self.pid = (start or forked_supervisor)(work, writing, descriptors)
        except BaseException:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)

    def fileno(self) -> int:
        """The descriptor to wait at."""
        return self._reading

    def read(self) -> bool:
        """Take what has come; whether that is all."""
        chunk = os.read(self._reading, 2**20)
        self._received += chunk
        self._complete = not chunk
        return self._complete

    def stop(self) -> None:
        """Request that it ends with everything below it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def finish(self, seconds: float = _STOPPING) -> Outcome:
        """What came of the work; a supervisor that does not end is killed.

        ``seconds``: how long it may take to end.
        """
        if not self._complete:
            self._read_until(time.monotonic() + seconds)
        own = None if ends_within(self.pid, seconds) else process(self.pid)
        status = end_group(self.pid, ((signal.SIGKILL, 0.2),))
        os.close(self._reading)
        outcome = _outcome(bytes(self._received), status)
        stays = own is not None and is_there(own)
        return outcome._replace(stuck=outcome.stuck | {own}) if stays and own else outcome

    def wait(self, seconds: float) -> Outcome:
        """What came of the work; after so many seconds the supervisor is stopped."""
        try:
            if not self._read_until(time.monotonic() + seconds):
                self.stop()
                self._read_until(time.monotonic() + _STOPPING)
        except BaseException:
            self.stop()
            self.finish()
            raise
        return self.finish()

    def _read_until(self, deadline: float) -> bool:
        """Read until all has come; whether it came in time."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            if self.read():
                return True
        return False


def _outcome(raw: bytes, status: int) -> Outcome:
    """What a supervisor has sent: its own line, the worker's line, and the result."""
    first, _, rest = raw.partition(b"\n")
    try:
        about: dict[str, Any] = json.loads(first)
        found = frozenset(Process(*one) for one in about["stuck"])
    except (ValueError, TypeError, KeyError):
        fault = f"the process that supervises it {ending(status)}"
        return Outcome(None, fault, reported=False)
    if about["fault"]:
        return Outcome(None, about["fault"], stuck=found)
    second, _, result = rest.partition(b"\n")
    try:
        done: dict[str, Any] = json.loads(second)
    except ValueError:
        return Outcome(None, "it has left no result", stuck=found)
    fault = done["fault"] or ("" if done["length"] == len(result) else "its result is not complete")
    return Outcome(None if fault else result, fault, done["number"], found)


def forked_supervisor(work: Work, writing: int, descriptors: Sequence[int]) -> int:
    """Fork a supervisor; only for a process that has no other threads."""
    parent = os.getpid()
    with _signals_blocked():
        pid = forked.fork()
        if not pid:
            supervise(work, writing, descriptors, parent)
    return pid


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Let no handler of the parent run in the child."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def supervise(work: Work, writing: int, descriptors: Sequence[int], parent: int) -> NoReturn:
    """Be a supervisor, the child of ``parent``: have it worked, end everything, report, exit.

    A process of its own does the work, for a program may kill its parent.
    """
    status = 1
    try:
        # Out of the way of the standard streams, should the parent have closed some of them.
        writing = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 3)
        forked.detach((writing, *descriptors), 2)
        for number in ENDING:
            signal.signal(number, _stop)
        become_subreaper()
        forked.end_with_parent(parent, signal.SIGTERM)
        lock_memory_again()
        result = os.memfd_create("result")
        outcome = _supervised(work, result, writing)
        _report(writing, outcome, result)
        status = 0
    finally:
        # None of the parent's handlers at exit.
        os._exit(status)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _ignore_signals()
    raise _Stopped


def _ignore_signals() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _supervised(work: Work, result: int, writing: int) -> Outcome:
    """Have the work done, and nothing of it left; its result is in the file ``result``."""
    worker, fault = 0, _STOPPED
    with suppress(_Stopped):
        # Not before: a signal that has come meanwhile is raised here.
        forked.reset_signals(ENDING)
        with _signals_blocked():
            worker = _fork_worker(work, result, writing)
        fault = _reap_until_end_of(worker)
        _ignore_signals()
    if worker and fault is _STOPPED:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
        ends_within(worker, _STOPPING - 1)
    return Outcome(None, fault, stuck=end_descendants())


def _reap_until_end_of(worker: int) -> str:
    """Reap orphans as they end, until the worker does; what is wrong with its end."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == worker:
            return (status and f"its process {ending(os.waitstatus_to_exitcode(status))}") or ""


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
        except Exception as err:
            fault = f"{type(err).__name__}: {err}"
        _ignore_signals()
    with open(result, "wb", closefd=False) as file:
        file.write(json.dumps({"fault": fault, "number": number, "length": len(given)}).encode())
        file.write(b"\n" + given)


def _report(writing: int, outcome: Outcome, result: int) -> None:
    """Send what the worker has left to the caller, behind what is known about its end."""
    about = {"fault": outcome.fault, "stuck": sorted(outcome.stuck)}
    os.lseek(result, 0, os.SEEK_SET)
    with suppress(BrokenPipeError), open(writing, "wb") as to, open(result, "rb") as source:
        to.write(json.dumps(about).encode() + b"\n")
        to.write(source.read())
