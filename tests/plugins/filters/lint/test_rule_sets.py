"""Sets of rules as people write them: lint finds the fault of each faulty one, and no other."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.lint.lint import NOTE, lint

#: Action, and predicates; the priority is the place in the set, or stands before the action.
Rules = list[tuple[Any, ...]]

_ALL: Final[list[Any]] = []
_NEW: Final = [["jobid", [">", "id", "watermark"]]]


def _opcode(*expression: Any) -> list[Any]:
    return [["opcode", list(expression)]]


def _reason(*expression: Any) -> list[Any]:
    return [["reason", list(expression)]]


_BUNNY: Final = _reason("=", "reason", "pink bunny")
_DELAY: Final = _opcode("=", "OP_ID", "OP_TEST_DELAY")
_CREATE: Final = _opcode("=", "OP_ID", "OP_INSTANCE_CREATE")

#: Rules -> the check that finds the fault.
FAULTY: Final[list[tuple[str, Rules]]] = [
    ("never", [("ACCEPT", _reason("=~", "reason", "pink bunny"))]),
    ("never", [("PAUSE", _reason("!", ["=~", "reason", "pink"]))]),
    ("never", [("PAUSE", _reason("=", "text", "pink bunny"))]),
    ("never", [("PAUSE", _reason("?", "reason"))]),
    ("never", [("PAUSE", _reason("=", "reason", 5))]),
    ("never", [("REJECT", _opcode("=", "OP_ID", "OP_INSTANCE_CREAT"))]),
    ("never", [("REJECT", _opcode("=", "OP_ID", "INSTANCE_CREATE"))]),
    ("never", [("REJECT", _opcode("=", "OP_ID", "op_instance_create"))]),
    ("never", [("REJECT", _opcode("=~", "OP_ID", "instance"))]),
    ("never", [("REJECT", _opcode("=~", "OP_ID", "^INSTANCE_"))]),
    ("never", [("PAUSE", _opcode("=", "comment", "upgrade"))]),
    ("never", [("PAUSE", _opcode("<", "priority", 0))]),
    ("never", [("PAUSE", _opcode("=", "instance", "web1"))]),
    ("never", [("PAUSE", _opcode("=", "repeat", "5"))]),
    ("never", [("PAUSE", _opcode("=", "no_locks", 1))]),
    ("never", [("PAUSE", _opcode("?", "repeat"))]),
    ("never", [("PAUSE", _opcode("=", "tags", "web"))]),
    ("never", [("PAUSE", _opcode("=~", "tags", "web"))]),
    ("never", [("PAUSE", _opcode("=[]", "instance_name", "web1"))]),
    ("never", [("PAUSE", [["jobid", ["=", "id", "5"]]])]),
    ("never", [("PAUSE", [["jobid", ["=", "number", 5]]])]),
    ("never", [("PAUSE", [["jobid", ["<", "id", 1]]])]),
    ("never", [("PAUSE", [["jobid", ["<", "id", 5]], ["jobid", [">", "id", 9]]])]),
    (
        "never",
        [("PAUSE", _opcode("&", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "OP_ID", "OP_TAGS_DEL"]))],
    ),
    (
        "part",
        [
            (
                "PAUSE",
                _opcode("&", ["=", "instance_name", "a"], ["=", "instance_name", "b"]),
            )
        ],
    ),
    ("part", [("PAUSE", _opcode("&", [">", "repeat", 5], ["<", "repeat", 2]))]),
    ("part", [("PAUSE", _reason("&", ["=", "source", "a"], ["=", "source", "b"]))]),
    ("part", [("REJECT", _reason("<", "timestamp", 1_700_000_000))]),
    ("part", [("REJECT", _reason(">", "timestamp", 1_700_000_000))]),
    ("always", [("PAUSE", _reason("!=", "reason", "pink bunny"))]),
    ("always", [("PAUSE", _reason("!", ["=", "source", "gnt:client"]))]),
    ("always", [("PAUSE", _opcode("=~", "OP_ID", "^OP_"))]),
    ("part", [("PAUSE", _opcode("|", ["=", "OP_ID", "OP_TAGS_SET"], ["=", "OP_ID", "TAGS_DEL"]))]),
    ("unset", [("PAUSE", _opcode("!=", "iallocator", "hail"))]),
    ("effect", [("CONTINUE", _DELAY)]),
    ("shadowed", [("PAUSE", _ALL), ("ACCEPT", _BUNNY)]),
    ("shadowed", [("ACCEPT", _DELAY), ("RATE_LIMIT", _DELAY)]),
    ("shadowed", [("REJECT", _opcode("=~", "OP_ID", "^OP_TEST_")), ("ACCEPT", _DELAY)]),
    ("overlap", [(5, "ACCEPT", _BUNNY), (5, "PAUSE", _ALL)]),
    ("overlap", [(5, "REJECT", _CREATE), (5, "RATE_LIMIT", _opcode("?", "wait_for_sync"))]),
]

GOOD: Final[list[Rules]] = [
    [("ACCEPT", _BUNNY), ("PAUSE", _ALL)],
    [("ACCEPT", _BUNNY), ("REJECT", _NEW)],
    [("PAUSE", _NEW)],
    [("REJECT", _NEW)],
    [("REJECT", _CREATE)],
    [("RATE_LIMIT", _DELAY)],
    [("PAUSE", _opcode("=~", "OP_ID", "^OP_INSTANCE_(MIGRATE|FAILOVER)$"))],
    [("PAUSE", _opcode("&", ["=", "OP_ID", "OP_TEST_DELAY"], [">", "duration", 60]))],
    [("PAUSE", _opcode("=", "instance_name", "web1.example.com"))],
    [("PAUSE", _opcode("=~", "instance_name", "^web[0-9]+"))],
    [("PAUSE", _opcode("?", "no_locks"))],
    [("PAUSE", _opcode("!", ["?", "no_locks"]))],
    [("PAUSE", _opcode("=[]", "tags", "web"))],
    [("PAUSE", _reason("&", ["=", "source", "gnt:user"], ["=", "reason", "upgrade"]))],
    [("ACCEPT", [["jobid", ["<=", "id", "watermark"]]]), ("PAUSE", _ALL)],
    [("PAUSE", [["jobid", [">", "id", 5]], ["jobid", ["<", "id", 9]]])],
    [("RATE_LIMIT", _reason("=", "source", "gnt:opcode:instance_create"))],
    [(5, "PAUSE", _DELAY), (5, "REJECT", _CREATE)],
    [(5, "PAUSE", _NEW), (5, "PAUSE", _BUNNY)],
    [("REJECT", _CREATE), ("RATE_LIMIT", _opcode("=~", "OP_ID", "^OP_INSTANCE_"))],
]


def made(rules: Rules) -> list[FilterRule]:
    found = []
    for at, (*priority, action, predicates) in enumerate(rules):
        limit = 3 if action == "RATE_LIMIT" else 0
        first = priority[0] if priority else at
        found.append(FilterRule(f"{at}", first, tuple(predicates), action, limit, (), 20 + at))
    return found


def test_there_are_enough() -> None:
    assert (len(FAULTY), len(GOOD)) == (40, 20)


@pytest.mark.parametrize(("check", "rules"), FAULTY)
def test_a_faulty_set(check: str, rules: Rules) -> None:
    assert check in {one.check for one in lint(made(rules), {})}


@pytest.mark.parametrize("rules", GOOD)
def test_a_good_set(rules: Rules) -> None:
    """Notes are no alarms: the exit status of the command is 0."""
    assert [one for one in lint(made(rules), {}) if one.level != NOTE] == []
