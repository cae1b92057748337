"""Pairs of rules that are looked up are those that comparing all of them finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final

import pytest
from asserting import some
from call_counts import counted
from made_rules import ACTIONS, made_jobs, made_rules
from thorough import seeds

from ganeti_steward.plugins.filters.chain import Chain, link
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule
from ganeti_steward.plugins.filters.lint.lint import Remark, check_chain, lint
from ganeti_steward.plugins.filters.lint.reach import reach
from ganeti_steward.plugins.filters.lint.witness import (
    an_opcode,
    covers,
    made_up,
    number_for,
    reason_for,
    witness,
)
from ganeti_steward.plugins.filters.rule_notes import shown_action


def can_match(rule: FilterRule) -> bool:
    each = all(reach(one, rule.watermark).possible for one in rule.predicates)
    return each and number_for([rule]) is not None


def meet(one: FilterRule, other: FilterRule) -> bool:
    """Whether both match one job, with the reason of one of them and the one that luxid adds."""
    both = [one, other]
    number, opcode = number_for(both), an_opcode(both)
    if number is None or opcode is None:
        return False
    reasons = [reason_for(rules) for rules in (both, [one], [other])]
    jobs = [made_up(number, opcode, [reason]) for reason in reasons if reason is not None]
    return any(all(link(rule).matched(job) == rule for rule in both) for job in jobs)


def pairwise(rules: Sequence[FilterRule]) -> dict[str, set[tuple[str, str]]]:
    """Check -> pairs of an earlier and a later rule, each compared with each."""
    acting = [one for one in rules if one.action != CONTINUE and can_match(one)]
    shadowed = {}
    for earlier, later in combinations(acting, 2):
        if later.uuid not in shadowed and covers(earlier, later):
            shadowed[later.uuid] = earlier.uuid
    left = [one for one in acting if one.uuid not in shadowed]
    contradicting = [
        (one, other)
        for one, other in combinations(left, 2)
        if one.priority == other.priority and shown_action(one) != shown_action(other)
    ]
    certain = [
        (one, other)
        for one, other in contradicting
        if covers(other, one) or witness([one, other]) is not None
    ]
    possible = [*certain, *(pair for pair in contradicting if meet(*pair))]
    return {
        "shadowed": {(one, key) for key, one in shadowed.items()},
        "certain": {(one.uuid, other.uuid) for one, other in certain},
        "possible": {(one.uuid, other.uuid) for one, other in possible},
    }


def looked_up(findings: Sequence[Remark], check: str) -> set[tuple[str, str]]:
    return {(one.text.split()[1], one.uuid) for one in findings if one.check == check}


@pytest.mark.parametrize("seed", seeds(60, 2000))
def test_lint_finds_what_comparing_all_pairs_finds(seed: int) -> None:
    rules = made_rules(random.Random(seed), 10)
    found, wanted = list(check_chain(rules)), pairwise(rules)
    assert looked_up(found, "shadowed") == wanted["shadowed"]
    # A job that luxid's own reason makes one of both may be found beside them.
    assert wanted["certain"] <= looked_up(found, "overlap") <= wanted["possible"]


@pytest.mark.parametrize("seed", seeds(60, 2000))
def test_a_chain_finds_what_trying_all_rules_finds(seed: int) -> None:
    rng = random.Random(seed)
    chain = Chain(made_rules(rng, 30))
    for job in some(made_jobs(rng)):
        tried = (one.matched(job) for one in chain.links if one.rule.action != CONTINUE)
        assert chain.applying(job) == next(filter(None, tried), None)
        assert [*chain.matching(job)] == [*filter(None, (one.matched(job) for one in chain.links))]


KINDS: Final[tuple[Callable[[int], list[Any]], ...]] = (
    lambda at: ["opcode", ["=", "instance_name", f"web{at}"]],
    lambda at: ["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "name", f"web{at}"]]],
    lambda at: ["reason", ["=", "reason", f"maintenance {at}"]],
)


def many(count: int, *, priorities: bool) -> list[FilterRule]:
    """Rules about different instances, tags and reasons."""
    return [
        FilterRule(f"{at:05}", at * priorities, (KINDS[at % 3](at),), ACTIONS[2 + at % 4 // 2 * 2])
        for at in range(count)
    ]


@pytest.mark.parametrize("priorities", [True, False])
def test_the_work_grows_with_the_number_of_rules(priorities: bool) -> None:
    """And not with its square, which would be 16 times as much."""
    _, little = counted(lambda: lint(many(100, priorities=priorities), {}))
    _, much = counted(lambda: lint(many(400, priorities=priorities), {}))
    assert much < 6 * little
