"""Why a job waits, starts or is canceled."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import often

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.analysis.blame import Cause, evaluated
from ganeti_steward.plugins.filters.analysis.explain import JobExplanation, explain
from ganeti_steward.plugins.filters.chain import Chain, link
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import DESIGN, DIALECTS, LUXID, Dialect
from ganeti_steward.plugins.filters.rule_notes import NotedAction, note_of

DELAY: Final[dict[str, Any]] = {
    "OP_ID": "OP_TEST_DELAY",
    "duration": 0,
    "no_locks": True,
    "on_nodes": [],
    "repeat": 0,
}
TAG: Final[dict[str, Any]] = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["t1"]}
REASONS: Final = (Reason("gnt:user", "pink bunny", 5), Reason("gnt:client", "other", 7))
JOB: Final = Job(7, opcodes=(DELAY,), reasons=REASONS)


def causes(predicate: str, job: Job = JOB, dialect: Dialect = LUXID) -> tuple[Cause, ...]:
    """Why a predicate of a rule with watermark 5 is not true."""
    return evaluated(json.loads(predicate), 5, dialect, job, "predicates[0][1]").causes


#: Predicate -> place, part and text of the first cause.
CAUSES: Final = {
    '["opcode", ["=", "repeat", 5]]': ("", ["=", "repeat", 5], "repeat is 0"),
    '["opcode", ["=", "repeat", "0"]]': ("", ["=", "repeat", "0"], "repeat is 0"),
    '["opcode", ["&", ["?", "no_locks"], ["=", "OP_ID", "x"], ["=", "repeat", 0]]]': (
        "[2]",
        ["=", "OP_ID", "x"],
        'OP_ID is "OP_TEST_DELAY"',
    ),
    '["opcode", ["|", ["=", "OP_ID", "x"], ["=", "repeat", 3]]]': (
        "",
        ["|", ["=", "OP_ID", "x"], ["=", "repeat", 3]],
        'OP_ID is "OP_TEST_DELAY", repeat is 0',
    ),
    '["opcode", ["|", ["&", ["=", "repeat", 3]]]]': ("[1][1]", ["=", "repeat", 3], "repeat is 0"),
    '["opcode", ["!", ["=", "repeat", 0]]]': ("", ["!", ["=", "repeat", 0]], "repeat is 0"),
    '["opcode", ["!", ["?", "repeat"]]]': ("[1]", ["?", "repeat"], "repeat is not a boolean"),
    '["opcode", ["|", ["?", "repeat"], ["?", "no_locks"]]]': (
        "[1]",
        ["?", "repeat"],
        "repeat is not a boolean",
    ),
    '["opcode", ["=~", "on_nodes", "x"]]': (
        "",
        ["=~", "on_nodes", "x"],
        "on_nodes is not a string",
    ),
    '["opcode", ["|", ["?", "no_locks"], ["=", "nosuch", "x"]]]': (
        "",
        ["|", ["?", "no_locks"], ["=", "nosuch", "x"]],
        "there is no field nosuch",
    ),
    '["opcode", ["|"]]': ("", ["|"], "it has no parts"),
    '["opcode", ["!", null]]': ("", ["!", None], "it has no parts"),
    '["reason", ["=", "reason", "pony"]]': ("", ["=", "reason", "pony"], 'reason is "pink bunny"'),
    '["reason", ["=~", "reason", "bunny"]]': (
        "",
        ["=~", "reason", "bunny"],
        "luxid does not find '=~' true of any reason",
    ),
    '["reason", ["&", null, ["!", ["?", "source"]]]]': (
        "[2][1]",
        ["?", "source"],
        "luxid does not find '?' true of any reason",
    ),
    '["reason", ["=", "nofield", 1]]': ("", ["=", "nofield", 1], "a reason has no field nofield"),
    '["jobid", ["<=", "id", "watermark"]]': (
        "",
        ["<=", "id", "watermark"],
        "id is 7, the watermark is 5",
    ),
    '["jobid", ["=", "id", 8]]': ("", ["=", "id", 8], "id is 7"),
    '["jobid", ["=", "id", "7"]]': (
        "",
        ["=", "id", "7"],
        "luxid compares job ids with integers and the word 'watermark' only",
    ),
    '["jobid", ["!", ["=", "name", 7]]]': ("[1]", ["=", "name", 7], "a job id has no field name"),
}  # fmt: skip


@pytest.mark.parametrize("predicate", CAUSES)
def test_causes(predicate: str) -> None:
    place, part, text = CAUSES[predicate]
    found = causes(predicate)[0]
    assert (found.place, found.part, found.text) == (f"predicates[0][1]{place}", part, text)


def test_each_opcode_and_reason_has_its_cause() -> None:
    both = JOB._replace(opcodes=(DELAY, TAG))
    found = causes('["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "repeat", 0]]]', both)
    assert [(one.subject, one.text) for one in found] == [
        ("opcode 1 (OP_TEST_DELAY)", 'OP_ID is "OP_TEST_DELAY"'),
        ("opcode 2 (OP_TAGS_SET)", "there is no field repeat"),
    ]
    found = causes('["reason", ["=", "source", "x"]]')
    assert [one.subject for one in found] == [
        'reason 1 ("gnt:user", "pink bunny")',
        'reason 2 ("gnt:client", "other")',
    ]


def test_the_dialect_matters() -> None:
    assert causes('["reason", ["=~", "reason", "bunny"]]', dialect=DESIGN) == ()


LEAVES: Final = st.one_of(
    st.tuples(
        st.sampled_from(["=", "<", "!=", "=~", "=[]"]),
        st.sampled_from(["OP_ID", "repeat", "tags", "id", "reason", "x"]),
        st.sampled_from(["OP_TAGS_SET", "watermark", "7"]),
    ),
    st.tuples(st.just("?"), st.sampled_from(["no_locks", "repeat"])),
).map(list)
EXPRESSIONS: Final = st.recursive(
    st.none() | LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: ["&", *parts])
        | st.lists(inner, max_size=3).map(lambda parts: ["|", *parts])
        | inner.map(lambda part: ["!", part])
    ),
    max_leaves=6,
)


@settings(max_examples=often(75, 300))
@given(
    st.sampled_from(["opcode", "reason", "jobid"]),
    EXPRESSIONS,
    st.sampled_from(sorted(DIALECTS)),
)
def test_there_is_a_cause_exactly_when_it_does_not_match(
    name: str, expression: Any, dialect: str
) -> None:
    job = JOB._replace(opcodes=(DELAY, TAG))
    rule = FilterRule("u", 0, ([name, expression],), watermark=5)
    matches = link(rule, DIALECTS[dialect]).matches(job)
    found = evaluated(rule.predicates[0], 5, DIALECTS[dialect], job, "p")
    assert found.matched is matches
    assert bool(found.causes) is not matches
    assert all(one.text and _at(expression, one.place) == one.part for one in found.causes)


def _at(expression: Any, place: str) -> Any:
    """The part of an expression at a place that begins with p."""
    for index in place.removeprefix("p").strip("[]").split("]["):
        expression = expression[int(index)] if index else expression
    return expression


# The outcome


def rule(name: str, action: str, *predicates: Any, at: int = 0, n: int = 0) -> FilterRule:
    return FilterRule(name, at, predicates, action, n, watermark=5)


def job(number: int, kind: str = "T", status: str = "queued", *texts: str, **more: Any) -> Job:
    opcode = {"T": TAG, "D": DELAY}[kind]
    reasons = tuple(Reason("gnt:user", text, 1) for text in texts)
    return Job(number, status, opcodes=(opcode,), reasons=reasons, **more)


OP_T: Final = ("opcode", ["=", "OP_ID", "OP_TAGS_SET"])


def explained(number: int, jobs: list[Job], *rules: FilterRule, most: int = 20) -> JobExplanation:
    found = explain(number, jobs, rules, LUXID, most)
    job = next(one for one in jobs if one.number == number)
    assert found.applying == Chain(rules).applying(job)
    return found


def test_paused() -> None:
    found = explained(9, [job(9)], rule("c", "CONTINUE"), rule("p", "PAUSE", OP_T, at=1))
    assert found.outcome == "rule p (PAUSE) holds it until the rule is replaced or deleted"
    assert [one.matched for one in found.steps] == [True, True]


def test_held_for_the_daemon() -> None:
    held = rule("p", "PAUSE")._replace(reasons=(note_of(NotedAction("APPROVE"), 1),))
    expected = "rule p (APPROVE) holds it until the maintenance daemon releases it"
    assert explained(9, [job(9)], held).outcome == expected


def test_rejected() -> None:
    assert explained(9, [job(9)], rule("r", "REJECT")).outcome == "rule r (REJECT) cancels it"


def test_accepted() -> None:
    found = explained(9, [job(9)], rule("a", "ACCEPT"), rule("p", "PAUSE", at=1))
    assert found.outcome == "it starts in the next pass of the scheduler"
    assert found.applying is not None


def test_a_limit_names_who_has_the_places() -> None:
    jobs = [job(1, "T", "running"), job(2), job(3)]
    limit = rule("l", "RATE_LIMIT", OP_T, n=2)
    expected = "rule l (RATE_LIMIT 2) allows 2 jobs at a time: 1 (running), 2 (starts first)"
    assert explained(3, jobs, limit).outcome == expected
    running = "it was started, and rules do not stop it; it takes a place of rule l (RATE_LIMIT 2)"
    assert explained(1, jobs, limit).outcome == running


def test_a_bucket_names_the_paused_job_that_has_the_place() -> None:
    jobs = [job(1, "T", "queued", "rate-limit:1:x"), job(2, "D", "queued", "rate-limit:1:x")]
    expected = "the bucket '1:x' of its reasons allows 1 job at a time: 1 (queued: rule p (PAUSE))"
    assert explained(2, jobs, rule("p", "PAUSE", OP_T)).outcome == expected


def test_dependencies() -> None:
    jobs = [job(1), job(2, "D", depends=(1,)), job(3, "D", depends=(2,))]
    pause = rule("p", "PAUSE", OP_T)
    expected = "it waits for jobs that it depends on: 1 (queued: rule p (PAUSE))"
    assert explained(2, jobs, pause).outcome == expected
    assert explained(3, jobs, pause).outcome.endswith(": 2 (queued: depends)")


def test_too_many_jobs_run() -> None:
    jobs = [job(1, "T", "running"), job(2)]
    assert explained(2, jobs, most=1).outcome == "the cluster runs 1 job at a time: 1 (running)"


def test_many_jobs_are_counted() -> None:
    jobs = [job(number, "T", "running") for number in range(1, 14)]
    assert explained(20, [*jobs, job(20)], most=3).outcome.endswith("10 (running) and 3 more")


def test_a_finished_job() -> None:
    expected = "it has ended (success), so that rules have no effect on it"
    assert explained(9, [job(9, "T", "success")], rule("r", "REJECT")).outcome == expected


def test_an_unknown_job() -> None:
    with pytest.raises(KeyError):
        explain(8, [job(9)], [], LUXID, 20)
