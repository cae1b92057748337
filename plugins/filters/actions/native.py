"""Ganeti's five actions, as verdicts."""

from __future__ import annotations

from ganeti_steward.core import hookimpl
from ganeti_steward.plugins.filters.filter_rules import ACCEPT, CONTINUE, PAUSE, RATE_LIMIT, REJECT
from ganeti_steward.plugins.model.filter_action import Facts, Hold, Reject, Release, Verdict


@hookimpl
def steward_filter_action(action: str, arguments: str, facts: Facts) -> Verdict | None:
    """What luxid does; ``RATE_LIMIT`` has its limit as its arguments."""
    if action == RATE_LIMIT:
        limit = int(arguments)
        text = f"{facts.occupied} of at most {limit} jobs have started"
        return Hold(text) if facts.occupied >= limit else Release(text, final=True)
    verdicts: dict[str, Verdict] = {
        ACCEPT: Release("the action is ACCEPT", final=True),
        CONTINUE: Release("the action is CONTINUE"),
        PAUSE: Hold("the action is PAUSE"),
        REJECT: Reject("the action is REJECT"),
    }
    return verdicts.get(action)
