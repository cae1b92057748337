"""Work that must not delay the daemon: one thing after another, in a thread that comes and goes."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ganeti_steward.core.service.rate_limited_log import RateLimitedLog

_Item = TypeVar("_Item")

#: Things that may wait; those that come then are dropped.
WAITING: Final = 1000

_log = logging.getLogger(__name__)


class Background(Generic[_Item]):
    """Does one kind of work, in the order in which it comes; may be used by several threads."""

    def __init__(self, name: str, work: Callable[[_Item], None], waiting: int = WAITING) -> None:
        """``name``: what the work is, for the log; ``waiting``: things that may wait."""
        self._name, self._work, self._limit = name, work, waiting
        self._lock = threading.Lock()
        self._waiting = deque[_Item]()
        self._thread: threading.Thread | None = None
        self._dropped = RateLimitedLog(_log)

    def put(self, item: _Item) -> None:
        """Have it done; never waits."""
        with self._lock:
            if len(self._waiting) >= self._limit:
                self._dropped.warning(f"{self._name}: {self._limit} wait already, one is dropped")
                return
            self._waiting.append(item)
            self._start()

    def _start(self) -> None:
        if self._thread:
            return
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as err:
            # It is tried again with the next one.
            self._dropped.warning(f"{self._name}: {err}")
            return
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                item = self._waiting.popleft()
            try:
                self._work(item)
            except Exception:
                _log.exception("%s failed", self._name)

    def finish(self, seconds: float) -> bool:
        """Wait until everything is done, for some seconds at most; whether it is."""
        with self._lock:
            thread = self._thread
        if thread:
            thread.join(seconds)
        return not thread or not thread.is_alive()
