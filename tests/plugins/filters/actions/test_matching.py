"""How much work one decision about held jobs does, and what becomes of the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count

import pytest
from call_counts import counted
from made_rules import made_jobs, made_rules
from thorough import often

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.actions.changes import RELEASE, Releases
from ganeti_steward.plugins.filters.actions.matching import Matches, Work, WorkOver
from ganeti_steward.plugins.filters.actions.releasing import decide
from ganeti_steward.plugins.filters.filter_rules import (
    ACCEPT,
    PAUSE,
    RATE_LIMIT,
    REJECT,
    FilterRule,
    Rules,
)
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.rule_notes import ACTION_SOURCE
from ganeti_steward.plugins.model.filter_action import Release, Verdict

A = "aaaaaaaa-1111-4111-8111-111111111111"


def rules_about_names(number: int, pattern: str = "^web%d[a-z]+$") -> list[FilterRule]:
    """Each cancels the creation of other instances."""
    return [
        FilterRule(
            f"{at:08}-0000-4000-8000-000000000000",
            1,
            (
                [
                    "opcode",
                    [
                        "&",
                        ["=", "OP_ID", "OP_INSTANCE_CREATE"],
                        ["=~", "instance_name", pattern.replace("%d", str(at))],
                    ],
                ],
            ),
            REJECT,
        )
        for at in range(number)
    ]


def creations(number: int, first: int = 1) -> list[Job]:
    return [
        Job(at, opcodes=({"OP_ID": "OP_INSTANCE_CREATE", "instance_name": f"srv{at}.lab"},))
        for at in range(first, first + number)
    ]


def held(priority: int = 50) -> FilterRule:
    return FilterRule(A, priority, (), PAUSE, reasons=(Reason(ACTION_SOURCE, "OPEN", 0),))


def open_now(rule: FilterRule, job: Job, occupied: int) -> Verdict:
    return Release("it is open", final=rule.action == ACCEPT)


def decided(
    rules: Sequence[FilterRule],
    jobs: Sequence[Job],
    work: Work | None = None,
    matches: Matches | None = None,
) -> Releases:
    ordered = tuple(sorted(rules, key=lambda rule: rule.order))
    return decide(Rules(ordered, {}), jobs, open_now, work, matches)


def released(found: Releases) -> list[int]:
    return [one.job for one in found.changes if one.kind == RELEASE]


def sentences(found: Releases) -> list[tuple[str, str]]:
    return [(one.brake, one.sentence) for one in found.held]


def test_rules_about_other_names_are_hardly_work() -> None:
    """A test of each of 2000 rules at each of 200 jobs would be millions of calls."""
    found, calls = counted(lambda: decided([*rules_about_names(2000), held()], creations(200)))
    assert len(released(found)) == 200
    assert calls < 2_000_000


@pytest.mark.parametrize("number", [400, 2000])
def test_one_decision_does_so_much(number: int) -> None:
    """Without a text that has to be there each rule is tried; the work has an end all the same."""
    rules = rules_about_names(number, "[0-9]%d$|x")
    jobs = creations(number)
    found, calls = counted(lambda: decided([*rules, held()], jobs, Work(100_000)))
    assert calls < 3_000_000 + 400 * number
    some_jobs = len(released(found))
    assert 0 < some_jobs < number
    ((brake, sentence),) = sentences(found)
    assert brake == "round"
    first = some_jobs + 1
    assert sentence.startswith(f"the work of one decision was not enough for jobs {first}, ")
    assert sentence.endswith(
        f" and {number - some_jobs - 5} more; the next rounds go on with what is left"
    )


def test_the_next_decisions_do_the_rest() -> None:
    """What is known already is no work; a release is not taken back meanwhile."""
    rules, jobs = [*rules_about_names(100, "[0-9]%d$|x"), held()], creations(100)
    matches = Matches()
    known = set[int]()
    for _ in range(20):
        found = decided(rules, jobs, Work(3000), matches)
        assert {one.kind for one in found.changes} <= {RELEASE}
        known |= set(released(found))
        rules += [one.rule(5) for one in found.changes]
    assert known == {job.number for job in jobs}
    assert decided(rules, jobs, Work(3000), matches) == Releases()


def test_a_job_that_takes_too_much_does_not_keep_the_others() -> None:
    """Each of the first ones would take the work of a whole decision."""
    opcode = creations(1)[0].opcodes[0]
    heavy = [Job(at, priority=-20, opcodes=(opcode,) * 300) for at in range(1, 41)]
    light = creations(10, 100)
    rules, matches = [*rules_about_names(50, "[0-9]%d$|x"), held()], Matches()
    found = set[int]()
    for _ in range(3):
        found |= set(released(decided(rules, [*heavy, *light], Work(20_000), matches)))
    assert found == {job.number for job in light}


def test_another_set_of_rules_is_looked_at_again() -> None:
    matches, jobs = Matches(), creations(3)
    assert released(decided([held()], jobs, matches=matches)) == [1, 2, 3]
    assert released(decided([held(), FilterRule("b", 1)], jobs, matches=matches)) == [1, 2, 3]
    pause = FilterRule("b", 1, (["opcode", ["=~", "instance_name", "^srv2"]],), PAUSE)
    assert released(decided([held(), pause], jobs, matches=matches)) == [1, 3]
    assert released(decided([held()], jobs, matches=matches)) == [1, 2, 3]
    other = jobs[1]._replace(opcodes=({"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "srv2"},))
    changed = [jobs[0], other._replace(opcodes=()), jobs[2]]
    assert released(decided([held(), pause], changed, matches=matches)) == [1, 2, 3]


def test_the_time_is_over() -> None:
    """The clock is looked at before the work, and during it."""
    rules, jobs = [*rules_about_names(200, "[0-9]%d$|x"), held()], creations(200)
    assert released(decided(rules, jobs, Work(10**9, lambda: True))) == []
    looks = count()
    some_released = released(decided(rules, jobs, Work(10**9, lambda: next(looks) > 10)))
    assert 0 < len(some_released) < 100


def test_a_started_job_that_is_not_known_may_count_for_a_limit() -> None:
    running = creations(1)[0]._replace(status="running")
    running = running._replace(opcodes=running.opcodes * 5000)
    rules = [*rules_about_names(10, "[0-9]%d$|x"), held(), FilterRule("l", 60, (), RATE_LIMIT, 1)]
    found = decided(rules, [running, *creations(2, 5)], Work(10_000))
    assert found.changes == ()
    assert sentences(found) == [
        (
            "filter-action",
            "OPEN holds jobs 5, 6: the work of one decision was not enough for job 1, which may "
            "add to a limit",
        )
    ]


def test_a_released_job_is_held_again_where_it_is_not_looked_at() -> None:
    jobs = creations(1)
    (release,) = decided([held()], jobs).changes
    late = decided([held(), release.rule(5)], jobs, Work(0))
    assert [one.sentence for one in late.changes] == [
        "hold job 1 again: the work of one decision was not enough for it"
    ]


def test_many_rules_that_hold_are_not_a_line_each() -> None:
    rules = [
        FilterRule(
            f"{at:08}-0000-4000-8000-000000000000",
            0,
            (["jobid", ["=", "id", at]],),
            PAUSE,
            reasons=(Reason(ACTION_SOURCE, "OPEN", 0),),
        )
        for at in range(1, 101)
    ]
    found = decided(rules, creations(100))
    assert len(found.held) == 21
    assert (
        found.held[-1].sentence == "80 more filter rules hold jobs 21, 22, 23, 24, 25 and 75 more"
    )


@pytest.mark.parametrize("seed", range(often(60, 2000)))
def test_many_small_decisions_end_as_one_large_one(seed: int) -> None:
    rng = random.Random(seed)
    rules = [*made_rules(rng, 20), held(1)]
    jobs = [job._replace(status="queued") for job in made_jobs(rng)]
    matches, small = Matches(), [Work(400) for _ in range(40)]
    for work in small:
        found = decided(rules, jobs, work, matches)
    assert found == decided(rules, jobs)


def test_the_share_of_a_job() -> None:
    """A twentieth; what comes after all others may take the rest."""
    work = Work(100)
    work.begin_job(late=False)
    work.take(5)
    with pytest.raises(WorkOver):
        work.take(1)
    work.begin_job(late=False)
    work.take(5)
    work.begin_job(late=True)
    work.take(89)
    with pytest.raises(WorkOver):
        work.take(6)
    assert not work.is_over
    with pytest.raises(WorkOver):
        work.take(2)
    assert work.is_over
