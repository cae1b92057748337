"""The parts of a rule as people write them, checked before anything is sent."""

from __future__ import annotations

from ganeti_steward.core.ganeti.filter_rules import RATE_LIMIT, FilterRule


def action_text(rule: FilterRule) -> str:
    """The action as gnt-filter takes it: ``PAUSE``, ``RATE_LIMIT 3``."""
    return f"{RATE_LIMIT} {rule.limit}" if rule.action == RATE_LIMIT else rule.action
