"""Ending what this process has started when it ends itself."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

import psutil

#: Signals, each with the seconds that are waited after it; together less than a second.
_LADDER: Final = ((signal.SIGTERM, 0.5), (signal.SIGKILL, 0.2))

#: Seconds between two checks whether all have ended.
_CHECK: Final = 0.01


def end_children() -> None:
    """End all children and theirs, also those in sessions of their own."""
    known = set[psutil.Process]()
    for number, seconds in _LADDER:
        last = time.monotonic() + seconds
        signalled = set[psutil.Process]()
        while time.monotonic() < last:
            # A process whose parent has ended is no child any more, but was seen before.
            known = {one for one in known.union(_children()) if _is_running(one)}
            if not known:
                return
            for process in known - signalled:
                _signal(process.pid, number)
            signalled |= known
            time.sleep(_CHECK)


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
