"""Following a child until it ends, and ending it and its process group; how it ended, in words.

The child is the leader of its group.  It is not reaped before the group has been signalled
for the last time, so the number of the group is surely still its own.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.process.forked import Stopped
from ganeti_steward.core.process.frames import packed, unpacked

#: Signals to a child whose time is over, each with the seconds it then has to end.
Ladder = Sequence[tuple[signal.Signals, float]]
LADDER: Final[Ladder] = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))

#: Bytes of standard error that are kept; the rest is read and dropped.
_ERRORS_KEPT: Final = 2**16

#: Seconds between two checks whether a child has ended: a signalled one, or one whose pipes stay
#: open.
_CHECK: Final = 0.005
_CHECK_OPEN: Final = 0.05

#: Processes that could not be killed; they are reaped when they have ended after all.
_abandoned: list[int] = []


class Ended(NamedTuple):
    """How a program has ended."""

    status: int
    """exit status; negative is the signal that ended it"""
    output: bytes
    errors: bytes
    """the beginning of its standard error"""
    fault: str = ""
    """why it was stopped; empty when it ended by itself"""


class _Head(NamedTuple):
    """What is sent ahead of a program's output and standard error."""

    status: int
    fault: str
    length: int
    """bytes of the output"""


def packed_ended(ended: Ended) -> bytes:
    """How a program has ended, for another process."""
    head = _Head(ended.status, ended.fault, len(ended.output))
    return packed(head, ended.output + ended.errors)


def unpacked_ended(raw: bytes) -> Ended:
    """The same in the other process."""
    head: _Head
    head, body = unpacked(_Head, raw)
    return Ended(head.status, body[: head.length], body[head.length :], head.fault)


def has_ended(pid: int) -> bool:
    """Whether a child has ended; it is not reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def ends_within(pid: int, seconds: float) -> bool:
    """Wait for a child's end; whether it came in time."""
    last = time.monotonic() + seconds
    while not has_ended(pid):
        if time.monotonic() >= last:
            return False
        time.sleep(_CHECK)
    return True


def signal_group(pid: int, number: signal.Signals) -> bool:
    """Signal a process group; whether it exists."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def end_group(pid: int, ladder: Ladder) -> int:
    """End a whole group: signalled, killed, at last abandoned; the leader's exit status.

    A negative status is the signal that ended the leader.
    """
    for number, grace in ladder:
        if not has_ended(pid):
            if not signal_group(pid, number):
                # The child has not made its group yet.
                os.kill(pid, number)
            ends_within(pid, grace)
    if not has_ended(pid):
        _abandoned.append(pid)
        return -signal.SIGKILL
    signal_group(pid, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # Where this process ignores SIGCHLD, the kernel has reaped it; else what ends everything.
        return 0 if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN else -signal.SIGKILL


def reap_abandoned() -> None:
    """Reap those that could not be killed and have ended since."""
    for pid in _abandoned[:]:
        if has_ended(pid):
            _abandoned.remove(pid)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def ending(status: int) -> str:
    """How a process ended, in words; a negative ``status`` is the signal."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by the signal {-status}"


def follow(
    pid: int,
    output: int,
    errors: int,
    limit: float,
    output_limit: int,
    ladder: Ladder,
    around: float = 0,
    stopped: str = "",
) -> Ended:
    """Follow a child, the leader of a session, until it has ended or been abandoned.

    ``output`` and ``errors`` are the descriptors of what it prints; they stay open.  It has
    ``limit`` seconds, and those of ``around`` for what belongs not to its work.  The
    ladder's come on top.  ``stopped``: what is wrong where this process gets a request to end;
    without it `Stopped` is raised.
    """
    reap_abandoned()
    reading = _Reading(pid, output, errors, output_limit)
    deadline = time.monotonic() + limit + around
    try:
        fault = reading.until(deadline, f"killed after {limit:g} s", ladder[-1][1])
    except Stopped:
        if not stopped:
            raise
        fault = stopped
    finally:
        status = end_group(pid, ladder)
    if stopped and fault == stopped:
        reading.rest(ladder[-1][1])
    return Ended(status, bytes(reading.output), bytes(reading.errors), fault)


class _Reading:
    """What a running program has printed so far."""

    def __init__(self, pid: int, output: int, errors: int, output_limit: int) -> None:
        self.output, self.errors = bytearray(), bytearray()
        self._pid, self._limit, self._stdout = pid, output_limit, output
        self._open = {output, errors}
        self._poll = select.poll()
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)

    def until(self, deadline: float, overrun: str, grace: float) -> str:
        """Read until the program has ended; gives back why it has to be stopped."""
        while not has_ended(self._pid):
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                return overrun
            if self._open:
                self._read(min(seconds, _CHECK_OPEN))
            else:
                time.sleep(min(seconds, _CHECK))
            if len(self.output) > self._limit:
                return f"killed, it printed more than {self._limit} bytes"
        signal_group(self._pid, signal.SIGKILL)
        return self.rest(grace)

    def rest(self, grace: float) -> str:
        """Read what is there; a child of its own may hold the pipes open for ever."""
        last = time.monotonic() + grace
        while self._open and self._read(0) and time.monotonic() < last:
            if len(self.output) > self._limit:
                return f"printed more than {self._limit} bytes"
        return ""

    def _read(self, seconds: float) -> bool:
        """Take what the pipes hold; whether there was anything."""
        ready = self._poll.poll(seconds * 1000)
        for descriptor, _ in ready:
            chunk = os.read(descriptor, 2**16)
            if not chunk:
                self._poll.unregister(descriptor)
                self._open.remove(descriptor)
            elif descriptor == self._stdout:
                self.output += chunk
            else:
                self.errors += chunk[: _ERRORS_KEPT - len(self.errors)]
        return bool(ready)
