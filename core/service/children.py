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
    """End all children and theirs, also those in sessions of their own."""
    known: set[int] = set()
    for number, seconds in _LADDER:
        last = time.monotonic() + seconds
        told: set[int] = set()
        while time.monotonic() < last:
            parents = _parents()
            # Whose parent has ended has another one by now, but was seen before.
            known = (known | _descendants(parents)) & parents.keys()
            if not known:
                return
            for pid in known - told:
                _signal(pid, number)
            told |= known
            time.sleep(_LOOK)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _descendants(parents: dict[int, int]) -> set[int]:
    found, todo = set[int](), {os.getpid()}
    while todo:
        todo = {pid for pid, parent in parents.items() if parent in todo} - found
        found |= todo
    return found


def _parents() -> dict[int, int]:
    """Process -> its parent, of all that have not ended."""
    found = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdecimal()}
    return {pid: parent for pid, parent in found.items() if parent}


def _parent(pid: str) -> int:
    """The parent of a process; 0 when the process is gone or has ended, or has none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may hold anything.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state in (b"Z", b"X") else int(parent)
