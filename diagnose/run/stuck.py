"""Processes of earlier runs that cannot be killed: they wait for a disk that does not answer.

A source that has left one is not run again while it is there.  Otherwise each run on such a node
would leave one more, until nothing can be started there any more.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import psutil

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.safe_files import UnsafeFile, read_own
from ganeti_steward.diagnose.run.files import write_file

#: Its name in the directory.
STUCK: Final = "stuck.json"

#: Bytes of the file.
_LONGEST: Final = 2**22

#: Of prctl(2).
_SET_CHILD_SUBREAPER: Final = 36

#: Ended, but not reaped.
_ENDED: Final = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)

#: Seconds; what was started within them under one id is one process.
_SAME_START: Final = 1.0


class Process(NamedTuple):
    """A process, distinguished from others that had its id."""

    pid: int
    """process id"""
    started: float
    """seconds since boot"""


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Be the parent of whatever loses its own below this process, so as to know of it.

    When this ends by an exception, as when the run is to end at once, they are killed.
    """
    import ctypes

    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        yield
        return
    others = _children()
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    except BaseException:
        for child in set(_children()).difference(others):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        raise
    finally:
        prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def stuck_children() -> frozenset[Process]:
    """The children of this process, adopted ones too, that wait and cannot be killed."""
    found = set()
    for child in _children():
        with suppress(psutil.NoSuchProcess):
            status = child.status()
            if status == psutil.STATUS_DISK_SLEEP:
                found.add(Process(child.pid, _started(child)))
            elif status in _ENDED:
                with suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)
    return frozenset(found)


def _children() -> list[psutil.Process]:
    return psutil.Process().children()


def is_there(process: Process) -> bool:
    """Whether a process has not ended yet."""
    try:
        found = psutil.Process(process.pid)
        same = abs(_started(found) - process.started) < _SAME_START
        return same and found.status() not in _ENDED
    except psutil.NoSuchProcess:
        return False


def _started(process: psutil.Process) -> float:
    """When a process was started, in seconds since boot: the clock may be set in between."""
    return round(process.create_time() - psutil.boot_time(), 2)


def read_stuck(directory: str) -> dict[str, frozenset[Process]]:
    """Which sources have left which processes that are still there."""
    try:
        given: Any = load_json(read_own(os.path.join(directory, STUCK), _LONGEST))
        left = {
            str(source): frozenset(
                process for process in (Process(*one) for one in each) if is_there(process)
            )
            for source, each in given.items()
        }
    except (OSError, UnsafeFile, ValueError, TypeError, AttributeError, OverflowError):
        # Nothing depends on it but how many of them there are.
        return {}
    return {source: each for source, each in left.items() if each}


def write_stuck(directory: str, left: Mapping[str, frozenset[Process]]) -> None:
    """Keep that for the next run; raises StewardError."""
    path = os.path.join(directory, STUCK)
    content = canonical({source: sorted(each) for source, each in left.items() if each}) + b"\n"
    try:
        if read_own(path, _LONGEST) == content:
            return
    except FileNotFoundError:
        if content == b"{}\n":
            return
    except (OSError, UnsafeFile):
        # `write_file` replaces a file that cannot be used, and refuses what is none.
        pass
    write_file(path, content)
