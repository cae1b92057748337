"""Which jobs are released, cancelled, held, and held again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hanging import in_a_child

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.actions import native
from ganeti_steward.plugins.filters.actions.changes import (
    CANCEL,
    FORGET,
    HOLD_AGAIN,
    RELEASE,
    Releases,
    release_uuid,
    released_job,
)
from ganeti_steward.plugins.filters.actions.releasing import decide
from ganeti_steward.plugins.filters.filter_rules import (
    ACCEPT,
    CONTINUE,
    PAUSE,
    RATE_LIMIT,
    REJECT,
    FilterRule,
    Rules,
)
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.rule_notes import ACTION_SOURCE, noted_action
from ganeti_steward.plugins.model.filter_action import Hold, Reject, Release, Verdict

A, B, C = (f"{one * 8}-1111-4111-8111-111111111111" for one in "abc")
VERDICTS: dict[str, Verdict] = {
    "OPEN": Release("it is open"),
    "CLOSED": Hold("it is closed"),
    "NEVER": Reject("never"),
    "FINAL": Release("at once", final=True),
}


def held_by(uuid: str, action: str, priority: int = 50, *predicates: Any) -> FilterRule:
    reason = Reason(ACTION_SOURCE, action, 0)
    return FilterRule(uuid, priority, predicates, PAUSE, reasons=(reason,))


def plain(uuid: str, action: str, priority: int, limit: int = 0) -> FilterRule:
    return FilterRule(uuid, priority, (), action, limit)


def verdict_of(rule: FilterRule, job: Job, occupied: int) -> Verdict:
    noted = noted_action(rule)
    if noted:
        return VERDICTS[noted.name]
    facts: Any = type("Facts", (), {"occupied": occupied})
    verdict = native.steward_filter_action(rule.action, str(rule.limit), facts)
    assert verdict
    return verdict


def decided(
    rules: Sequence[FilterRule],
    *jobs: Job,
    verdict_of: Callable[[FilterRule, Job, int], Verdict] = verdict_of,
    **unreadable: str,
) -> Releases:
    ordered = tuple(sorted(rules, key=lambda rule: rule.order))
    return decide(Rules(ordered, unreadable), jobs, verdict_of)


def changes(found: Releases) -> list[tuple[str, int, str]]:
    return [(one.kind, one.job, one.holding) for one in found.changes]


def written(found: Releases) -> list[FilterRule]:
    return [one.rule(5) for one in found.changes if one.kind == RELEASE]


def test_a_release_is_an_accept_by_number_before_the_rule() -> None:
    found = decided([held_by(A, "OPEN")], Job(7))
    (rule,) = written(found)
    assert rule.content == {
        "priority": 49,
        "predicates": [["jobid", ["=", "id", 7]]],
        "action": "ACCEPT",
        "reason": [["maintd:release", f"filter rule {A} releases job 7", 5]],
    }
    assert released_job(rule) == (A, 7)
    assert found.held == ()


def test_it_stays_until_the_job_has_ended() -> None:
    rules = [held_by(A, "OPEN"), *written(decided([held_by(A, "OPEN")], Job(7)))]
    assert decided(rules, Job(7)) == Releases()
    for status in ("waiting", "running", "canceling"):
        assert decided(rules, Job(7, status)) == Releases()
    assert changes(decided(rules, Job(8, "running"))) == [(FORGET, 7, A)]


def test_a_job_that_has_not_started_is_held_again() -> None:
    release = written(decided([held_by(A, "OPEN")], Job(7)))
    closed = decided([held_by(A, "CLOSED"), *release], Job(7))
    assert changes(closed) == [(HOLD_AGAIN, 7, A)]
    assert closed.changes[0].release == release[0].uuid
    assert closed.changes[0].sentence == "hold job 7 again: it is closed"
    assert changes(decided([held_by(A, "CLOSED"), *release], Job(7, "running"))) == []


def test_what_is_left_of_a_rule_that_is_gone_is_removed() -> None:
    release = written(decided([held_by(A, "OPEN")], Job(7)))
    assert changes(decided(release, Job(7))) == [(HOLD_AGAIN, 7, A)]
    assert changes(decided(release)) == [(FORGET, 7, A)]


def test_a_rule_of_others_is_not_taken_for_a_release() -> None:
    (release,) = written(decided([held_by(A, "OPEN")], Job(7)))
    foreign = release._replace(uuid=B)
    assert released_job(foreign) is None
    assert changes(decided([foreign])) == []


def test_a_release_that_was_changed_is_written_again() -> None:
    (release,) = written(decided([held_by(A, "OPEN")], Job(7)))
    wider = release._replace(predicates=())
    assert changes(decided([held_by(A, "OPEN"), wider], Job(7))) == [(RELEASE, 7, A)]


def test_held_jobs_are_reported_once_for_each_rule() -> None:
    found = decided([held_by(A, "CLOSED x")], *map(Job, range(1, 9)), Job(9, "running"))
    (one,) = found.held
    assert (one.subject, one.brake) == (A, "filter-action")
    assert one.sentence == "CLOSED x holds jobs 1, 2, 3, 4, 5 and 3 more: it is closed"
    assert found.changes == ()


def test_several_reasons_are_one_sentence() -> None:
    """What is held for one rule is one entry, else each round would look like news."""
    jobs = [Job(7), *(Job(8 + one, depends=(100 + one,)) for one in range(7))]
    jobs += [Job(100 + one, "running") for one in range(7)]
    rules = [held_by(A, "OPEN"), plain(B, RATE_LIMIT, 60, 1), plain(C, ACCEPT, 55)]
    ((subject, _, sentence, *_),) = decided(rules, *jobs).held
    assert subject == A
    assert sentence.startswith("OPEN holds job 8: the job waits for job 100; job 9: ")
    assert sentence.endswith("; job 12: the job waits for job 104; 2 more")


def test_a_rejected_job_is_cancelled() -> None:
    assert changes(decided([held_by(A, "NEVER")], Job(7), Job(8, "running"))) == [(CANCEL, 7, A)]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([held_by(B, "OPEN", 60)], RELEASE),
        ([held_by(B, "CLOSED", 60)], ""),
        ([held_by(B, "CLOSED", 40)], ""),
        ([held_by(B, "NEVER", 60)], CANCEL),
        ([plain(B, PAUSE, 60)], ""),
        ([plain(B, PAUSE, 50)], RELEASE),
        ([plain(B, PAUSE, 40)], None),
        ([plain(B, REJECT, 60)], CANCEL),
        ([plain(B, ACCEPT, 60), plain(C, REJECT, 70)], RELEASE),
        ([plain(B, ACCEPT, 40)], None),
        ([plain(B, CONTINUE, 40), plain(C, CONTINUE, 60)], RELEASE),
        ([plain(B, RATE_LIMIT, 60, 1)], RELEASE),
    ],
)
def test_other_rules(others: list[FilterRule], expected: str | None) -> None:
    """A release ends the chain, so what comes later decides before; None: it is luxid's."""
    at_last = others[0].priority == 50
    rule = held_by(A, "OPEN") if not at_last else held_by("0" + A[1:], "FINAL")
    found = decided([rule, *others], Job(7))
    assert [one.kind for one in found.changes] == ([expected] if expected else [])
    assert bool(found.held) == (expected == "")


def test_a_release_comes_before_the_first_rule_that_holds() -> None:
    found = decided([held_by(A, "OPEN", 20), held_by(B, "OPEN", 60)], Job(7))
    assert [(one.holding, one.priority) for one in found.changes] == [(A, 19)]


def test_a_later_limit_counts() -> None:
    """One has started, one was released before: a limit of three has room for one more."""
    limit, rule = plain(B, RATE_LIMIT, 60, 3), held_by(A, "OPEN")
    release = written(decided([rule, limit], Job(9)))
    jobs = [Job(7), Job(8, priority=-5), Job(9), Job(6, "running")]
    found = decided([rule, limit, *release], *jobs)
    assert changes(found) == [(RELEASE, 8, A)]
    assert [one.sentence for one in found.held] == [
        f"OPEN holds job 7: filter rule {B}: 3 of at most 3 jobs have started"
    ]


def test_a_job_that_waits_for_another_one_is_not_released_yet() -> None:
    jobs = [Job(7, "running"), Job(8, depends=(7,)), Job(9, depends=(3,))]
    assert changes(decided([held_by(A, "OPEN")], *jobs)) == [(RELEASE, 9, A)]


def test_nothing_can_come_before_the_priority_0() -> None:
    found = decided([held_by(A, "OPEN", 0)], Job(7))
    assert changes(found) == []
    assert "no rule can come before the priority 0" in found.held[0].sentence


def test_nothing_is_released_past_a_rule_that_cannot_be_read() -> None:
    for action in ("OPEN", "NEVER"):
        found = decided([held_by(A, action)], Job(7), unreadable="EXPLODE is no action")
        assert changes(found) == []
        assert "cannot be evaluated" in found.held[0].sentence
    faulty = FilterRule(B, 60, (["jobid", ["(", "x"]],), PAUSE)
    assert changes(decided([held_by(A, "OPEN"), faulty], Job(7))) == []


def test_only_jobs_that_match_are_concerned() -> None:
    rule = held_by(A, "OPEN", 50, ["jobid", ["=", "id", 7]])
    assert changes(decided([rule], Job(7), Job(8))) == [(RELEASE, 7, A)]


def test_held_back() -> None:
    found = decided([held_by(A, "OPEN")], Job(7)).held_back("observe", "the mode is observe")
    assert found.changes == ()
    assert found.held[0].sentence == "the mode is observe, it would release job 7: it is open"
    assert (found.held[0].subject, found.held[0].brake) == (A, "observe")
    many = decided([held_by(A, "OPEN")], *map(Job, range(9))).held_back("observe", "the mode is")
    ((_, _, sentence, *_),) = many.held
    assert sentence.endswith("release job 4: it is open; 4 more")


def test_the_uuid_is_always_the_same() -> None:
    assert release_uuid(A, 7) == release_uuid(A, 7)
    assert len({release_uuid(A, 7), release_uuid(A, 8), release_uuid(B, 7)}) == 3


EVIL: list[Any] = ["opcode", ["=~", "name", "^(a+)+$"]]


def named_job(number: int, name: str) -> Job:
    return Job(number, opcodes=({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": name},))


def held_texts(found: Releases) -> dict[str, str]:
    return {one.subject: one.sentence for one in found.held}


@in_a_child
def test_a_rule_that_cannot_be_decided_holds_its_jobs_only() -> None:
    """Also where it comes later and is of Ganeti's actions."""
    hostile, usual = named_job(1, "a" * 40 + "!"), named_job(2, "b")
    for rules, holder in (
        ((held_by(A, "OPEN", 5, EVIL), held_by(B, "OPEN", 9)), A),
        ((held_by(A, "OPEN", 5), held_by(B, "OPEN", 9, EVIL)), A),
        ((held_by(A, "OPEN", 5), FilterRule(B, 9, (EVIL,), REJECT)), A),
        ((FilterRule(A, 5, (EVIL,), ACCEPT), held_by(B, "OPEN", 9)), B),
    ):
        evil = next(rule for rule in rules if rule.predicates)
        found = decided(rules, hostile, usual)
        assert [(one.kind, one.job) for one in found.changes] == [(RELEASE, 2)]
        assert held_texts(found) == {
            holder: f"OPEN holds job 1: filter rule {evil.uuid} cannot be evaluated, it may apply "
            "to the job: the regular expression '^(a+)+$' takes too long"
        }


@in_a_child
def test_one_that_only_continues_does_not_matter() -> None:
    rules = [FilterRule(A, 5, (EVIL,), CONTINUE), held_by(B, "OPEN", 9)]
    assert changes(decided(rules, named_job(1, "a" * 40 + "!"))) == [(RELEASE, 1, B)]


@in_a_child
def test_luxid_decides_alone_where_no_action_is_reached() -> None:
    rules = [FilterRule(A, 5, (EVIL,), PAUSE), FilterRule(B, 9, (), ACCEPT), held_by(C, "OPEN", 10)]
    assert decided(rules, named_job(1, "a" * 40 + "!")) == Releases()


@in_a_child
def test_a_started_job_counts_for_a_limit_that_may_apply() -> None:
    limit = FilterRule(B, 9, (EVIL,), RATE_LIMIT, 1)
    running = named_job(1, "a" * 40 + "!")._replace(status="running")
    found = decided([held_by(A, "OPEN", 5), limit], running, named_job(2, "aa"))
    assert found.changes == ()
    assert "1 of at most 1 jobs have started" in held_texts(found)[A]


def test_an_expression_that_only_luxid_takes() -> None:
    """Jobs are released of which another part of the rule is false."""
    other = FilterRule(B, 9, (["opcode", ["=~", "name", "\\8"]], ["jobid", [">", "id", 7]]), PAUSE)
    found = decided([held_by(A, "OPEN", 5), other], named_job(1, "x"), named_job(8, "x"))
    assert [(one.kind, one.job) for one in found.changes] == [(RELEASE, 1)]
    assert f"job 8: filter rule {B} cannot be evaluated" in held_texts(found)[A]
    assert "is faulty: reference to non-existent subpattern" in held_texts(found)[A]


@in_a_child
def test_many_jobs_that_cannot_be_decided() -> None:
    """The round ends, since the searches of one rule share their time."""
    jobs = [named_job(number, "a" * 40 + "!" * number) for number in range(1, 2001)]
    found = decided([held_by(A, "OPEN", 5, EVIL)], *jobs)
    assert found.changes == ()
    assert held_texts(found)[A].startswith("OPEN holds jobs 1, 2, 3, 4, 5 and 1995 more: filter")
