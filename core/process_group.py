"""Ending a child and its process group, and reporting how it ended.

The child is the leader of its group.  It is not reaped before the group has been signalled
for the last time, so the number of the group is surely still its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

#: Signals to a child whose time is over, each with the seconds it then has to end.
Ladder = Sequence[tuple[signal.Signals, float]]
LADDER: Final[Ladder] = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))

#: Seconds between two checks whether a signalled child has ended.
_CHECK: Final = 0.005

#: Processes that could not be killed; they are reaped when they have ended after all.
_abandoned: list[int] = []


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
