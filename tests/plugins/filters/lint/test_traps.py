"""Each trap that luxid has for rules, found by lint (job-filters 2)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.lint.lint import CHECKS, LEVELS, NOTE, Remark, lint

WATERMARK: Final = 100


def findings(*predicates: Any, action: str = "PAUSE") -> list[Remark]:
    """About one rule; without what is known of every rule that holds jobs."""
    found = lint([FilterRule("u", 0, predicates, action, watermark=WATERMARK)], {})
    assert all(one.level in LEVELS and one.check in CHECKS for one in found)
    return [one for one in found if one.level != NOTE]


#: A predicate that no job satisfies -> where the cause is, and what of the sentence about it.
NEVER: Final = {
    '["reason", ["=~", "reason", "maintenance pink bunny"]]': (
        "predicates[0][1]",
        "luxid never finds '=~' true of a reason",
    ),
    '["reason", ["!", ["=~", "reason", "x"]]]': ("predicates[0][1][1]", "also under '!'"),
    '["reason", ["?", "reason"]]': ("predicates[0][1]", "'?'"),
    '["reason", ["=[]", "reason", "x"]]': ("predicates[0][1]", "'=[]'"),
    '["reason", ["!", ["=", "nofield", "x"]]]': ("predicates[0][1][1]", "no field 'nofield'"),
    '["reason", ["=", "timestamp", "5"]]': ("predicates[0][1]", "is always false; use 5 without"),
    '["reason", ["|"]]': ("predicates[0][1]", "'|' without any part is always false"),
    '["opcode", ["|"]]': ("predicates[0][1]", "'|' without any part is always false"),
    '["opcode", ["!", null]]': ("predicates[0][1]", "no opcode of Ganeti 3 can satisfy"),
    '["opcode", ["=", "nosuch", "x"]]': ("predicates[0][1]", "has the field 'nosuch'"),
    '["opcode", ["!", ["=", "nosuch", "x"]]]': ("predicates[0][1][1]", "has the field 'nosuch'"),
    '["opcode", ["|", ["=", "OP_ID", "OP_TEST_DELAY"], ["=", "nosuch", "x"]]]': (
        "predicates[0][1][2]",
        "has the field 'nosuch'",
    ),
    '["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "repeat", 0]]]': (
        "predicates[0][1]",
        "OP_TAGS_SET has no field 'repeat' and never match",
    ),
    '["opcode", ["&", ["=~", "OP_ID", "^OP_TAGS"], ["=", "repeat", 0]]]': (
        "predicates[0][1]",
        "no field 'repeat'",
    ),
    '["opcode", ["&", ["=", "pnode", "a"], ["=", "repeat", 0]]]': (
        "predicates[0][1]",
        "no opcode of Ganeti 3 can satisfy",
    ),
    '["opcode", ["=", "comment", "c"]]': ("predicates[0][1]", "do not see the field 'comment'"),
    '["opcode", ["<", "priority", 0]]': ("predicates[0][1]", "do not see the field 'priority'"),
    '["opcode", ["?", "dry_run"]]': ("predicates[0][1]", "do not see the field 'dry_run'"),
    '["opcode", ["=", "depends", 1]]': ("predicates[0][1]", "do not see the field 'depends'"),
    '["opcode", ["=", "reason", "x"]]': ("predicates[0][1]", "do not see the field 'reason'"),
    '["opcode", ["=", "debug_level", 1]]': ("predicates[0][1]", "do not see the field 'debug_l"),
    '["opcode", ["=~", "on_nodes", "x"]]': (
        "predicates[0][1]",
        "'=~' needs a string, but on_nodes is a list",
    ),
    '["opcode", ["?", "repeat"]]': ("predicates[0][1]", "needs a boolean, but repeat is a number"),
    '["opcode", ["!", ["?", "repeat"]]]': ("predicates[0][1][1]", "needs a boolean"),
    '["opcode", ["=[]", "mode", "x"]]': ("predicates[0][1]", "'=[]' needs a list, but mode is"),
    '["opcode", ["=", "repeat", "5"]]': (
        "predicates[0][1]",
        "repeat is a number, and comparing it with the text \"5\" by '=' is always false; "
        "use 5 without quotes",
    ),
    '["opcode", ["=", "no_locks", 1]]': ("predicates[0][1]", 'use ["?", "no_locks"]'),
    '["opcode", ["=", "on_nodes", "a"]]': ("predicates[0][1]", 'use ["=[]", "on_nodes", ...]'),
    '["opcode", ["=", "OP_ID", "op_test_delay"]]': ("predicates[0][1]", "; use 'OP_TEST_DELAY'"),
    '["opcode", ["=", "OP_ID", "TEST_DELAY"]]': ("predicates[0][1]", "; use 'OP_TEST_DELAY'"),
    '["opcode", ["=", "OP_ID", "OP_NO_SUCH"]]': ("predicates[0][1]", "has the name 'OP_NO_SUCH'"),
    '["opcode", ["=~", "OP_ID", "test_"]]': ("predicates[0][1]", "their names are in upper case"),
    '["opcode", ["=~", "OP_ID", "BUNNY"]]': ("predicates[0][1]", "3 matches 'BUNNY'"),
    '["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "OP_ID", "OP_TAGS_DEL"]]]': (
        "predicates[0][1]",
        "no opcode of Ganeti 3 can satisfy",
    ),
    '["opcode", ["=", "tags.x", "a"]]': ("predicates[0][1]", "has the field 'tags.x'"),
    '["jobid", [">", "id", "5"]]': ("predicates[0][1]", "'5'; use 5 without quotes"),
    '["jobid", ["!", ["=", "id", "Watermark"]]]': ("predicates[0][1][1]", "the word 'watermark'"),
    '["jobid", ["?", "id"]]': ("predicates[0][1]", "only compares job ids"),
    '["jobid", ["=~", "id", "5"]]': ("predicates[0][1]", "only compares job ids"),
    '["jobid", ["=", "number", 5]]': ("predicates[0][1]", "has the field 'id' only"),
    '["jobid", ["&", ["<", "id", 5], [">", "id", "watermark"]]]': (
        "predicates[0][1]",
        "no job id can satisfy",
    ),
    '["jobid", ["<", "id", 1]]': ("predicates[0][1]", "no job id can satisfy"),
}  # fmt: skip


@pytest.mark.parametrize("predicate", NEVER)
def test_never(predicate: str) -> None:
    place, text = NEVER[predicate]
    found = [one for one in findings(json.loads(predicate)) if one.check == "never"]
    assert [(one.level, one.place) for one in found] == [("error", place)]
    assert text in found[0].text


#: A predicate with a part that has no effect -> where, and what of the sentence.
PART: Final = {
    '["opcode", ["&", ["=", "pnode", "a"], ["=", "pnode", "b"]]]': (
        "predicates[0][1]",
        'no pnode satisfies both ["=", "pnode", "a"] and ["=", "pnode", "b"]',
    ),
    '["opcode", ["|", ["?", "no_locks"], ["&", ["<", "repeat", 3], [">", "repeat", 2]]]]': (
        "predicates[0][1][2]",
        'no repeat satisfies both ["<", "repeat", 3] and [">", "repeat", 2]',
    ),
    '["reason", ["&", ["=", "source", "a"], ["!=", "source", "a"]]]': (
        "predicates[0][1]",
        "no source satisfies both",
    ),
    '["reason", ["<", "timestamp", 1767225600]]': (
        "predicates[0][1]",
        "luxid's times are in nanoseconds since 1970, 1767225600 is 1.8 s after its beginning; "
        "use 1767225600000000000 for the time in seconds",
    ),
    '["opcode", ["|", ["=", "OP_ID", "OP_TEST_DELAY"], ["=", "OP_ID", "op_tags_set"]]]': (
        "predicates[0][1][2]",
        "use 'OP_TAGS_SET'",
    ),
    '["opcode", ["|", ["=", "OP_ID", "OP_TEST_DELAY"], ["?", "repeat"]]]': (
        "predicates[0][1][2]",
        "needs a boolean",
    ),
    '["opcode", ["<", "repeat", "a"]]': ("predicates[0][1]", "is always true"),
    '["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], [">", "tags", "t1"]]]': (
        "predicates[0][1][2]",
        "tags is a list, and comparing it",
    ),
    '["opcode", ["&", ["&"], ["=", "OP_ID", "OP_TAGS_SET"]]]': (
        "predicates[0][1][1]",
        "'&' without any part is always true",
    ),
    '["opcode", ["|", ["=", "OP_ID", "OP_TAGS_SET"], ["&", ["=", "OP_ID", "OP_TEST_DELAY"], '
    '["=", "repeat", 0]]]]': ("predicates[0][1]", "OP_TAGS_SET has no field 'repeat'"),
    '["reason", ["|", ["=", "reason", "bunny"], ["=~", "reason", "x"]]]': (
        "predicates[0][1][2]",
        "luxid never finds '=~' true",
    ),
    '["reason", ["&", ["=", "source", "gnt:user"], [">", "timestamp", "abc"]]]': (
        "predicates[0][1][2]",
        "is always true",
    ),
    '["jobid", ["|", [">", "id", "watermark"], ["=", "id", "7"]]]': (
        "predicates[0][1][2]",
        "use 7 without quotes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("predicate", PART)
def test_part(predicate: str) -> None:
    place, text = PART[predicate]
    found = [one for one in findings(json.loads(predicate)) if one.check != "unset"]
    assert [one.place for one in found] == [place]
    assert text in found[0].text


@pytest.mark.parametrize(
    "predicate",
    [
        '["reason", ["!=", "reason", "maintenance pink bunny"]]',
        '["reason", ["!", ["=", "source", "gnt:user"]]]',
        '["opcode", ["=~", "OP_ID", "OP_"]]',
        '["opcode", ["&"]]',
        '["jobid", [">", "id", 0]]',
    ],
)
def test_always(predicate: str) -> None:
    found = [one for one in findings(json.loads(predicate)) if one.check == "always"]
    assert [(one.level, one.place) for one in found] == [("warning", "predicates[0][1]")]


@pytest.mark.parametrize("predicates", ["[]", '[["opcode", null]]', '[["reason", null]]'])
def test_a_rule_for_every_job_is_noted(predicates: str) -> None:
    rule = FilterRule("u", 0, tuple(json.loads(predicates)), "PAUSE")
    found = lint([rule], {})
    assert [(one.level, one.check) for one in found] == [("note", "always"), ("note", "daemon")]


#: A predicate that an unset parameter prevents from matching -> the parameters in the sentence.
UNSET: Final = {
    '["opcode", ["|", ["=", "pnode", "a"], ["=", "snode", "a"]]]': "all of pnode, snode are set",
    '["opcode", ["&", ["=", "OP_ID", "OP_INSTANCE_CREATE"], ["!=", "pnode", "a"]]]': "pnode is set",
    '["opcode", ["!", ["=", "pnode", "a"]]]': "pnode is set",
    '["opcode", ["!", ["=", "beparams.maxmem", 512]]]': "beparams.maxmem is set",
}


@pytest.mark.parametrize("predicate", UNSET)
def test_unset(predicate: str) -> None:
    (found,) = findings(json.loads(predicate))
    assert (found.level, found.check) == ("warning", "unset")
    assert UNSET[predicate] in found.text


@pytest.mark.parametrize(
    "predicate",
    [
        '["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]',
        '["opcode", ["=~", "OP_ID", "^OP_(TAGS|TEST)_"]]',
        '["opcode", ["!=", "OP_ID", "OP_TEST_DELAY"]]',
        '["opcode", ["&", ["=", "OP_ID", "OP_TEST_DELAY"], [">", "duration", 0]]]',
        '["opcode", ["&", ["=", "OP_ID", "OP_INSTANCE_CREATE"], ["=", "pnode", "node1"]]]',
        '["opcode", ["&", ["=", "OP_ID", "OP_TAGS_SET"], ["=[]", "tags", "t1"]]]',
        '["opcode", ["?", "no_locks"]]',
        '["opcode", ["!", ["?", "interruptible"]]]',
        '["opcode", [">", "beparams.maxmem", 512]]',
        '["reason", ["=", "reason", "maintenance pink bunny"]]',
        '["reason", ["&", ["=", "source", "gnt:user"], ["!=", "reason", "x"]]]',
        '["reason", ["<", "timestamp", 6]]',
        '["reason", ["=", "source", "gnt:opcode:test_delay"]]',
        '["jobid", [">", "id", "watermark"]]',
        '["jobid", ["!", ["<=", "id", "watermark"]]]',
        '["jobid", ["<", "id", 50]]',
    ],
)
def test_nothing(predicate: str) -> None:
    assert findings(json.loads(predicate)) == []


def test_job_ids_that_exclude_each_other() -> None:
    (found,) = findings(["jobid", ["<", "id", 5]], ["jobid", [">", "id", "watermark"]])
    assert (found.level, found.check, found.place) == ("error", "never", "predicates")


def test_a_disabled_rule_is_checked_too() -> None:
    (found,) = findings(["reason", ["=~", "reason", "x"]], action="CONTINUE")
    assert found.check == "never"


def test_invalid_predicates() -> None:
    (found,) = findings(["opcode", ["=", "OP_ID"]])
    assert (found.check, found.place) == ("invalid", "predicates[0][1]")
    assert found.text == "operator '=' takes a field and a value, not 1 parts"


@pytest.mark.parametrize(
    "predicate",
    [
        '["opcode", ["&", ["=", "pnode", "a"], ["=", "snode", "b"]]]',
        '["opcode", ["&", [">", "repeat", 1], ["<", "repeat", 3]]]',
        '["opcode", ["&", ["!=", "pnode", "a"], ["!=", "pnode", "b"]]]',
        '["opcode", ["&", [">=", "pnode", "a"], ["<", "pnode", "b"]]]',
        '["opcode", ["|", ["=", "pnode", "a"], ["=", "pnode", "b"]]]',
        '["reason", ["<", "timestamp", 1767225600000000000]]',
        '["reason", [">", "timestamp", 0]]',
    ],
)
def test_conditions_that_can_be_true_together(predicate: str) -> None:
    assert [one for one in findings(json.loads(predicate)) if one.check == "part"] == []


def test_a_rule_with_predicates_and_without_effect_is_noted() -> None:
    delays = json.loads('["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]')
    (one,) = lint([FilterRule("u", 0, (delays,))], {})
    assert (one.level, one.check, one.place) == ("note", "effect", "")
    assert one.text == "the action is CONTINUE, which has no effect on the jobs that match"
    assert lint([FilterRule("u", 0, ())], {}) == []
