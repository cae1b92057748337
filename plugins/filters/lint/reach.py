"""What a predicate can match, and what it certainly matches, as luxid evaluates it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.filters import expressions
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import COMPARISONS, LUXID, fields_of, leaves
from ganeti_steward.plugins.filters.lint.opcode_table import (
    NAME,
    is_common,
    opcode_table,
    parameter,
)
from ganeti_steward.plugins.filters.predicates import WATERMARK, Predicate

#: Fields of a reason -> their types, see `opcode_table.TYPES`.
REASON_FIELDS: Final = {"source": "s", "reason": "s", "timestamp": "n"}
#: How source and text begin in the reason that luxid adds to each opcode of each job.
_OWN: Final = {"source": re.compile(r"gnt:opcode:"), "reason": re.compile(r"job=\d+;index=\d+$")}


class Reach(NamedTuple):
    """Which jobs a predicate matches, as far as that is certain."""

    possible: bool
    """whether some job can match"""
    certain: bool
    """whether every job matches"""
    opcodes: frozenset[str] = frozenset()
    """of a predicate of opcodes: names of those that can match"""
    sure: frozenset[str] = frozenset()
    """of a predicate of opcodes: names of those that always match"""


def reach(predicate: Sequence[Any], watermark: int) -> Reach:
    """Of one valid predicate in a rule with this watermark."""
    name, expression = predicate
    if name == "opcode":
        return _of_opcodes(json.dumps(expression))
    if name == "reason":
        return _of_reasons(json.dumps(expression))
    test = Predicate(predicate, watermark, LUXID)
    matches = [test.matches(Job(number)) for number in job_numbers([(predicate, watermark)])]
    return Reach(any(matches), all(matches))


def named_by(expression: Any) -> frozenset[str]:
    """The opcodes that what an expression requires of their names leaves."""
    return _named_by(json.dumps(expression))


@lru_cache(maxsize=1000)
def _named_by(text: str) -> frozenset[str]:
    """Of an expression as JSON."""
    part = expressions.compiled(load_json(text))
    return _once(
        frozenset(
            name
            for name in opcode_table()
            if True in expressions.outcomes(part, partial(_by_name, name))
        )
    )


def _by_name(name: str, leaf: expressions.Part) -> expressions.Outcomes:
    """Of a leaf for an opcode of which the name alone is known."""
    return expressions.of_value(leaf, name) if leaf.expression[1] == NAME else expressions.ANY


def reason_leaf(leaf: expressions.Part) -> expressions.Outcomes:
    """Of a leaf for any reason: luxid compares them and does nothing else (job-filters 2.2)."""
    operator, field = leaf.expression[:2]
    if operator not in COMPARISONS or field not in REASON_FIELDS:
        return expressions.MISMATCH
    return expressions.by_type(leaf, REASON_FIELDS[field])


def _own_leaf(leaf: expressions.Part) -> expressions.Outcomes:
    """Of the reason that luxid adds: what cannot be equal to it is known."""
    ends = reason_leaf(leaf)
    operator, field, *value = leaf.expression
    if ends == expressions.EITHER and operator in ("=", "==", "!=") and field in _OWN:
        return ends if _OWN[field].match(value[0]) else frozenset({operator == "!="})
    return ends


def job_numbers(predicates: Sequence[tuple[Sequence[Any], int]]) -> list[int]:
    """Numbers of jobs, so that these predicates of job ids are true of one if of any.

    Each with the watermark of its rule.
    """
    borders = {1}
    for (_, expression), watermark in predicates:
        for _, _, *value in leaves(expression):
            border = watermark if value == [WATERMARK] else next(iter(value), None)
            if isinstance(border, int):
                borders |= {border - 1, border, border + 1}
    return sorted(number for number in borders if number > 0)


#: Expressions of which is remembered what they reach: rules are looked at many times.
_REMEMBERED: Final = 2**15


@lru_cache(maxsize=_REMEMBERED)
def _of_reasons(text: str) -> Reach:
    """Of an expression as JSON."""
    part = expressions.compiled(load_json(text), expressions.strings_first)
    return Reach(
        True in expressions.outcomes(part, reason_leaf),
        expressions.outcomes(part, _own_leaf) == {True},
    )


@lru_cache(maxsize=_REMEMBERED)
def _of_opcodes(text: str) -> Reach:
    """Of an expression as JSON."""
    expression = load_json(text)
    part, fields = expressions.compiled(expression), fields_of(expression)
    ends = {name: _opcode_outcomes(part, fields, name) for name in opcode_table()}
    possible = _once(frozenset(name for name, one in ends.items() if True in one))
    sure = _once(frozenset(name for name, one in ends.items() if one == {True}))
    return Reach(bool(possible), len(sure) == len(ends), possible, sure)


@lru_cache(maxsize=_REMEMBERED)
def _once(names: frozenset[str]) -> frozenset[str]:
    """The same set for the same names, of which thousands of rules have few."""
    return names


def _opcode_outcomes(part: expressions.Part, fields: set[str], opcode: str) -> expressions.Outcomes:
    """Of an expression for an opcode, whatever its parameters are."""
    known = {field: parameter(opcode, field) for field in fields}
    if any(one is None or is_common(field) for field, one in known.items()):
        return expressions.MISMATCH

    def of_opcode(leaf: expressions.Part) -> expressions.Outcomes:
        field = leaf.expression[1]
        if field == NAME:
            return expressions.of_value(leaf, opcode)
        one = known[field]
        assert one
        return expressions.by_type(leaf, one.kind)

    ends = expressions.outcomes(part, of_opcode)
    return (
        ends | expressions.MISMATCH if any(one and one.optional for one in known.values()) else ends
    )
