"""Ending what this process has started when it ends itself."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from ganeti_steward.core.supervision.descendants import (
    become_subreaper,
    descendants,
    end_descendants,
    state,
)

#: Seconds between the request to end and the kill.
_GRACE: Final = 0.5

#: Seconds between two checks whether all have ended.
_CHECK: Final = 0.01


def end_children() -> None:
    """End everything below this process, also what is in sessions of its own; within 2 s."""
    # What loses its parent from now on comes here, and is seen.
    become_subreaper()
    last, signalled = time.monotonic() + _GRACE, set[int]()
    while time.monotonic() < last:
        running = {pid for pid in descendants() if state(pid) not in "ZX"}
        if not running:
            break
        for pid in running - signalled:
            _request_end(pid)
        signalled |= running
        time.sleep(_CHECK)
    end_descendants()


def _request_end(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGTERM)
        else:
            os.kill(pid, signal.SIGTERM)
