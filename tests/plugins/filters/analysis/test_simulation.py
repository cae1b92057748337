"""A job queue over time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import often

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.analysis.simulation import (
    Course,
    TimedJob,
    simulate,
    timed_jobs,
)
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID
from ganeti_steward.plugins.filters.scheduling import schedule

NAMES: Final = {"T": "OP_TAGS_SET", "D": "OP_TEST_DELAY"}


def rule(name: str, action: str, kind: str = "", at: int = 0, n: int = 0) -> FilterRule:
    predicates = (["opcode", ["=", "OP_ID", NAMES[kind]]],) if kind else ()
    return FilterRule(name, at, predicates, action, n)


def job(
    number: int, kind: str = "T", at: float = 0, lasts: float = 10, *texts: str, **more: Any
) -> TimedJob:
    canceled = more.pop("canceled", None)
    reasons = tuple(Reason("gnt:user", text, 1) for text in texts)
    made = Job(number, opcodes=({"OP_ID": NAMES[kind]},), reasons=reasons, **more)
    return TimedJob(made, at, lasts, canceled)


def times(jobs: Sequence[TimedJob], *rules: FilterRule, most: int = 20) -> dict[int, Any]:
    """Number -> start and end, or the outcome."""
    found = simulate(jobs, rules, LUXID, most)
    return {
        one.timed.job.number: one.outcome if one.started is None else (one.started, one.ended)
        for one in found
    }


def test_without_rules_all_run() -> None:
    assert times([job(1), job(2, "T", 3, 4)]) == {1: (0, 10), 2: (3, 7)}


def test_the_number_of_running_jobs() -> None:
    jobs = [job(1), job(2), job(3, priority=-5), job(4, "T", 1)]
    assert times(jobs, most=1) == {3: (0, 10), 1: (10, 20), 2: (20, 30), 4: (30, 40)}


def test_a_limit() -> None:
    jobs = [job(1), job(2), job(3), job(4, "D")]
    limit = rule("l", "RATE_LIMIT", "T", n=2)
    assert times(jobs, limit) == {1: (0, 10), 2: (0, 10), 3: (10, 20), 4: (0, 10)}


def test_paused_and_rejected_jobs() -> None:
    jobs = [job(1), job(2, "D"), job(3, "D", depends=(1,))]
    rules = rule("p", "PAUSE", "T"), rule("r", "REJECT", "D", at=1)
    assert times(jobs, *rules) == {1: "waiting", 2: "rejected", 3: "rejected"}
    first, second, third = simulate(jobs, rules[:1], LUXID, 20)
    assert first.waiting is not None
    assert (first.waiting.cause, first.rule) == ("paused", rules[0])
    assert (second.started, second.rule) == (0, None)
    assert third.waiting is not None
    assert (third.waiting.cause, third.waiting.behind) == ("depends", (1,))


def test_what_depends_on_a_rejected_job_starts_if_it_may() -> None:
    """Luxid cancels it unless its list of states has ``canceled``."""
    reject = rule("r", "REJECT", "T")
    jobs = [job(1), job(2, "D", depends=(1,)), job(3, "D", depends=(1,), canceled_with=(1,))]
    jobs += [job(4, "D", depends=(3,), canceled_with=(3,))]
    expected = {1: "rejected", 2: (0, 10), 3: "canceled", 4: "canceled"}
    assert times(jobs, reject) == expected
    assert times(jobs) == {1: (0, 10), 2: (10, 20), 3: (10, 20), 4: (20, 30)}
    one_at_a_time = times([*jobs, job(5, "D")], reject, most=1)
    assert one_at_a_time == expected | {5: (10, 20)}


def test_a_job_canceled_by_a_user_takes_along_what_depends_on_it() -> None:
    jobs = [job(1, canceled=50), job(2, "D", depends=(1,), canceled_with=(1,))]
    assert times(jobs, rule("p", "PAUSE", "T")) == {1: "canceled", 2: "canceled"}


@pytest.mark.parametrize(
    ("depends", "canceled_with"),
    [
        ([[5, ["success"]]], (5,)),
        ([[5, []]], (5,)),
        ([[5]], (5,)),
        ([[5, ["success", "canceled"]]], ()),
        ([[5, ["error"]], [4, ["canceled"]]], (5,)),
    ],
)
def test_whose_cancelation_cancels_a_job(depends: Any, canceled_with: tuple[int, ...]) -> None:
    row = {"id": 9, "ops": [{"OP_ID": "OP_TEST_DELAY", "depends": depends}], "duration": 1}
    assert timed_jobs([row], None)[0].job.canceled_with == canceled_with


def test_buckets() -> None:
    jobs = [job(1, "T", 0, 5, "rate-limit:1:x"), job(2, "D", 0, 5, "rate-limit:1:x"), job(3)]
    assert times(jobs) == {1: (0, 5), 2: (5, 10), 3: (0, 10)}
    assert times(jobs, rule("p", "PAUSE", "T")) == {1: "waiting", 2: "waiting", 3: "waiting"}


def test_canceling_a_queued_job_causes_no_pass() -> None:
    """What waited for it starts at the next one: when a job ends, or with the timer."""
    pause = rule("p", "PAUSE", "T")
    jobs = [job(1, canceled=50), job(2, "D", depends=(1,))]
    assert times(jobs, pause) == {1: "canceled", 2: (307, 317)}
    assert times([*jobs, job(3, "D", 0, 80)], pause)[2] == (80, 90)
    assert times([job(1, canceled=50)]) == {1: (0, 10)}


# Beside a simulation that gives the whole queue to the scheduler at each event


def slow(timed: Sequence[TimedJob], rules: Sequence[FilterRule], most: int) -> dict[int, Any]:
    chain, result, ends = Chain(rules), dict[int, Any](), dict[int, float]()
    queue: dict[int, Job] = {}
    todo = sorted(timed, key=lambda one: one.submitted)
    while todo or ends:
        now = min([*(one.submitted for one in todo), *ends.values()])
        for number in [one for one, end in ends.items() if end == now]:
            del queue[number], ends[number]
        for one in [one for one in todo if one.submitted == now]:
            queue[one.job.number] = one.job
            todo.remove(one)
        done = schedule(queue.values(), chain, most)
        for number in done.canceled:
            result[number] = "rejected"
            del queue[number]
        for number in done.started:
            queue[number] = queue[number]._replace(status="running")
            lasts = next(one.duration for one in timed if one.job.number == number)
            ends[number] = now + lasts
            result[number] = now, now + lasts
    return {**dict.fromkeys(queue, "waiting"), **result}


@st.composite
def loads(draw: st.DrawFn) -> list[TimedJob]:
    """Jobs that come in the order of their numbers."""
    found, at = [], 0
    for number in range(1, draw(st.integers(0, 14)) + 1):
        at += draw(st.sampled_from([0, 0, 1, 3]))
        texts = draw(st.sets(st.sampled_from(["rate-limit:1:x", "rate-limit:2:y"])))
        depends = draw(st.sets(st.integers(max(1, number - 3), number), max_size=1)) - {number}
        found.append(
            job(
                number,
                draw(st.sampled_from("TD")),
                at,
                draw(st.integers(0, 5)),
                *sorted(texts),
                priority=draw(st.sampled_from([0, 0, -10, 10])),
                depends=tuple(depends),
            )
        )
    return found


@st.composite
def rule_sets(draw: st.DrawFn) -> list[FilterRule]:
    actions = ["ACCEPT", "PAUSE", "REJECT", "CONTINUE", "RATE_LIMIT", "RATE_LIMIT", "RATE_LIMIT"]
    return [
        FilterRule(
            f"u{at}",
            at,
            draw(
                st.sampled_from(
                    [
                        (),
                        (["opcode", ["=", "OP_ID", "OP_TAGS_SET"]],),
                        (["jobid", ["<", "id", 6]],),
                        (["reason", ["=", "reason", "rate-limit:1:x"]],),
                    ]
                )
            ),
            action := draw(st.sampled_from(actions)),
            draw(st.integers(1, 3)) if action == "RATE_LIMIT" else 0,
        )
        for at in range(draw(st.integers(0, 4)))
    ]


@settings(max_examples=often(100, 400))
@given(loads(), rule_sets(), st.integers(1, 4))
def test_the_same_as_a_simulation_with_the_whole_queue(
    timed: list[TimedJob], rules: list[FilterRule], most: int
) -> None:
    assert times(timed, *rules, most=most) == slow(timed, rules, most)


@settings(max_examples=often(50, 200))
@given(loads(), rule_sets(), st.integers(1, 4))
def test_invariants(timed: list[TimedJob], rules: list[FilterRule], most: int) -> None:
    courses = simulate(timed, rules, LUXID, most)
    assert len(courses) == len(timed)
    at_a_time(courses, most)
    for limit in rules:
        if limit.action == "RATE_LIMIT":
            at_a_time([one for one in courses if one.rule == limit], limit.limit)
    for one in courses:
        action = None if one.rule is None else one.rule.action
        assert (action == "REJECT") == (one.outcome == "rejected")
        assert action != "PAUSE" or one.started is None
        assert one.started is None or one.started >= one.timed.submitted
        assert (one.outcome == "waiting") == (one.waiting is not None)
    if not any(one.action == "PAUSE" for one in rules):
        assert all(one.outcome in ("ended", "rejected") for one in courses)


def at_a_time(courses: Sequence[Course], most: int) -> None:
    """Never more than ``most`` of them run."""
    for one in courses:
        if one.started is not None and one.timed.duration:
            beside = [
                other
                for other in courses
                if other.started is not None
                and other.ended is not None
                and other.started <= one.started < other.ended
            ]
            assert len(beside) <= most


@pytest.mark.parametrize("paused", [False, True])
def test_a_day_of_many_jobs(paused: bool) -> None:
    """With a hundred rules, and a queue that is long in the middle of the day."""
    dice = random.Random(5)
    jobs = [
        job(
            number,
            dice.choice("TD"),
            dice.randrange(86400),
            dice.expovariate(1 / 120),
            *(["rate-limit:3:x"] if number % 50 == 0 else []),
            priority=dice.choice([0, 0, -10]),
        )
        for number in range(1, often(500, 10_000) + 1)
    ]
    jobs = [
        one._replace(
            job=one.job._replace(
                opcodes=({**one.job.opcodes[0], "duration": one.job.number % 200},)
            )
        )
        for one in jobs
    ]
    rules = [
        FilterRule(
            f"u{at:03}",
            at,
            (["opcode", ["=", "duration", at]], ["jobid", [">", "id", at * 90]]),
            "RATE_LIMIT",
            1,
        )
        for at in range(97)
    ]
    rules.append(rule("x", "RATE_LIMIT", "T", at=97, n=5))
    rules.append(rule("y", "PAUSE" if paused else "RATE_LIMIT", "D", at=98, n=9))
    found = simulate(jobs, rules, LUXID, 12)
    assert {one.outcome for one in found} == ({"ended", "waiting"} if paused else {"ended"})


# Rows of files


def test_times_of_rows() -> None:
    ops = [{"OP_ID": "OP_TEST_DELAY"}]
    rows: list[dict[str, Any]] = [
        {
            "id": 1,
            "ops": ops,
            "received_ts": [100, 500000],
            "start_ts": [110, 0],
            "end_ts": [120, 0],
        },
        {
            "id": 2,
            "ops": ops,
            "submitted": 101,
            "duration": 7,
            "canceled": 103,
            "status": "success",
        },
        {"id": 3, "ops": ops, "received_ts": [200, 0], "start_ts": None, "end_ts": [210, 0]},
    ]
    first, second, third = timed_jobs(rows, 4)
    assert first[1:] == (0, 10, None)
    assert (second[1:], second.job.status) == ((0.5, 7, 2.5), "queued")
    assert third[1:] == (99.5, 4, None)
    with pytest.raises(ValueError, match="job 3: nothing gives its duration"):
        timed_jobs(rows, None)
    for key, value in (("duration", -1), ("duration", "5"), ("submitted", True), ("end_ts", [1])):
        with pytest.raises(ValueError, match=f"job 1: key '{key}': "):
            timed_jobs([{**rows[0], key: value}], 4)
