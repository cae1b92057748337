"""Filter rules in the stand-in for luxid: by default they have no effect on its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.plugins.filters.chain import Chain, Unknown
from ganeti_steward.plugins.filters.filter_rules import ACCEPT, CONTINUE, FilterRule
from ganeti_steward.plugins.filters.jobs import read_job

if TYPE_CHECKING:
    from standin import Row, StandIn


def obey_rules(stand_in: StandIn) -> None:
    """Start only jobs that the rules accept; without rate limits, and nothing is cancelled."""
    stand_in.queue.filtered = lambda job: _holds(stand_in, job)


def _holds(stand_in: StandIn, job: Row) -> bool:
    rules = [
        FilterRule(
            row["uuid"],
            row["priority"],
            tuple(row["predicates"]),
            row["action"] if isinstance(row["action"], str) else CONTINUE,
            watermark=row["watermark"],
        )
        for row in stand_in.filters.values()
    ]
    found = Chain(rules).applying(read_job(job))
    return isinstance(found, Unknown) or (found is not None and found.action != ACCEPT)
