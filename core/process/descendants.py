"""Ending everything below this process, in whatever group, session or generation it is.

A subreaper (prctl 2) becomes the parent of every process below it that loses its own.  So what
leaves its process group, forks twice or kills its parent becomes a child of the subreaper in the
end.  When the kernel reports no child any more, nothing is left.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.process.forked import LIBC

#: Of prctl(2).
_SET_CHILD_SUBREAPER: Final = 36

#: Seconds in which what was killed has to be gone, and in which what waits for a disk has.
_GRACE: Final = 1.0
_WAITING_GRACE: Final = 0.2

#: Seconds in which what was requested to end may do so by itself.
_REQUESTED: Final = 0.5

#: Seconds after which it is no longer tried.
_LONGEST_GRACE: Final = 10.0

#: Seconds between two looks.
_PAUSE: Final = 0.005

#: How often the list of children is read again where a thread has ended meanwhile.
_TRIES: Final = 100

#: SIGKILL among the pending signals of /proc/PID/status.
_KILLED: Final = 1 << (signal.SIGKILL - 1)

#: Seconds; what was started within them under one id is one process.
_SAME_START: Final = 1.0

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process, distinguished from others that had its id."""

    pid: int
    """process id"""
    started: float
    """seconds since boot: the clock may be set in between"""


def become_subreaper(*, become: bool = True) -> None:
    """Be the parent of whatever loses its own below this process, or be it no longer."""
    with suppress(AttributeError):
        LIBC.prctl(_SET_CHILD_SUBREAPER, int(become), 0, 0, 0)


def children(pid: int | None = None) -> set[int]:
    """The children of a process, of this one by default, those that have ended included."""
    place = f"/proc/{os.getpid() if pid is None else pid}/task"
    for _ in range(_TRIES):
        try:
            return _listed(place)
        except ProcessLookupError:
            return set()
        except FileNotFoundError:
            if not os.path.exists(place):
                return set()
            if not os.path.exists("/proc/thread-self/children"):
                break
            # A thread has just ended: its children are another thread's now.
    return _children_of_all(pid)


def _listed(place: str) -> set[int]:
    pids = set[int]()
    for task in os.listdir(place):
        with open(f"{place}/{task}/children", "rb") as file:
            pids.update(map(int, file.read().split()))
    return pids


def _children_of_all(pid: int | None) -> set[int]:
    """The same on a kernel without lists of children; psutil is loaded only for that.

    A system disk that is dead gives no module any more.
    """
    import psutil

    with suppress(psutil.Error):
        return {child.pid for child in psutil.Process(pid).children()}
    return set()


def descendants(spare: frozenset[int] = frozenset()) -> set[int]:
    """Everything below this process, but not below its children in ``spare``."""
    pids, todo = set[int](), children() - spare
    while todo:
        pid = todo.pop()
        pids.add(pid)
        todo |= children(pid) - pids
    return pids


def end_descendants(
    grace: float = _GRACE, spare: frozenset[int] = frozenset()
) -> frozenset[Process]:
    """Kill everything below this process, which has to be a subreaper, until nothing is left.

    Gives what does not end within ``grace`` seconds although it was killed.  What is only slow to
    end, or is forked again and again, has longer.  ``spare``: children that stay.
    """
    begun, before, quiet = time.monotonic(), set[int](), 0
    while True:
        running = {pid for pid in descendants(spare) if not _reaped(pid)}
        quiet = 0 if running else quiet + 1
        # A list of children may lack one that has just come; only without others is there more.
        if (spare and quiet > 1) or (quiet and not spare and _is_childless()):
            return frozenset()
        for pid in running:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        passed = time.monotonic() - begun
        # In that time everything that is not about to end has been killed at least twice.
        if running and passed > _WAITING_GRACE and all(map(_waits, running)):
            return frozenset(filter(None, map(process, running)))
        if passed > _LONGEST_GRACE or (passed > grace and all(map(stuck, running))):
            return frozenset(filter(None, map(process, running)))
        if running & before or not running:
            time.sleep(_PAUSE)
        before = running


def _reaped(pid: int) -> bool:
    """Reap a child; whether it had ended.  One of a child's own is that child's to reap."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return state(pid) in "ZX"


def _is_childless() -> bool:
    """Reap what has ended; whether the kernel knows no child any more."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def stuck(pid: int) -> Process | None:
    """A process that was killed and is there all the same; None where it is not.

    One that waits for a disk has the state D, but so has one that is about to go on: only a
    SIGKILL without effect distinguishes them.
    """
    started = _started(pid)
    if started is None or state(pid) in "ZX":
        return None
    return Process(pid, started) if any(map(_has_kill_pending, _tasks(pid))) else None


def _waits(pid: int) -> bool:
    return state(pid) == "D" and stuck(pid) is not None


def is_there(process: Process) -> bool:
    """Whether a process has not ended yet."""
    started = _started(process.pid)
    same = started is not None and abs(started - process.started) < _SAME_START
    return same and state(process.pid) not in "ZX"


def process(pid: int) -> Process | None:
    """The process that has an id now; None where there is none."""
    started = _started(pid)
    return None if started is None else Process(pid, started)


def state(pid: int) -> str:
    """A process's state as the kernel names it, X where it is gone.

    Its first thread may have ended before the others; then it is that of another one.
    """
    states = [fields[0] for fields in map(_fields, _tasks(pid)) if fields]
    return next((letter for letter in states if letter not in "ZX"), states[0] if states else "X")


def _tasks(pid: int) -> list[str]:
    """The directories of a process's threads."""
    with suppress(OSError):
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    return []


def _fields(place: str) -> list[str]:
    """The figures of a process or thread behind its name, which may hold anything."""
    with suppress(OSError), open(f"{place}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()
    return []


def _started(pid: int) -> float | None:
    fields = _fields(f"/proc/{pid}")
    return round(int(fields[19]) / _TICKS, 2) if fields else None


def _has_kill_pending(place: str) -> bool:
    with suppress(OSError), open(f"{place}/status", "rb") as file:
        lines = dict(line.split(b":", 1) for line in file if b":" in line)
        pending = (lines.get(name, b"0") for name in (b"SigPnd", b"ShdPnd"))
        return any(int(mask, 16) & _KILLED for mask in pending)
    return False


def end_children() -> None:
    """End everything below this process, also what is in sessions of its own; within 2 s."""
    # What loses its parent from now on comes here, and is seen.
    become_subreaper()
    last, signalled = time.monotonic() + _REQUESTED, set[int]()
    while time.monotonic() < last:
        running = {pid for pid in descendants() if state(pid) not in "ZX"}
        if not running:
            break
        for pid in running - signalled:
            _request_end(pid)
        signalled |= running
        time.sleep(_PAUSE)
    end_descendants()


def _request_end(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGTERM)
        else:
            os.kill(pid, signal.SIGTERM)
