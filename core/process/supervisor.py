"""Having work done by a process that leaves nothing of it running.

A supervisor is the subreaper of all that its worker starts.  That is killed when the worker has
ended or is over its limits, when the supervisor gets a signal, and when the process that has
started it ends in whatever way.

It is a fork, or a program of its own where this process has other threads: a lock that another
thread holds stays locked in a fork for ever.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from ganeti_steward.core.builtins import target
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.process import following, forked
from ganeti_steward.core.process.descendants import (
    Process,
    become_subreaper,
    end_descendants,
    is_there,
    process,
)
from ganeti_steward.core.process.frames import packed, unpacked
from ganeti_steward.core.process.own_program import own_program
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.core.typed_json import from_json, to_json

#: Seconds a supervisor has to end everything when it is stopped.
STOPPING: Final = 4.0

#: Seconds it may need in addition to its work: to begin, and to end everything.
AROUND: Final = 5.0

#: What is wrong with a worker whose supervisor was stopped.
STOPPED: Final = "it was stopped"

#: What a worker does; its output goes to the descriptor.
Worker = Callable[[int], object]

_PROGRAM: Final = f"from {__name__} import supervise_for_program; supervise_for_program()"


class Limits(NamedTuple):
    """The limits of a worker, see `follow`."""

    seconds: float = math.inf
    output: int = 2**28
    """bytes"""
    ladder: following.Ladder = following.LADDER
    around: float = 0
    """seconds"""


class _Report(NamedTuple):
    """What a supervisor sends; how the worker has ended follows."""

    number: int
    """of the OSError where there was no worker"""
    stuck: tuple[Process, ...]


class Outcome(NamedTuple):
    """How a worker has ended."""

    ended: following.Ended
    number: int = 0
    """of the OSError where there was no worker"""
    stuck: frozenset[Process] = frozenset()
    """what it has started and what cannot be killed"""
    reported: bool = True
    """whether the supervisor has ended everything; else it was killed itself"""


#: Starts a supervisor: gets the worker, its limits, the descriptor for the message, and those that
#: the worker needs; returns the process id, raises OSError.
Start = Callable[[Worker, Limits, int, Sequence[int]], int]


# -- The supervisor


def forked_supervisor(
    worker: Worker, limits: Limits, writing: int, descriptors: Sequence[int]
) -> int:
    """Fork a supervisor; only for a process that has no other threads.  Raises OSError."""
    # How to write a report is found out here once, not in each child.
    packed(_Report(0, ()), following.packed_ended(following.Ended(0, b"", b"")))
    return forked.fork(partial(_supervise, worker, limits, writing, descriptors, os.getpid()))


class _Program(NamedTuple):
    """What a supervisor that is a program gets."""

    worker: str
    """its class, as ``module:name``"""
    content: Any
    """JSON of it"""
    limits: Limits
    writing: int
    descriptors: tuple[int, ...]
    parent: int
    """process id"""


def supervisor_program(
    worker: Worker, limits: Limits, writing: int, descriptors: Sequence[int]
) -> int:
    """Start a supervisor as a program; ``worker`` is a NamedTuple.  Raises OSError."""
    import subprocess

    kind: Any = type(worker)
    name, content = f"{kind.__module__}:{kind.__name__}", to_json(kind, worker)
    given = _Program(name, content, limits, writing, tuple(descriptors), os.getpid())
    with open(os.memfd_create("given"), "w+b") as file:
        file.write(packed(given))
        file.seek(0)
        started = subprocess.Popen(
            own_program(_PROGRAM),
            stdin=file,
            stdout=subprocess.DEVNULL,
            pass_fds=(writing, *descriptors),
            cwd="/",
        )
    # The caller follows and reaps it by its id.
    started.returncode = 0
    return started.pid


def supervise_for_program() -> None:
    """Do what standard input holds."""
    given: _Program
    given, _ = unpacked(_Program, sys.stdin.buffer.read())
    worker = from_json(target(given.worker), given.content)
    _supervise(worker, given.limits, given.writing, given.descriptors, given.parent)


def _supervise(
    worker: Worker, limits: Limits, writing: int, descriptors: Sequence[int], parent: int
) -> None:
    """Have a process do the work, end everything, and report; ``parent`` is a process id.

    A process of its own does the work, for a program may kill its parent.
    """
    number = 0
    forked.detach((writing, *descriptors), 2)
    become_subreaper()
    forked.end_with_parent(parent, signal.SIGTERM)
    try:
        # Not before: a signal that has come meanwhile is raised here.
        forked.reset_signals(*forked.ENDING)
        try:
            ended = _followed(worker, limits, descriptors)
        except OSError as err:
            ended, number = following.Ended(1, b"", b"", str(err.strerror)), err.errno or 0
        forked.ignore_signals(*forked.ENDING)
    except forked.Stopped:
        ended = following.Ended(-signal.SIGTERM, b"", b"", STOPPED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stuck = end_descendants()
    with suppress(BrokenPipeError), open(writing, "wb") as to:
        to.write(packed(_Report(number, tuple(sorted(stuck))), following.packed_ended(ended)))


def _followed(worker: Worker, limits: Limits, descriptors: Sequence[int]) -> following.Ended:
    """Run a worker and follow it; raises OSError when it cannot be started."""
    output, output_end = os.pipe()
    errors, errors_end = os.pipe()
    own = os.getpid()

    def work() -> None:
        forked.detach((output_end, *descriptors), errors_end)
        forked.renew_streams()
        forked.end_with_parent(own)
        forked.reset_signals(signal.SIGTERM)
        worker(output_end)

    pid = forked.fork(work)
    # Orphans of the worker's are reaped as they end.
    signal.signal(signal.SIGCHLD, lambda *_: _reap_all_but(pid))
    for descriptor in (output_end, errors_end, *descriptors):
        os.close(descriptor)
    return following.follow(pid, output, errors, *limits, STOPPED)


def _reap_all_but(worker: int) -> None:
    """Reap what has ended, up to the worker."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == worker:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


# -- Its parent


class Message:
    """The message of a supervisor, as far as it has come."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor``: what it is read from."""
        self._reading, self._received, self._complete = descriptor, bytearray(), False

    def fileno(self) -> int:
        """The descriptor to wait at."""
        return self._reading

    def read(self) -> bool:
        """Take what has come; whether that is all."""
        chunk = os.read(self._reading, 2**20)
        self._received += chunk
        self._complete = not chunk
        return self._complete

    def read_until(self, deadline: float) -> bool:
        """Read until all has come; whether it came before a moment of `time.monotonic`."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while not self._complete:
            if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
                return False
            self.read()
        return True

    def outcome(self, end: str) -> Outcome:
        """Its content; ``end``: how the supervisor has ended, in case that there is none."""
        report: _Report
        try:
            report, body = unpacked(_Report, bytes(self._received))
            ended = following.unpacked_ended(body)
        except ValueError:
            fault = f"the process that supervises it {end}"
            return Outcome(following.Ended(-signal.SIGKILL, b"", b"", fault), reported=False)
        return Outcome(ended, report.number, frozenset(report.stuck))


class Supervisor(Message):
    """A supervisor that was started, as its parent sees it."""

    def __init__(
        self,
        worker: Worker,
        limits: Limits,
        descriptors: Sequence[int] = (),
        start: Start = forked_supervisor,
    ) -> None:
        """Start it; raises OSError.

        ``descriptors``: those of this process that the worker needs, none of a standard stream.
        ``start``: `supervisor_program` where this process has other threads.
        """
        reading, writing = pipe()
        super().__init__(reading)
        try:
            self.pid = start(worker, limits, writing, descriptors)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)

    def stop(self) -> None:
        """Request that it ends with everything below it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def finish(self, seconds: float = STOPPING) -> Outcome:
        """How the worker has ended; a supervisor that does not end is killed.

        ``seconds``: how long it may take to end.
        """
        self.read_until(time.monotonic() + seconds)
        own = None if following.ends_within(self.pid, seconds) else process(self.pid)
        status = following.end_group(self.pid, ((signal.SIGKILL, 0.2),))
        os.close(self.fileno())
        outcome = self.outcome(following.ending(status))
        return outcome._replace(stuck=outcome.stuck | {own}) if own and is_there(own) else outcome

    def wait(self, seconds: float) -> Outcome:
        """How the worker has ended; after so many seconds the supervisor is stopped."""
        try:
            if not self.read_until(time.monotonic() + seconds):
                self.stop()
        except BaseException:
            self.stop()
            self.finish()
            raise
        return self.finish()


def run(
    worker: Worker,
    limits: Limits,
    descriptors: Sequence[int] = (),
    start: Start = forked_supervisor,
) -> Outcome:
    """Have work done, and end everything it has started; raises OSError where it cannot begin.

    The arguments are those of `Supervisor`.
    """
    ladder = sum(grace for _, grace in limits.ladder)
    supervisor = Supervisor(worker, limits, descriptors, start)
    return supervisor.wait(limits.seconds + limits.around + ladder + AROUND)


def pipe() -> tuple[int, int]:
    """A pipe out of the way of the standard streams, should this process have closed some."""
    ends = os.pipe()
    if min(ends) > 2:
        return ends
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends)
    for end in ends:
        os.close(end)
    return reading, writing


# -- Work with one result


class WorkFailed(StewardError):
    """Work that has no result, and why."""


class _Result(NamedTuple):
    """What a worker writes ahead of its result; without ``fault`` there is one."""

    fault: str = ""
    number: int = 0
    """of the OSError that the work ended with"""
    forbidden: bool = False


def write_result(work: Callable[[], bytes], output: int) -> None:
    """Work, and write the result for `result_of`."""
    head, result = _Result(), b""
    try:
        result = work()
    except OSError as err:
        head = _Result(str(err.strerror or err), err.errno or 0)
    except StewardError as err:
        head = _Result(str(err), forbidden=isinstance(err, Forbidden))
    except Exception as err:
        head = _Result(f"{type(err).__name__}: {err}")
    with open(output, "wb", closefd=False) as file:
        file.write(packed(head, result))


def result_of(outcome: Outcome) -> bytes:
    """The result of work; raises WorkFailed, and what it ended with: OSError, Forbidden."""
    number, (status, output, _, fault) = outcome.number, outcome.ended
    fault = fault or (f"its process {following.ending(status)}" if status else "")
    if not fault:
        head: _Result
        try:
            head, result = unpacked(_Result, output)
        except ValueError:
            raise WorkFailed("it has left no result") from None
        if not head.fault:
            return result
        fault, number = head.fault, head.number
        if head.forbidden:
            raise Forbidden(fault)
    raise OSError(number, fault) if number else WorkFailed(fault)
