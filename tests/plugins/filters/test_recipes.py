"""Recipes have the effect their names say, in luxid's dialect, also next to each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest
from asserting import some

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import faults_of
from ganeti_steward.plugins.filters.recipes import (
    DAEMON_JOBS,
    PRIORITIES,
    Allowed,
    drain,
    forbid,
    limit,
    moved,
    only,
    soft_drain,
)
from ganeti_steward.plugins.filters.scheduling import Pass, schedule

#: The last job when the rules were written.
MARK: Final = 10
OLD, NEW = 9, 11
BUNNY: Final = Allowed("gnt:user", "pink bunny")
PONY: Final = Allowed("gnt:user", "pony")

EVERY: Final = {
    "drain": drain(),
    "drain-allow": drain([BUNNY]),
    "soft-drain": soft_drain(),
    "soft-drain-allow": soft_drain([BUNNY, PONY]),
    "only": only([BUNNY]),
    "only-new": only([BUNNY, DAEMON_JOBS], new=True),
    "forbid": forbid(),
    "limit": limit(2),
}


def job(
    number: int, *reasons: tuple[str, str], op: str = "OP_TEST_DELAY", status: str = "queued"
) -> Job:
    usual = Reason("gnt:opcode:test_delay", f"job={number};index=0", 3)
    trail = tuple(Reason(*reason, 2) for reason in reasons)
    return Job(number, status, opcodes=({"OP_ID": op},), reasons=(*trail, usual))


def outcome(jobs: Iterable[Job], *recipes: list[FilterRule]) -> Pass:
    """One pass with the rules of recipes, each with a uuid and the same watermark."""
    rules = [rule for recipe in recipes for rule in recipe]
    named = [rule._replace(uuid=f"{at:03}", watermark=MARK) for at, rule in enumerate(rules)]
    return schedule(list(jobs), Chain(named), 20)


@pytest.mark.parametrize("recipe", PRIORITIES)
def test_every_recipe_is_tried(recipe: str) -> None:
    assert recipe in EVERY, f"tests/plugins/filters/test_recipes.py: add {recipe} to EVERY"


@pytest.mark.parametrize("name", EVERY)
def test_luxid_takes_them(name: str) -> None:
    for rule in some(EVERY[name]):
        assert faults_of(rule.predicates) == []


def test_drain() -> None:
    result = outcome([job(OLD), job(NEW)], drain())
    assert result.started == (OLD,)
    assert set(result.canceled) == {NEW}


def test_drain_lets_through_what_it_allows() -> None:
    jobs = [
        job(NEW, BUNNY),
        job(NEW + 1, ("other", BUNNY.text)),
        job(NEW + 2, ("gnt:user", "pink")),
    ]
    result = outcome(jobs, drain([BUNNY]))
    assert result.started == (NEW,)
    assert set(result.canceled) == {NEW + 1, NEW + 2}


def test_soft_drain() -> None:
    result = outcome([job(OLD), job(NEW)], soft_drain())
    assert (result.started, set(result.waiting)) == ((OLD,), {NEW})
    assert outcome([job(NEW, PONY)], soft_drain([BUNNY, PONY])).started == (NEW,)


def test_only() -> None:
    result = outcome([job(OLD), job(NEW), job(NEW + 1, BUNNY, ("x", "y"))], only([BUNNY]))
    assert (result.started, set(result.waiting)) == ((NEW + 1,), {OLD, NEW})
    assert outcome([job(OLD), job(NEW)], only([BUNNY], new=True)).started == (OLD,)


def test_the_jobs_of_the_daemon() -> None:
    repair = job(NEW, ("gnt:daemon:maintd", "0f0f0f0f-1111-2222-3333-444444444444"))
    assert outcome([repair], only([BUNNY])).started == ()
    assert outcome([repair], only([BUNNY, DAEMON_JOBS])).started == (NEW,)


@pytest.mark.parametrize("opcode", ["OP_INSTANCE_CREATE", "OP_INSTANCE_MULTI_ALLOC"])
def test_forbid(opcode: str) -> None:
    result = outcome([job(OLD, op=opcode), job(NEW, op=opcode), job(NEW + 1)], forbid())
    assert (result.started, set(result.canceled)) == ((NEW + 1,), {OLD, NEW})


def test_forbid_other_opcodes() -> None:
    rules = forbid(["OP_INSTANCE_MIGRATE"])
    assert set(outcome([job(NEW, op="OP_INSTANCE_MIGRATE")], rules).canceled) == {NEW}
    assert outcome([job(NEW, op="OP_INSTANCE_CREATE")], rules).started == (NEW,)


def test_limit() -> None:
    replacements = [job(number, op="OP_INSTANCE_REPLACE_DISKS") for number in range(3, 8)]
    result = outcome([*replacements, job(NEW)], limit(2))
    assert result.started == (3, 4, NEW)
    running = job(2, op="OP_INSTANCE_REPLACE_DISKS", status="running")
    assert outcome([running, *replacements], limit(2)).started == (3,)


def test_the_drain_of_another_owner_is_independent() -> None:
    """Each holds until it is removed itself, whatever the other one lets through."""
    mine, other = only([BUNNY]), drain()
    for recipes in ((mine, other), (other, mine)):
        result = outcome([job(NEW, BUNNY)], *recipes)
        assert set(result.canceled) == {NEW}
    assert outcome([job(NEW, BUNNY)], mine).started == (NEW,)
    assert set(outcome([job(NEW, BUNNY)], drain(), drain()).canceled) == {NEW}
    assert outcome([job(NEW, BUNNY)], mine, soft_drain()).started == ()
    assert outcome([job(NEW, BUNNY, op="OP_INSTANCE_CREATE")], mine, forbid()).started == ()
    assert outcome([job(NEW, BUNNY)], drain([BUNNY]), soft_drain()).started == ()


def test_two_maintenances_run_side_by_side() -> None:
    jobs = [job(NEW, BUNNY), job(NEW + 1, PONY), job(NEW + 2)]
    result = outcome(jobs, only([BUNNY]), only([PONY]))
    assert (result.started, set(result.waiting)) == ((NEW, NEW + 1), {NEW + 2})


def test_rules_of_equal_priority_and_different_action_do_not_overlap() -> None:
    """Two recipes with the same priority have the same action there."""
    actions: dict[int, set[str]] = {}
    for rules in EVERY.values():
        for rule in rules:
            actions.setdefault(rule.priority, set()).add(rule.action)
    assert all(len(found) == 1 for found in actions.values())
    assert set(actions) >= {first for pair in PRIORITIES.values() for first in pair}


def test_moved() -> None:
    assert [rule.priority for rule in moved(only([BUNNY]), 7)] == [7, 8]
    assert [rule.action for rule in moved(only([BUNNY]), 7)] == ["ACCEPT", "PAUSE"]
