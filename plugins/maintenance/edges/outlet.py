"""The one way in which the daemon calls what only reports its work: it never stops that work.

What fails is logged once until that is over, is tried again with the next report, and is a problem
meanwhile, which status, page and metrics show.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.texts import describe_fault, utc_time

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class _Failing(NamedTuple):
    """The failures until now."""

    fault: str
    """why the last one failed"""
    since: int
    """when the first one failed, ns since the epoch"""
    times: int
    logged: bool
    """whether the log has this fault"""


class Outlet:
    """One place that work is reported to; may be used by several threads."""

    def __init__(self, failure: str, clock: Callable[[], int] = time.time_ns) -> None:
        """``failure``: what it means when it fails, as the beginning of a sentence.

        ``clock``: ns since the epoch.
        """
        self._failure, self._clock = failure, clock
        self._warnings = RateLimitedLog(_log)
        self._failing: _Failing | None = None

    def __call__(self, work: Callable[[], _Result], otherwise: _Result) -> _Result:
        """What some work of reporting returns; ``otherwise`` where it fails."""
        try:
            result = work()
        except Exception as err:
            self._failing = self._noted(err, self._failing)
            return otherwise
        before, self._failing = self._failing, None
        if before and before.logged:
            _log.info("this works again after %d failures: %s", before.times, self._failure)
        return result

    @property
    def problems(self) -> tuple[Held, ...]:
        """What fails at present; nothing where it works."""
        if not (now := self._failing):
            return ()
        often = f"failed {now.times} times since {utc_time(now.since)}"
        sentence = f"{self._failure}: {now.fault} ({often}; the next report tries it again)"
        return (Held("cluster", "reporting", sentence),)

    def _noted(self, err: Exception, before: _Failing | None) -> _Failing:
        """The failures with this one, which is logged unless the log has one like it."""
        fault = reason_of(err) if isinstance(err, OSError) else describe_fault(err)
        logged = before is not None and before.logged and before.fault == fault
        if not logged:
            # An error that nothing expects is one of the program.
            cause = err.__cause__ if isinstance(err, OSError | StewardError) else err
            logged = self._warnings.warning(f"{self._failure}: {fault}", cause)
        if before is None:
            return _Failing(fault, self._clock(), 1, logged)
        return _Failing(fault, before.since, before.times + 1, logged)
