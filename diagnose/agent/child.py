"""Having the self-diagnosis run every so often, by a process of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.supervision.supervisor import Outcome

_log = logging.getLogger(__name__)


class Diagnosing(threading.Thread):
    """Diagnoses, again ``interval`` seconds after it was begun, until it is stopped."""

    def __init__(
        self, diagnose: Callable[[], Outcome], take: Callable[[bytes], None], interval: float
    ) -> None:
        """``diagnose``: its result is the report, empty while another run is under way.

        It raises OSError when it cannot be begun.  ``take`` gets the report.
        """
        super().__init__(name="diagnosing", daemon=True)
        self._diagnose, self._take, self._interval = diagnose, take, interval
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
        """Diagnose; what went wrong."""
        try:
            outcome = self._diagnose()
        except OSError as err:
            return f"it cannot be started: {reason_of(err)}"
        if outcome.result is None:
            return outcome.fault
        if outcome.result:
            try:
                self._take(outcome.result)
            except StewardError as err:
                return f"what it printed cannot be used: {err}"
        return ""
