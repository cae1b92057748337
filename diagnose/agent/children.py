"""Ending what this process has started when it ends itself."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

#: Signals, each with the seconds that are waited after it; together less than a second.
_LADDER: Final = ((signal.SIGTERM, 0.5), (signal.SIGKILL, 0.2))

_LOOK: Final = 0.01


def end_children() -> None:
    """End all children with their process groups, whose leaders they are."""
    for number, seconds in _LADDER:
        last = time.monotonic() + seconds
        told: set[int] = set()
        while (found := _children()) and time.monotonic() < last:
            for pid in found - told:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, number)
            told |= found
            time.sleep(_LOOK)


def _children() -> set[int]:
    """The children that have not ended."""
    own = os.getpid()
    return {int(name) for name in os.listdir("/proc") if name.isdecimal() and _parent(name) == own}


def _parent(pid: str) -> int:
    """The parent of a process; 0 when the process is gone or has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may hold anything.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state in (b"Z", b"X") else int(parent)
