"""Reports count while they are fresh: polling may have stopped."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.maintenance.world import Observation, Reported, Silent, World
from ganeti_steward.plugins.maintenance.config import Maintd

_SECOND: Final = 10**9


def without_old_reports(world: World, config: Maintd) -> World:
    """The world with silence in place of each report that is too old.

    A report is checked when it is polled (``report-max-age``); until the next poll, and one that
    fails after it, it grows older.
    """
    limit = config.report_max_age + 2 * config.poll_interval + config.poll_time_limit
    observations = {
        uuid: _checked(found, world.now, limit) for uuid, found in world.observations.items()
    }
    return world._replace(observations=observations)


def _checked(found: Observation, now: int, limit: float) -> Observation:
    age = (now - found.at) / _SECOND if isinstance(found, Reported) else 0
    if not isinstance(found, Reported) or age <= limit:
        return found
    return Silent(found.at, f"the last report is {age:.0f} s old, more than {limit:g} s")
