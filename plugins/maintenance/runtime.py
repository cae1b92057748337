"""Time and threads as the daemon uses them; a simulation of the daemon has others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Running(Protocol):
    """A thread."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, for so many seconds at most."""

    def is_alive(self) -> bool:
        """Whether it has not ended."""


def start_thread(name: str, work: Callable[[], None]) -> Running:
    """Do some work in a thread of its own; raises RuntimeError where none can be started."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


class Runtime(NamedTuple):
    """What everything that waits or runs beside the rounds is built on."""

    clock: Callable[[], int] = time.time_ns
    """ns since the epoch"""
    monotonic: Callable[[], float] = time.monotonic
    """s"""
    sleep: Callable[[float], None] = time.sleep
    """s"""
    start: Callable[[str, Callable[[], None]], Running] = start_thread
    """name and work of a thread -> the thread"""


#: That of this machine.
REAL = Runtime()
