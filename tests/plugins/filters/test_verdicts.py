"""The verdicts that a real luxid was seen to give (job-filters 2)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.analysis.explain import explain
from ganeti_steward.plugins.filters.chain import link
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job, read_job
from ganeti_steward.plugins.filters.language import DESIGN, LUXID, Dialect, faults_of

DELAY: Final[dict[str, Any]] = {
    "OP_ID": "OP_TEST_DELAY",
    "duration": 0,
    "on_master": False,
    "on_nodes": [],
    "no_locks": True,
    "interruptible": False,
    "repeat": 0,
}
TAG: Final[dict[str, Any]] = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["t1"]}
PINK: Final = "maintenance pink bunny"
WATERMARK: Final = 100


def job(*opcodes: dict[str, Any], reasons: tuple[tuple[str, str, int], ...] = ()) -> Job:
    """A job submitted after the rule; luxid adds a reason for each opcode."""
    own = [
        ("gnt:" + one["OP_ID"].lower().replace("op_", "opcode:", 1), f"job=101;index={at}", 9)
        for at, one in enumerate(opcodes)
    ]
    return Job(101, opcodes=opcodes, reasons=tuple(Reason(*one) for one in (*reasons, *own)))


D: Final = job(DELAY)
T: Final = job(TAG)
R: Final = job(DELAY, reasons=(("gnt:user", PINK, 5), ("gnt:client", "other", 7)))
LONG: Final = job({**DELAY, "duration": 0.5})
COMMENTED: Final = job({**DELAY, "comment": "c"})
BOTH: Final = job(DELAY, TAG)

#: Number in the table -> job, predicate as JSON, luxid's verdict.
VERDICTS: Final[dict[int, tuple[Job, str, bool]]] = {
    1: (D, '["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]', True),
    2: (D, '["opcode", ["!=", "OP_ID", "OP_TEST_DELAY"]]', False),
    3: (D, '["opcode", ["=~", "OP_ID", "TEST_"]]', True),
    4: (D, '["opcode", ["=~", "OP_ID", "test_"]]', False),
    5: (D, '["opcode", ["=~", "on_nodes", "x"]]', False),
    6: (D, '["opcode", ["!", ["=", "nosuch", "x"]]]', False),
    7: (D, '["opcode", ["|", ["=", "OP_ID", "OP_TEST_DELAY"], ["=", "nosuch", "x"]]]', False),
    8: (D, '["opcode", ["=", "repeat", 0]]', True),
    9: (D, '["opcode", ["=", "repeat", "0"]]', False),
    10: (D, '["opcode", ["<", "repeat", "a"]]', True),
    11: (D, '["opcode", ["?", "no_locks"]]', True),
    12: (D, '["opcode", ["!", ["?", "interruptible"]]]', True),
    13: (D, '["opcode", ["!", ["?", "repeat"]]]', False),
    14: (D, '["opcode", ["|", ["=", "OP_ID", "OP_TEST_DELAY"], ["?", "repeat"]]]', True),
    15: (D, '["opcode", ["|", ["?", "repeat"], ["=", "OP_ID", "OP_TEST_DELAY"]]]', False),
    16: (D, '["opcode", ["=", "no_locks", 1]]', False),
    17: (LONG, '["opcode", [">", "duration", 0]]', True),
    18: (T, '["opcode", ["=[]", "tags", "t1"]]', True),
    19: (T, '["opcode", ["=[]", "kind", "cluster"]]', False),
    20: (T, '["opcode", [">", "tags", "t1"]]', True),
    21: (T, '["opcode", ["!=", "name", "x"]]', False),
    22: (COMMENTED, '["opcode", ["=", "comment", "c"]]', False),
    23: (D, '["opcode", null]', True),
    24: (D, '["opcode", ["|"]]', False),
    25: (R, f'["reason", ["=", "reason", "{PINK}"]]', True),
    26: (R, f'["reason", ["=~", "reason", "{PINK}"]]', False),
    27: (R, f'["reason", ["|", ["=", "reason", "{PINK}"], ["=~", "reason", "x"]]]', True),
    28: (R, f'["reason", ["&", ["=", "source", "gnt:client"], ["=", "reason", "{PINK}"]]]', False),
    29: (R, '["reason", ["<", "timestamp", 6]]', True),
    30: (R, f'["reason", ["!=", "reason", "{PINK}"]]', True),
    31: (D, '["reason", ["=", "source", "gnt:opcode:test_delay"]]', True),
    32: (R, '["reason", ["!", ["=", "nofield", "x"]]]', False),
    33: (D, '["jobid", [">", "id", "watermark"]]', True),
    34: (D, '["jobid", ["!", ["<=", "id", "watermark"]]]', True),
    35: (D, '["jobid", [">", "id", "5"]]', False),
    36: (D, '["jobid", ["?", "id"]]', False),
    37: (BOTH, '["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "repeat", 0]]]', False),
}

#: What the design promises in addition; all else is the same.
PROMISED: Final = {22: True, 26: True}


def verdict(about: Job, *predicates: str, dialect: Dialect = LUXID) -> bool:
    rule = FilterRule(
        "u", predicates=tuple(json.loads(one) for one in predicates), watermark=WATERMARK
    )
    assert faults_of(rule.predicates) == []
    return link(rule, dialect).matches(about)


@pytest.mark.parametrize("number", VERDICTS)
def test_luxid(number: int) -> None:
    about, predicate, expected = VERDICTS[number]
    assert verdict(about, predicate) is expected


@pytest.mark.parametrize("number", VERDICTS)
def test_design(number: int) -> None:
    about, predicate, expected = VERDICTS[number]
    assert verdict(about, predicate, dialect=DESIGN) is PROMISED.get(number, expected)


def test_job_ids_beside_texts() -> None:
    """A number sorts before any text, but luxid does not compare them."""
    assert verdict(D, '["jobid", ["<", "id", "5"]]', dialect=DESIGN)
    assert not verdict(D, '["jobid", ["<", "id", "5"]]')


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('[">=", "source", -1]', False),
        ('["<", "source", -1]', True),
        ('[">", "timestamp", "abc"]', True),
        ('["=", "timestamp", "5"]', False),
    ],
)
def test_strings_sort_before_the_numbers_of_reasons(expression: str, expected: bool) -> None:
    """Fields of opcodes are sorted the other way round."""
    assert verdict(R, f'["reason", {expression}]') is expected


def test_two_predicates_for_two_opcodes() -> None:
    """Number 38."""
    names = (f'["opcode", ["=", "OP_ID", "OP_{one}"]]' for one in ("TAGS_SET", "TEST_DELAY"))
    assert verdict(BOTH, *names)


def test_dots_lead_into_objects() -> None:
    about = job({**DELAY, "beparams": {"memory": 512, "more": {"x": "y"}}})
    assert verdict(about, '["opcode", ["=", "beparams.memory", 512]]')
    assert verdict(about, '["opcode", ["=", "beparams.more.x", "y"]]')
    assert not verdict(about, '["opcode", ["!=", "beparams.nothing", "y"]]')
    assert not verdict(about, '["opcode", ["!=", "on_nodes.0", "y"]]')


@pytest.mark.parametrize(
    ("value", "smaller"),
    [(None, False), (True, True), (5, True), (5.5, True), ("a", False), ([], False), ({}, False)],
)
def test_values_of_different_types_are_ordered(value: object, smaller: bool) -> None:
    """Null, booleans, numbers, strings, lists, objects."""
    about = job({**DELAY, "x": value})
    assert verdict(about, '["opcode", ["<", "x", "a"]]') is (smaller or value is None)
    assert verdict(about, '["opcode", [">", "x", "a"]]') is (value in ([], {}))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1, 2], True),
        ([3], False),
        ([], False),
        (["1"], False),
        ([1, "1"], False),
        ([1.5, 1], False),
    ],
)
def test_an_integer_in_a_list(value: object, found: bool) -> None:
    about = job({**DELAY, "x": value})
    assert verdict(about, '["opcode", ["=[]", "x", 1]]') is found


def test_a_regular_expression_over_lines() -> None:
    assert verdict(job({**DELAY, "x": "one\ntwo"}), '["opcode", ["=~", "x", "^two$"]]')


@pytest.mark.parametrize("number", VERDICTS)
@pytest.mark.parametrize("dialect", [LUXID, DESIGN])
def test_explanations_have_the_same_verdict(number: int, dialect: Dialect) -> None:
    about, predicate, _ = VERDICTS[number]
    rule = FilterRule("u", 0, (json.loads(predicate),), "PAUSE", watermark=WATERMARK)
    (step,) = explain(about.number, [about], [rule], dialect, 20).steps
    assert step.matched is verdict(about, predicate, dialect=dialect)
    assert bool(step.predicates[0].causes) is not step.matched


def nested(levels: int) -> Any:
    found: Any = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"id": "٣"}, "key 'id': the number of a job is expected"),
        ({"id": "9" * 5000}, "key 'id': the number of a job is expected"),
        ({"ops": [{"OP_ID": "A", "x": nested(300)}]}, "more than 200 levels are too many"),
        ({"ops": [{"OP_ID": "A", "depends": [5]}]}, "key 'depends': numbers of jobs are expected"),
        ({"ops": [{"OP_ID": "A", "depends": [[float("inf")]]}]}, "key 'depends': numbers of jobs"),
        ({"ops": [{"OP_ID": "A", "priority": "high"}]}, "key 'priority': a whole number is"),
    ],
)
def test_a_job_of_another_form(changed: dict[str, Any], fault: str) -> None:
    """A job that cannot be read stays held; nothing else depends on it."""
    with pytest.raises(ValueError, match=fault):
        read_job({"id": 5, "ops": []} | changed)
