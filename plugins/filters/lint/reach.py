"""What a predicate can match, and what it certainly matches, as luxid evaluates it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.filters.dialect import LUXID
from ganeti_steward.plugins.filters.expressions import strings_first
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import (
    AND,
    COMPARISONS,
    NOT,
    OR,
    fields_of,
)
from ganeti_steward.plugins.filters.lint.opcode_table import (
    NAME,
    is_common,
    opcode_table,
    parameter,
)
from ganeti_steward.plugins.filters.outcomes import (
    ANY,
    EITHER,
    MISMATCH,
    Leaf,
    Outcomes,
    by_type,
    leaf_of,
    of_value,
    outcomes,
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
        possible = True in outcomes(expression, reason_leaf)
        return Reach(possible, outcomes(expression, _own_reason_leaf) == {True})
    matches = [
        Predicate(predicate, watermark, LUXID).matches(Job(number))
        for number in job_numbers([(predicate, watermark)])
    ]
    return Reach(any(matches), all(matches))


def opcode_outcomes(expression: Any, opcode: str) -> Outcomes:
    """Of an expression for an opcode, whatever its parameters are."""
    known = [(name, parameter(opcode, name)) for name in fields_of(expression)]
    if any(found is None or is_common(name) for name, found in known):
        return MISMATCH
    found = outcomes(expression, lambda *leaf: _opcode_leaf(opcode, *leaf))
    return found | MISMATCH if any(one and one.optional for _, one in known) else found


def named_by(expression: Any) -> frozenset[str]:
    """The opcodes that what an expression requires of their names leaves."""

    def leaf(name: str) -> Leaf:
        return lambda *leaf: of_value(leaf_of(*leaf), name) if leaf[1] == NAME else ANY

    return frozenset(name for name in opcode_table() if True in outcomes(expression, leaf(name)))


def reason_leaf(operator: str, field: str, value: Any) -> Outcomes:
    """Of a leaf for any reason: luxid compares them and does nothing else (job-filters 2.2)."""
    if operator not in COMPARISONS or field not in REASON_FIELDS:
        return MISMATCH
    return by_type(operator, REASON_FIELDS[field], value, strings_first)


def job_leaf(operator: str, field: str, value: Any) -> Outcomes:
    """Of a leaf for a job id (job-filters 2.3)."""
    valid = operator in COMPARISONS and field == "id"
    return EITHER if valid and (value == WATERMARK or isinstance(value, int)) else MISMATCH


def job_numbers(predicates: Sequence[tuple[Sequence[Any], int]]) -> list[int]:
    """Numbers of jobs, so that these predicates of job ids are true of one if of any.

    Each with the watermark of its rule.
    """
    borders = {1}
    for (_, expression), watermark in predicates:
        for _, _, value in leaves(expression):
            border = watermark if value == WATERMARK else value
            if isinstance(border, int):
                borders |= {border - 1, border, border + 1}
    return sorted(number for number in borders if number > 0)


def leaves(expression: Any) -> Iterator[tuple[str, str, Any]]:
    """All leaves of a valid expression: operator, field, value or None."""
    if expression is None:
        return
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        for part in parts:
            yield from leaves(part)
    else:
        yield operator, parts[0], parts[1] if len(parts) > 1 else None


def always(rule: FilterRule) -> bool:
    """Whether a valid rule matches every job."""
    return all(reach(one, rule.watermark).certain for one in rule.predicates)


@lru_cache(maxsize=1000)
def _of_opcodes(text: str) -> Reach:
    """Of an expression as JSON; rules are compared in pairs, each many times."""
    expression = load_json(text)
    found = {name: opcode_outcomes(expression, name) for name in opcode_table()}
    possible = frozenset(name for name, one in found.items() if True in one)
    sure = frozenset(name for name, one in found.items() if one == {True})
    return Reach(bool(possible), len(sure) == len(found), possible, sure)


def _opcode_leaf(opcode: str, operator: str, field: str, value: Any) -> Outcomes:
    if field == NAME:
        return of_value(leaf_of(operator, field, value), opcode)
    known = parameter(opcode, field)
    return MISMATCH if known is None else by_type(operator, known.kind, value)


def _own_reason_leaf(operator: str, field: str, value: Any) -> Outcomes:
    """Of the reason that luxid adds: what cannot be equal to it is known."""
    found = reason_leaf(operator, field, value)
    if found == EITHER and operator in ("=", "==", "!=") and field in _OWN:
        return found if _OWN[field].match(value) else frozenset({operator == "!="})
    return found
