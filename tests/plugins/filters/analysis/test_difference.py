"""Jobs that two sets of rules treat differently."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.plugins.filters.analysis.difference import difference
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID

OP_T: Final = ["opcode", ["=", "OP_ID", "OP_TAGS_SET"]]


def rule(name: str, action: str, *predicates: Any, n: int = 0) -> FilterRule:
    return FilterRule(name, 0, predicates, action, n)


def job(number: int, status: str = "queued", name: str = "OP_TAGS_SET") -> Job:
    return Job(number, status, opcodes=({"OP_ID": name},))


JOBS: Final = [job(1, "running"), job(2), job(3), job(4, name="OP_TEST_DELAY"), job(5, "success")]


def found(old: list[FilterRule], new: list[FilterRule]) -> dict[int, tuple[str, str]]:
    return {
        one.job.number: (one.before.outcome, one.after.outcome)
        for one in difference(JOBS, old, new, LUXID, 20)
    }


def test_paused() -> None:
    pause = rule("p", "PAUSE", OP_T)
    assert found([], [pause]) == {
        2: ("starts", "waits: paused"),
        3: ("starts", "waits: paused"),
        5: ("accepted", "paused"),
    }
    (one, *_) = difference(JOBS, [], [pause], LUXID, 20)
    assert (one.before.rule, one.after.rule) == (None, pause)


def test_rejected_and_limited() -> None:
    assert found([rule("r", "REJECT", OP_T)], [rule("l", "RATE_LIMIT", OP_T, n=2)]) == {
        1: ("running", "running"),
        2: ("canceled", "starts"),
        3: ("canceled", "waits: limit"),
        5: ("rejected", "limited"),
    }


def test_another_limit_is_a_difference() -> None:
    one, other = rule("l", "RATE_LIMIT", OP_T, n=8), rule("l", "RATE_LIMIT", OP_T, n=9)
    assert set(found([one], [other])) == {1, 2, 3, 5}


def test_another_rule_with_the_same_effect_is_none() -> None:
    assert found([rule("a", "PAUSE")], [rule("b", "PAUSE")]) == {}
    assert found([], [rule("a", "ACCEPT"), rule("c", "CONTINUE")]) == {}


RULES: Final = st.builds(
    rule,
    st.uuids().map(str),
    st.sampled_from(["ACCEPT", "PAUSE", "REJECT", "CONTINUE"]),
    st.sampled_from([OP_T, ["jobid", [">", "id", 2]], ["jobid", None]]),
)


@given(st.lists(RULES), st.lists(RULES))
def test_equal_sets_and_both_directions(one: list[FilterRule], other: list[FilterRule]) -> None:
    assert found(one, one) == {}
    back = {number: (after, before) for number, (before, after) in found(one, other).items()}
    assert found(other, one) == back
