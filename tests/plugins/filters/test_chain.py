"""Which rule applies, and what a pass of the scheduler does (job-filters 2.5, 3 to 5)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import DESIGN, LUXID
from ganeti_steward.plugins.filters.scheduling import (
    BUCKET,
    DEPENDS,
    FULL,
    LIMIT,
    PAUSED,
    Pass,
    buckets_of,
    schedule,
)

OP_T: Final = ("opcode", ["=", "OP_ID", "OP_TAGS_SET"])
OP_D: Final = ("opcode", ["=", "OP_ID", "OP_TEST_DELAY"])
NEW: Final = ("jobid", [">", "id", "watermark"])


def rule(
    name: str, action: str, *predicates: Any, at: int = 0, mark: int = 0, n: int = 0
) -> FilterRule:
    return FilterRule(name, at, predicates, action, n, watermark=mark)


def job(number: int, kind: str = "T", status: str = "queued", *texts: str, **more: Any) -> Job:
    name = {"T": "OP_TAGS_SET", "D": "OP_TEST_DELAY"}[kind]
    reasons = tuple(Reason("gnt:user", text, 1) for text in texts)
    return Job(number, status, opcodes=({"OP_ID": name},), reasons=reasons, **more)


def one_pass(jobs: list[Job], *rules: FilterRule, most: int = 20) -> Pass:
    return schedule(jobs, Chain(rules), most)


def test_the_first_of_priority_watermark_and_uuid_applies() -> None:
    rules = [
        rule("b", "PAUSE", at=5, mark=7),
        rule("a", "REJECT", at=5, mark=7),
        rule("0", "ACCEPT", at=5, mark=8),
        rule("z", "CONTINUE"),
    ]
    found = Chain(rules).applying(job(1))
    assert found is not None
    assert found.uuid == "a"
    assert [one.uuid for one in Chain(rules).matching(job(1))] == ["z", "a", "b", "0"]
    assert Chain(rules[3:]).applying(job(1)) is None


def test_accept_before_pause() -> None:
    rules = rule("a", "ACCEPT", OP_D), rule("b", "PAUSE", at=1)
    result = one_pass([job(1, "D"), job(2, "T")], *rules)
    assert result.started == (1,)
    assert result.waiting[2].cause == PAUSED


def test_an_older_watermark_is_first() -> None:
    pause, reject = rule("p", "PAUSE", at=5, mark=3), rule("r", "REJECT", at=5, mark=4)
    assert one_pass([job(9)], pause, reject).waiting[9].rule == pause
    assert one_pass([job(9)], reject).canceled == {9: reject}


def test_continue_has_no_effect() -> None:
    assert one_pass([job(1)], rule("c", "CONTINUE"), rule("p", "PAUSE", at=1)).started == ()


def test_a_replaced_rule_has_a_new_watermark() -> None:
    """What was queued before runs, what comes now waits."""
    result = one_pass([job(4), job(5)], rule("p", "PAUSE", NEW, at=1, mark=4))
    assert (result.started, set(result.waiting)) == ((4,), {5})


@pytest.mark.parametrize(("most", "runs"), [(1, False), (2, False), (3, True)])
def test_a_limit_counts_jobs_that_run_or_wait_for_locks(most: int, runs: bool) -> None:
    jobs = [job(1, "T", "running"), job(2, "T", "waiting"), job(3)]
    result = one_pass(jobs, rule("l", "RATE_LIMIT", OP_T, at=5, n=most))
    assert (result.started == (3,)) is runs
    if not runs:
        assert result.waiting[3].cause == LIMIT
        assert result.waiting[3].behind == (1, 2)


def test_a_limit_does_not_count_what_another_rule_applies_to() -> None:
    jobs = [job(1, "T", "running"), job(2, "T", "waiting"), job(3)]
    limit = rule("l", "RATE_LIMIT", OP_T, at=5, n=1)
    assert one_pass(jobs, limit, rule("a", "ACCEPT", ("jobid", ["<", "id", 3]))).started == (3,)


def test_one_job_takes_one_place() -> None:
    many = job(1)._replace(opcodes=({"OP_ID": "OP_TAGS_SET"},) * 5)
    limit = rule("l", "RATE_LIMIT", OP_T, n=2)
    assert one_pass([many, job(2), job(3)], limit).started == (1, 2)


def test_a_paused_job_keeps_its_place_in_its_bucket() -> None:
    jobs = [job(1, "T", "queued", "rate-limit:1:x"), job(2, "D", "queued", "rate-limit:1:x")]
    pause = rule("p", "PAUSE", OP_T)
    result = one_pass(jobs, pause)
    assert result.started == ()
    assert result.waiting[2].cause == BUCKET
    assert (result.waiting[2].bucket, result.waiting[2].behind) == ("1:x", (1,))
    assert one_pass([jobs[0], jobs[1]._replace(priority=-10)], pause).started == (2,)


def test_what_depends_on_a_paused_job_waits() -> None:
    jobs = [job(1), job(2, "D", depends=(1,))]
    result = one_pass(jobs, rule("p", "PAUSE", OP_T))
    assert result.waiting[2].cause == DEPENDS
    assert one_pass([jobs[1]]).started == (2,)


def test_what_depends_on_a_rejected_job_does_not_wait_for_it() -> None:
    """It is canceled first; the job that starts then fails by itself."""
    jobs = [job(1), job(2, "D", depends=(1,))]
    assert one_pass(jobs, rule("r", "REJECT", OP_T)).started == (2,)


def test_running_jobs_are_not_touched() -> None:
    result = one_pass([job(1, "T", "running")], rule("r", "REJECT"))
    assert (result.canceled, result.waiting) == ({}, {})


def test_no_more_than_may_run() -> None:
    jobs = [job(1, "T", "running"), *(job(number) for number in range(2, 6))]
    result = one_pass(jobs, most=3)
    assert result.started == (2, 3)
    assert {one.cause for one in result.waiting.values()} == {FULL}


def test_the_most_urgent_is_first() -> None:
    jobs = [job(1, priority=5), job(2), job(3, priority=-20), job(4)]
    assert one_pass(jobs).started == (3, 2, 4, 1)


#: Text of a reason -> its bucket and limit in luxid, and by the design.
BUCKETS: Final[dict[str, tuple[dict[str, int], dict[str, int]]]] = {
    "rate-limit:2:x": ({"2:x": 2}, {"2:x": 2}),
    "rate-limit:1": ({"1": 1}, {}),
    "rate-limit:1:": ({"1:": 1}, {"1:": 1}),
    "rate-limit:01:x": ({"01:x": 1}, {}),
    "rate-limit: 1:x": ({" 1:x": 1}, {}),
    "rate-limit:0:x": ({}, {}),
    "rate-limit:+1:x": ({}, {}),
    " rate-limit:1:x": ({}, {}),
    "xrate-limit:1:x": ({}, {}),
    "rate-limit:7:operation pink bunny": ({"7:operation pink bunny": 7},) * 2,
}


@pytest.mark.parametrize("text", BUCKETS)
def test_buckets(text: str) -> None:
    about = job(1, "T", "queued", text)
    assert (buckets_of(about, LUXID), buckets_of(about, DESIGN)) == BUCKETS[text]


def test_a_place_in_each_bucket_is_needed() -> None:
    jobs = [
        job(1, "T", "running", "rate-limit:1:a"),
        job(2, "T", "queued", "rate-limit:1:a", "rate-limit:9:b"),
        job(3, "T", "queued", "rate-limit:2:a"),
    ]
    result = one_pass(jobs)
    assert result.started == (3,)
    assert result.waiting[2].behind == (1,)


# The examples of the design, in its dialect


def outcomes(rules: list[FilterRule], jobs: list[Job]) -> dict[int, str]:
    result = schedule(jobs, Chain(rules, DESIGN), 20)
    return {
        **dict.fromkeys(result.started, "starts"),
        **dict.fromkeys(result.canceled, "canceled"),
        **{number: one.cause for number, one in result.waiting.items()},
    }


def test_drain() -> None:
    assert outcomes([rule("r", "REJECT", NEW, mark=5)], [job(5), job(6)]) == {
        5: "starts",
        6: "canceled",
    }


def test_soft_drain() -> None:
    assert outcomes([rule("r", "PAUSE", NEW, mark=5)], [job(5), job(6)]) == {5: "starts", 6: PAUSED}


def test_all_but_one_maintenance() -> None:
    accept = rule("a", "ACCEPT", ("reason", ["=~", "reason", "maintenance pink bunny"]))
    jobs = [job(5), job(6), job(7, "T", "queued", "for maintenance pink bunny, today")]
    expected = {5: "starts", 6: PAUSED, 7: "starts"}
    assert outcomes([accept, rule("p", "PAUSE", NEW, at=1, mark=5)], jobs) == expected


def test_no_creation_of_instances() -> None:
    create = Job(1, opcodes=({"OP_ID": "OP_INSTANCE_CREATE"},))
    reject = rule("r", "REJECT", ("opcode", ["=", "OP_ID", "OP_INSTANCE_CREATE"]), at=1)
    assert outcomes([reject], [create, job(2)]) == {1: "canceled", 2: "starts"}


def test_ten_replacements_of_disks() -> None:
    jobs = [Job(n, opcodes=({"OP_ID": "OP_INSTANCE_REPLACE_DISKS"},)) for n in range(12)]
    name = ("opcode", ["=", "OP_ID", "OP_INSTANCE_REPLACE_DISKS"])
    found = outcomes([rule("l", "RATE_LIMIT", name, at=99, n=10)], jobs)
    assert list(found.values()).count("starts") == 10
