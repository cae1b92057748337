"""Predicates that luxid does not take: one sentence for each fault, with its place."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

import pytest
from asserting import some
from thorough import seeds

from ganeti_steward.plugins.filters.language import faults_of

#: Predicates -> the beginning of each sentence.
FAULTS: Final[list[tuple[Any, list[str]]]] = [
    ({}, ["predicates: a list is expected, found an object"]),
    (["jobid"], ["predicates[0]: a predicate is a list [name, expression], found the text"]),
    ([[]], ["predicates[0][0]: the name", "predicates[0]: a predicate has two parts"]),
    ([["JobId", None]], ["predicates[0][0]: the name of a predicate is jobid, opcode or reason"]),
    ([["jobid", None, None]], ["predicates[0]: a predicate has two parts"]),
    ([["jobid", []]], ["predicates[0][1]: an expression is null or a list [operator, ...]"]),
    ([["jobid", "x"]], ["predicates[0][1]: an expression is null or a list"]),
    ([["jobid", ["<>", "id", 1]]], ["predicates[0][1][0]: '<>' is not an operator"]),
    ([["jobid", ["!", ["!~", "id", 1]]]], ["predicates[0][1][1][0]: '!~' is not an operator"]),
    ([["jobid", [7]]], ["predicates[0][1][0]: an operator is expected"]),
    ([["jobid", ["!"]]], ["predicates[0][1]: operator '!' takes one expression, not 0"]),
    ([["opcode", ["?", "a", 1]]], ["predicates[0][1]: operator '?' takes one field"]),
    ([["opcode", ["=", "a"]]], ["predicates[0][1]: operator '=' takes a field and a value"]),
    ([["opcode", ["=", 1, 1]]], ["predicates[0][1][1]: the name of a field is expected"]),
    ([["opcode", ["=", "a", True]]], ["predicates[0][1][2]: a string or an integer"]),
    ([["opcode", ["=", "a", 1.5]]], ["predicates[0][1][2]: a string or an integer"]),
    ([["opcode", ["=", "a", None]]], ["predicates[0][1][2]: a string or an integer"]),
    ([["opcode", ["=~", "a", "("]]], ["predicates[0][1][2]: the regular expression '(' is"]),
    ([["opcode", ["=~", "a", 1]]], ["predicates[0][1][2]: a regular expression is expected"]),
    (
        [["opcode", ["&", ["x"], ["|", ["=", "a", []], None]]], "y"],
        ["predicates[0][1][1][0]", "predicates[0][1][2][1][2]", "predicates[1]"],
    ),
]


@pytest.mark.parametrize(("predicates", "beginnings"), FAULTS)
def test_faults(predicates: Any, beginnings: list[str]) -> None:
    found = faults_of(predicates)
    assert len(found) == len(beginnings)
    for sentence, beginning in zip(found, beginnings, strict=True):
        assert sentence.startswith(beginning)


@pytest.mark.parametrize(
    "predicates",
    [
        [],
        [["jobid", None]],
        [["opcode", ["&"]], ["reason", ["|"]]],
        [["opcode", ["!", ["&", ["?", "a"], ["=[]", "b", 1], ["=~", "c", "^x"]]]]],
        [["jobid", [one, "id", "watermark"]] for one in ("=", "==", "!=", "<", "<=", ">", ">=")],
    ],
)
def test_what_luxid_takes(predicates: Any) -> None:
    assert faults_of(predicates) == []


GOOD: Final = [
    ["jobid", [">", "id", "watermark"]],
    ["opcode", ["&", ["=", "OP_ID", "OP_TEST_DELAY"], ["!", ["?", "no_locks"]]]],
    ["reason", ["|", ["=", "source", "x"], ["<", "timestamp", 5]]],
]
ODD: Final = (None, True, 1.5, -1, "", "=~", "(", "!", [], {}, ["="], [[]], "jobid")


def damaged(rng: random.Random) -> Any:
    """The predicates with one thing in them replaced, removed or doubled."""
    made: Any = copy.deepcopy(GOOD)
    place = made
    while rng.random() < 0.8:
        lists = [one for one in place if isinstance(one, list)]
        if not lists:
            break
        place = rng.choice(lists)
    at = rng.randrange(len(place))
    change = rng.randrange(3)
    if change == 0:
        place[at] = rng.choice(ODD)
    elif change == 1:
        del place[at]
    else:
        place.insert(at, rng.choice(ODD))
    return made


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_damaged_predicates(seed: int) -> None:
    """Each damage is named at a place, or is a text that luxid takes too."""
    rng = random.Random(seed)
    for sentence in some(one for _ in range(100) for one in faults_of(damaged(rng))):
        place, text = sentence.split(": ", 1)
        assert place.startswith("predicates")
        assert text.endswith(("'", ")", "]")) or text[-1].isalnum() or text[-1] in '}"'
