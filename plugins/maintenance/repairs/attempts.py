"""Whether something that failed for an instance is tried again, and when."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.incident import Attempt, Incident
from ganeti_steward.plugins.model.task import PREPARATIONS

_SECOND: Final = 10**9

#: s from what was done first to the next step, times how often it was done: disks connect.
_SHORT: Final = 5


class Retry(NamedTuple):
    """Why nothing is tried now."""

    reason: str
    """what failed last, and when it is tried again"""
    final: bool
    """whether it is not tried again"""


def tried_again_at(attempt: Attempt, settings: Maintd) -> int:
    """From when on something may be tried again, if it is at all, ns since the epoch."""
    prepared = attempt.step in PREPARATIONS and not attempt.failed
    pause = _SHORT * attempt.prepared if prepared else settings.retry_delay * attempt.tried
    return attempt.at + int(pause * _SECOND)


def retry(incident: Incident, instance: str, now: int, settings: Maintd) -> Retry | None:
    """Why nothing is tried for an instance now; None: it may be tried.

    ``instance``: empty for the node; ``now``: ns since the epoch.
    """
    attempt, most = incident.attempt(instance), settings.move_attempts
    tried = f"tried {attempt.tried} of {most} times, {attempt.reason}" if attempt.tried else ""
    if attempt.tried >= most:
        return Retry(tried, final=True)
    left = math.ceil((tried_again_at(attempt, settings) - now) / _SECOND)
    if left <= 0:
        return None
    what = tried or f"{attempt.step} has ended a moment ago"
    return Retry(f"{what}; tried again in {left} s", final=False)
