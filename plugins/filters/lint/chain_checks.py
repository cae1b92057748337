"""Checks of rules beside each other: shadowed ones, and those whose order is an accident."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from ganeti_steward.plugins.filters.filter_rules import CONTINUE, PAUSE, REJECT, FilterRule
from ganeti_steward.plugins.filters.lint.covering import covers
from ganeti_steward.plugins.filters.lint.findings import ERROR, NOTE, WARNING, Finding
from ganeti_steward.plugins.filters.lint.reach import reach
from ganeti_steward.plugins.filters.lint.witness import number_for, witness
from ganeti_steward.plugins.filters.noted_action import noted_action, shown_action
from ganeti_steward.plugins.filters.purpose import purpose_of


def check_chain(rules: Sequence[FilterRule]) -> Iterator[Finding]:
    """All findings about valid rules in the order in which jobs meet them."""
    acting = [rule for rule in rules if rule.action != CONTINUE and _can_match(rule)]
    shadowed = set()
    for earlier, later in combinations(acting, 2):
        # An action that is not Ganeti's lets jobs through to later rules at some time.
        if noted_action(earlier) is None and later.uuid not in shadowed and covers(earlier, later):
            shadowed.add(later.uuid)
            level = NOTE if _harmless(earlier, later) else ERROR
            yield Finding(level, later.uuid, "shadowed", "", _shadowed(earlier))
    left = [rule for rule in acting if rule.uuid not in shadowed]
    for earlier, later in combinations(left, 2):
        if _contradict(earlier, later):
            yield Finding(WARNING, later.uuid, "overlap", "", _overlap(earlier))


def _can_match(rule: FilterRule) -> bool:
    each = all(reach(one, rule.watermark).possible for one in rule.predicates)
    return each and number_for([rule]) is not None


def _harmless(earlier: FilterRule, later: FilterRule) -> bool:
    """Whether the later rule is meant to take effect once the earlier one is removed.

    Several owners can hold the same jobs: the jobs wait for the last of them.
    """
    same = shown_action(earlier) == shown_action(later)
    owned = bool(purpose_of(earlier).kind and purpose_of(later).kind)
    return same or (owned and earlier.action in (PAUSE, REJECT))


def _contradict(one: FilterRule, other: FilterRule) -> bool:
    if one.priority != other.priority or shown_action(one) == shown_action(other):
        return False
    return covers(other, one) or witness([one, other]) is not None


def _shadowed(earlier: FilterRule) -> str:
    return (
        f"rule {earlier.uuid} comes before it and its action {shown_action(earlier)} applies to "
        "every job that this rule matches"
    )


def _overlap(earlier: FilterRule) -> str:
    return (
        f"rule {earlier.uuid} has the same priority and the action {shown_action(earlier)}, and "
        "jobs exist that both match: which one applies depends on which was written last"
    )
