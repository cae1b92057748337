"""Rules beside each other: shadowed, overlapping, in the way of the maintenance daemon."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any, Final

import pytest
from call_counts import counted
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import often

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters import recipes
from ganeti_steward.plugins.filters.chain import link
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.lint.lint import Remark, lint
from ganeti_steward.plugins.filters.lint.opcode_table import opcode_table
from ganeti_steward.plugins.filters.lint.reach import reach
from ganeti_steward.plugins.filters.lint.witness import covers, made_up, witness
from ganeti_steward.plugins.filters.rule_notes import (
    RECORD_SOURCE,
    NotedAction,
    creation_rules,
    mark,
    note_of,
    record_rule,
)
from ganeti_steward.plugins.model.incident import JOB_SOURCE

T: Final = '["opcode", ["=", "OP_ID", "OP_TAGS_SET"]]'
D: Final = '["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]'
NEW: Final = '["jobid", [">", "id", "watermark"]]'
BUNNY: Final = '["reason", ["=", "reason", "bunny"]]'


def rule(name: str, action: str, *predicates: str, at: int = 0, mark: int = 0) -> FilterRule:
    read = tuple(json.loads(one) for one in predicates)
    return FilterRule(name, at, read, action, 3 if action == "RATE_LIMIT" else 0, (), mark)


def found(check: str, *rules: FilterRule) -> list[Remark]:
    return [one for one in lint(rules, {}) if one.check == check]


#: Predicates of an earlier rule, of a later one -> whether the later one can never apply.
SHADOWED: Final[list[tuple[list[str], list[str], bool]]] = [
    ([], [D], True),
    (['["opcode", null]'], [D, NEW], True),
    (['["reason", ["!=", "reason", "x"]]'], [D], True),
    ([D], [D], True),
    (['["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]]'], [D, BUNNY], True),
    ([D], [T], False),
    ([D], [], False),
    ([D, BUNNY], [D], False),
    (['["opcode", ["=~", "OP_ID", "^OP_TEST"]]'], [D], True),
    ([D], ['["opcode", ["&", ["=", "OP_ID", "OP_TEST_DELAY"], ["?", "no_locks"]]]'], True),
    (['["opcode", ["?", "no_locks"]]'], [D], False),
    ([BUNNY], ['["reason", ["&", ["=", "source", "x"], ["=", "reason", "bunny"]]]'], True),
    (['["reason", ["|", ["=", "reason", "bunny"], ["=", "source", "x"]]]'], [BUNNY], False),
    (['["reason", ["|", ["=", "reason", "bunny"], ["=", "reason", "x"]]]'], [BUNNY], True),
    ([NEW], [NEW], True),
    (['["jobid", [">", "id", 5]]'], [NEW], True),
    (['["jobid", [">", "id", 500]]'], [NEW], False),
    (['["jobid", ["!", ["<", "id", 5]]]'], ['["jobid", ["=", "id", 7]]'], True),
]  # fmt: skip


@pytest.mark.parametrize(("wide", "narrow", "expected"), SHADOWED)
def test_shadowed(wide: list[str], narrow: list[str], expected: bool) -> None:
    earlier = rule("a", "ACCEPT", *wide, mark=20)
    later = rule("b", "PAUSE", *narrow, at=1, mark=30)
    findings = found("shadowed", later, earlier)
    assert [(one.level, one.uuid) for one in findings] == [("error", "b")] * expected
    # A rule without effect shadows nothing, and is not shadowed.
    assert found("shadowed", earlier._replace(action="CONTINUE"), later) == []
    assert found("shadowed", earlier, later._replace(action="CONTINUE")) == []


#: Predicates of two rules of the same priority -> whether a job can match both.
OVERLAP: Final[list[tuple[list[str], list[str], bool]]] = [
    ([D], [], True),
    ([D], [BUNNY], True),
    ([D], [T], False),
    ([T], ['["opcode", ["=", "kind", "node"]]'], True),
    ([T], ['["opcode", ["=[]", "tags", "t1"]]'], True),
    ([T], ['["opcode", ["?", "no_locks"]]'], False),
    ([BUNNY], ['["reason", ["=", "reason", "pony"]]'], False),
    ([BUNNY], ['["reason", ["=", "source", "gnt:client"]]'], True),
    ([NEW], ['["jobid", ["<", "id", 5]]'], False),
    ([NEW], ['["jobid", ["<", "id", 1000]]'], True),
    ([D, '["opcode", [">", "duration", 7]]'], ['["opcode", ["<", "duration", 9]]'], True),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "expected"), OVERLAP)
def test_overlap(one: list[str], other: list[str], expected: bool) -> None:
    first, second = rule("a", "ACCEPT", *one, mark=20), rule("b", "PAUSE", *other, mark=20)
    findings = found("overlap", first, second)
    assert [(one.level, one.uuid) for one in findings] == [("warning", "b")] * expected
    assert found("overlap", first._replace(priority=1), second) == []
    assert found("overlap", first._replace(action="PAUSE"), second) == []


def test_other_limits_are_other_actions() -> None:
    first, second = rule("a", "RATE_LIMIT", D), rule("b", "RATE_LIMIT", BUNNY)
    assert found("overlap", first, second) == []
    assert len(found("overlap", first._replace(limit=4), second)) == 1


def test_what_holds_jobs_of_the_daemon_is_noted() -> None:
    all_of_them = found("daemon", rule("a", "PAUSE", NEW, mark=5))
    assert [(one.level, one.uuid) for one in all_of_them] == [("note", "a")]
    assert (
        "PAUSE also applies to all kinds of jobs of the maintenance daemon" in all_of_them[0].text
    )
    (tags,) = found("daemon", rule("a", "RATE_LIMIT", T))
    assert "RATE_LIMIT 3 also applies to jobs with OP_TAGS_SET of the" in tags.text
    source = f'["reason", ["=", "source", "{JOB_SOURCE}"]]'
    assert len(found("daemon", rule("a", "REJECT", source))) == 1


def test_what_does_not_hold_them_is_not() -> None:
    source = f'["reason", ["=", "source", "{JOB_SOURCE}"]]'
    drain = rule("b", "PAUSE", at=1)
    assert found("daemon", rule("a", "ACCEPT", source), drain) == []
    assert found("daemon", rule("a", "PAUSE", D)) == []
    assert found("daemon", rule("a", "ACCEPT"), drain) == []
    assert found("daemon", rule("a", "PAUSE", BUNNY)) == []


def test_records_of_incidents_are_left_alone() -> None:
    record = rule("r", "CONTINUE", '["jobid", ["<", "id", 0]]')
    assert found("never", record) != []
    assert lint([record._replace(reasons=(Reason(RECORD_SOURCE, "{}", 1),))], {}) == []


def test_unreadable_rules_are_errors() -> None:
    assert lint([], {"x": "a fault"}) == [Remark("error", "x", "invalid", "", "a fault")]


ALLOWED: Final = (recipes.Allowed("gnt:user", "pink bunny"), recipes.DAEMON_JOBS)
RECIPES: Final = {
    "drain": recipes.drain(),
    "drain except": recipes.drain(ALLOWED),
    "soft drain": recipes.soft_drain(),
    "soft drain except": recipes.soft_drain(ALLOWED),
    "only": recipes.only(ALLOWED),
    "only new": recipes.only(ALLOWED[:1], new=True),
    "forbid": recipes.forbid(),
    "forbid others": recipes.forbid(["OP_TAGS_SET"]),
    "limit": recipes.limit(10),
    "limit others": recipes.limit(2, ["OP_TAGS_SET", "OP_TAGS_DEL"]),
}


@pytest.mark.parametrize("recipe", recipes.PRIORITIES)
def test_every_recipe_is_checked(recipe: str) -> None:
    name = recipe.replace("-", " ")
    assert name in RECIPES, (
        f"tests/plugins/filters/lint/test_chain_checks.py: add {name} to RECIPES"
    )


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_without_findings(name: str) -> None:
    reasons = (Reason("gnt:user", mark("drain", "bunny"), 1),)
    rules = [
        one._replace(uuid=f"u{at}", watermark=100 + at, reasons=reasons)
        for at, one in enumerate(RECIPES[name])
    ]
    assert lint(rules, {}) == []


def owned(name: str, owner: str, watermark: int) -> list[FilterRule]:
    """The rules of a recipe of an owner."""
    reasons = (Reason("gnt:user", mark(name.split(maxsplit=1)[0], owner), 1),)
    return [
        one._replace(uuid=f"{name}-{owner}-{at}", watermark=watermark, reasons=reasons)
        for at, one in enumerate(RECIPES[name])
    ]


@pytest.mark.parametrize("names", list(permutations(["drain", "soft drain", "forbid", "limit"], 2)))
def test_recipes_of_several_owners_do_not_disturb_each_other(names: tuple[str, str]) -> None:
    for first, second in (names, names[:1] * 2):
        assert lint([*owned(first, "a", 10), *owned(second, "b", 20)], {}) == []


def test_a_recipe_without_effect_is_an_error() -> None:
    accept = rule("x", "ACCEPT")
    assert len(found("shadowed", accept, *owned("drain", "a", 10))) == 1
    loose, strict = owned("limit", "a", 10)[0], owned("limit", "b", 20)[0]._replace(limit=2)
    assert [one.level for one in found("shadowed", loose, strict)] == ["error"]


def test_actions_that_are_not_of_ganeti() -> None:
    """They let jobs through at some time, and differ from each other although all are PAUSE."""
    window, approve = (
        rule(name, "PAUSE", D)._replace(reasons=(note_of(NotedAction(action), 1),))
        for name, action in (("a", "WINDOW"), ("b", "APPROVE"))
    )
    assert found("shadowed", window, approve) == []
    assert len(found("overlap", window, approve)) == 1
    assert "APPROVE also applies to all" in found("daemon", approve._replace(predicates=()))[0].text


def test_what_the_same_action_shadows_is_a_note() -> None:
    (one,) = found("shadowed", rule("a", "PAUSE"), rule("b", "PAUSE", D, at=1))
    assert one.level == "note"


# Conclusions about all jobs, beside jobs.

_FIELDS: Final = ("OP_ID", "no_locks", "repeat", "tags", "kind", "name", "nosuch", "mode")
_VALUES: Final = ("OP_TAGS_SET", "OP_TEST_DELAY", "", "x", 0, 1)


def _leaf() -> st.SearchStrategy[list[Any]]:
    fields, values = st.sampled_from(_FIELDS), st.sampled_from(_VALUES)
    compared = st.tuples(st.sampled_from(["=", "!=", "<", ">=", "=[]"]), fields, values)
    searched = st.tuples(st.just("=~"), fields, st.sampled_from(["TAGS", "^OP_T", "x"]))
    return st.one_of(compared, searched, st.tuples(st.just("?"), fields)).map(list)


EXPRESSIONS: Final = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: ["&", *parts]),
        st.lists(inner, max_size=3).map(lambda parts: ["|", *parts]),
        inner.map(lambda part: ["!", part]),
    ),
    max_leaves=5,
)


@st.composite
def opcodes(draw: st.DrawFn) -> dict[str, Any]:
    """An opcode with values of the right types, its optional parameters set or not."""
    name = draw(st.sampled_from(["OP_TAGS_SET", "OP_TEST_DELAY", "OP_INSTANCE_REPLACE_DISKS"]))
    values = {
        "b": st.booleans(),
        "n": st.sampled_from([0, 1, 2, 0.5]),
        "s": st.sampled_from(["", "x", "xy"]),
        "l": st.sampled_from([[], ["x"], [1], ["x", 1]]),
    }
    opcode: dict[str, Any] = {"OP_ID": name}
    for field, one in opcode_table()[name].items():
        if not one.optional or draw(st.booleans()):
            opcode[field] = draw(values[one.kind])
    return opcode


@settings(max_examples=often(75, 300))
@given(expression=EXPRESSIONS, opcode=opcodes())
def test_what_is_certain_is_true(expression: Any, opcode: dict[str, Any]) -> None:
    predicate = ["opcode", expression]
    known, name = reach(predicate, 0), opcode["OP_ID"]
    matches = link(FilterRule("u", 0, (predicate,))).matches(made_up(1, opcode, ()))
    assert not matches or name in known.opcodes
    assert matches or name not in known.sure


@settings(max_examples=often(75, 300))
@given(wide=EXPRESSIONS, narrow=EXPRESSIONS, how=st.sampled_from("ijkl"), opcode=opcodes())
def test_what_covers_another_matches_its_jobs(
    wide: Any, narrow: Any, how: str, opcode: dict[str, Any]
) -> None:
    related = {"i": narrow, "j": ["&", wide, narrow], "k": ["&", narrow, wide], "l": wide}[how]
    one, other = (FilterRule("u", 0, (["opcode", each],)) for each in (wide, related))
    job = made_up(1, opcode, ())
    if covers(one, other) and link(other).matches(job):
        assert link(one).matches(job)


@settings(max_examples=often(50, 200))
@given(first=EXPRESSIONS, second=EXPRESSIONS)
def test_a_witness_matches_both(first: Any, second: Any) -> None:
    rules = [FilterRule("u", 0, (["opcode", each],)) for each in (first, second)]
    job = witness(rules)
    assert job is None or all(link(one).matches(job) for one in rules)


@given(numbers=st.lists(st.integers(0, 9), min_size=4, max_size=4), job=st.integers(1, 12))
def test_job_ids_cover(numbers: list[int], job: int) -> None:
    a, b, c, d = numbers
    one = FilterRule("u", 0, (["jobid", ["|", [">", "id", a], ["=", "id", b]]],))
    other = FilterRule("v", 0, (["jobid", ["&", [">=", "id", c], ["!=", "id", "watermark"]]],))
    other = other._replace(watermark=d)
    if covers(one, other) and link(other).matches(Job(job)):
        assert link(one).matches(Job(job))


def test_a_hundred_rules_are_checked_with_little_work() -> None:
    names = sorted(opcode_table())
    rules = [
        rule(f"{at:03}", "PAUSE" if at % 2 else "REJECT", json.dumps(predicate), BUNNY, at=5)
        for at in range(100)
        for predicate in [["opcode", ["=~", "OP_ID", f"^{names[at % len(names)][: 6 + at % 7]}"]]]
    ]
    found, calls = counted(lambda: lint(rules, {}))
    assert found
    assert calls < 2_000_000


def test_a_rule_that_is_not_written_yet_gets_its_watermark_then() -> None:
    old = rule("a", "ACCEPT", '["jobid", ["<=", "id", "watermark"]]')
    rest = rule("b", "PAUSE", at=1)
    assert [one.check for one in lint([old, rest], {})] == ["always"]
    assert [one.check for one in lint([rule("a", "REJECT", NEW)], {})] == ["daemon"]


INCIDENT: Final = "0f0f0f0f-1111-2222-3333-000000000001"


def of_the_daemon() -> list[FilterRule]:
    return [record_rule(INCIDENT, "{}", 1), *creation_rules(INCIDENT, "node1", 1)]


def test_rules_of_the_daemon_are_as_they_must_be() -> None:
    assert lint(of_the_daemon(), {}) == []


@pytest.mark.parametrize("action", ["PAUSE", "REJECT", "ACCEPT", "RATE_LIMIT"])
@pytest.mark.parametrize("without", [True, False])
def test_a_record_that_acts(action: str, without: bool) -> None:
    """Whatever it applies to: a record never has an effect."""
    record = of_the_daemon()[0]._replace(action=action, limit=action == "RATE_LIMIT")
    one = record._replace(predicates=()) if without else record
    (remark,) = found("altered", one)
    assert (remark.level, remark.uuid) == ("error", INCIDENT)
    assert "it is the record of an incident, and its action is " + action in remark.text
    assert remark.text.endswith(f"can be deleted: gnt-filter delete {INCIDENT}")


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        {"predicates": ()},
        {"predicates": (["opcode", ["=", "OP_ID", "OP_INSTANCE_CREATE"]],)},
        {"predicates": (["opcode", ["&", [], ["=", "pnode", "node1"]]],)},
        {"action": "REJECT"},
        {"action": "CONTINUE"},
        {"priority": 1},
        {"uuid": "another"},
    ],
    ids=str,
)
def test_a_rule_that_holds_something_else_than_creations(
    which: int, change: dict[str, Any]
) -> None:
    (remark,) = found("altered", of_the_daemon()[which]._replace(**change))
    assert remark.level == "error"
    assert f"it must hold new instances only, for incident {INCIDENT}" in remark.text
