"""Starting the self-diagnosis every so often, as a process of its own.

Whatever a collector does, it does it there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.process import run_program

#: Exit statuses of ``gnt-steward diagnose``: the object is printed; nothing is known, and the
#: report has the reason; another run is under way.
_USABLE: Final = (0, 1)
_BUSY: Final = 75

_log = logging.getLogger(__name__)


class Diagnosing(threading.Thread):
    """Runs a command, again ``interval`` seconds after it was begun, until it is stopped."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        take: Callable[[bytes], None],
        interval: float,
        limit: float,
    ) -> None:
        """``take`` gets what it prints; ``limit``: seconds after which one run is ended."""
        super().__init__(name="diagnosing", daemon=True)
        self._command, self._environment = tuple(command), dict(environment)
        self._take, self._interval, self._limit = take, interval, limit
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Start no more."""
        self._stopped.set()

    def run(self) -> None:
        """What the thread does."""
        wait = 0.0
        while not self._stopped.wait(wait):
            begun = time.monotonic()
            try:
                fault = self._once()
            except Exception as err:
                # Such as MemoryError: this thread would not be restarted.
                fault = sentence(err)
            if fault and not self._stopped.is_set():
                _log.warning("the self-diagnosis failed: %s", fault)
            wait = max(begun + self._interval - time.monotonic(), 0.0)

    def _once(self) -> str:
        """Run it; what went wrong."""
        try:
            ended = run_program(self._command, self._limit, environment=self._environment)
        except OSError as err:
            return f"it cannot be started: {reason_of(err)}"
        if ended.status == _BUSY and not ended.fault:
            return ""
        if ended.fault or ended.status not in _USABLE or not ended.output:
            complaint = quoted(" ".join(ended.errors.decode(errors="replace").split()))
            return f"{ended.fault or f'status {ended.status}'}; it printed {complaint}"
        try:
            self._take(ended.output)
        except StewardError as err:
            return f"what it printed cannot be used: {err}"
        return ""
