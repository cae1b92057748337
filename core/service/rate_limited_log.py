"""Warnings that any caller can bring about as often as he likes: one a minute is enough."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds without another warning after one.
PAUSE: Final = 60.0


class RateLimitedLog:
    """Warns of one thing; may be used by several threads."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: seconds."""
        self._log, self._clock = log, clock
        self._next = float("-inf")
        self._lock = threading.Lock()

    def warning(self, text: str, cause: BaseException | None = None) -> bool:
        """Log it, unless there was a warning shortly before; whether it was logged.

        ``cause``: an error whose traceback follows.
        """
        with self._lock:
            now = self._clock()
            if now < self._next:
                return False
            self._next = now + PAUSE
        self._log.warning("%s", text, exc_info=cause)
        return True
