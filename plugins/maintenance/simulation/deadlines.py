"""When the next round can decide something else although nothing has happened in between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.windows import is_open, read_window
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.simulation.assumptions import SECOND

#: ns after which routine work that waits is looked at again: a plugin has times of its own.
_ROUTINE: Final = 600 * SECOND


def next_deadline(outcome: Round, settings: Maintd, now: int) -> int | None:
    """ns since the epoch, later than ``now``; None: not before something happens."""
    found = [
        at for one in outcome.incidents.values() for at in _of_incident(one, settings) if at > now
    ]
    # What has seconds left is decided again after them.
    lefts = [value for one in outcome.held for name, value in one.values if name == "left"]
    found += [now + _ns(left + 1) for left in lefts if isinstance(left, int)]
    if any(one.brake == "window" for one in outcome.held):
        found.append(opening(settings.windows, now, time.localtime(now / SECOND).tm_gmtoff))
    if outcome.decision and outcome.decision.since:
        found.append(now + _ROUTINE)
    if outcome.fault:
        found.append(now + int(settings.round_interval * SECOND))
    return min(found, default=None)


def _of_incident(one: Incident, settings: Maintd) -> Iterator[int]:
    """Times at which the step compares an incident with a setting."""
    yield one.retry_at
    if one.healthy_since is not None:
        yield one.healthy_since + _ns(settings.healthy_delay)
    if not one.state.begun:
        yield one.observed_since + _ns(settings.hold_time)
    if one.state.handled:
        yield one.changed + _ns(settings.fold_after)
    if one.active:
        # The alarm is raised when more time than that has passed.
        yield one.progressed + _ns(settings.stuck_after) + SECOND


def _ns(seconds: float) -> int:
    return int(seconds * SECOND)


def opening(windows: Sequence[str], now: int, utc_offset: int) -> int:
    """When the next of the windows opens, ns since the epoch; ``utc_offset``: s."""
    local = datetime.fromtimestamp(now // SECOND, UTC) + timedelta(seconds=utc_offset)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    starts = [found.start for text in windows if (found := read_window(text))]
    opened = min(
        at
        for day in range(_DAYS)
        for start in starts
        for at in [midnight + timedelta(days=day, minutes=start)]
        if at > local.replace(tzinfo=None) and is_open(windows, at)
    )
    return int((opened.replace(tzinfo=UTC).timestamp() - utc_offset) * SECOND)


#: Every window opens within a week, counted from last midnight.
_DAYS: Final = 9
