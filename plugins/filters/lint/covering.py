"""Whether a rule matches every job that another rule matches, as far as that can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti_steward.plugins.filters.dialect import LUXID
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import AND, NOT, OR, fields_of
from ganeti_steward.plugins.filters.lint.reach import job_numbers, reach
from ganeti_steward.plugins.filters.predicates import Predicate


def covers(wide: FilterRule, narrow: FilterRule) -> bool:
    """Whether the valid rule ``wide`` certainly matches all jobs of ``narrow``."""
    return all(
        _job_ids_imply(narrow, wide)
        if one[0] == "jobid"
        else reach(one, wide.watermark).certain
        or any(_implies(other, one) for other in narrow.predicates if other[0] == one[0])
        for one in wide.predicates
    )


def _implies(narrow: Sequence[Any], wide: Sequence[Any]) -> bool:
    """Whether what satisfies a predicate of opcodes or reasons satisfies another of that name."""
    if narrow[0] == "opcode" and reach(narrow, 0).opcodes <= reach(wide, 0).sure:
        return True
    return _contains(_plain(narrow[1]), _plain(wide[1]))


def _contains(narrow: Any, wide: Any) -> bool:
    """Whether an expression has another among its parts so that it implies that."""
    if narrow == wide or wide is None:
        return True
    if wide[0] == AND and wide[1:]:
        return all(_contains(narrow, part) for part in wide[1:])
    if narrow is not None and narrow[0] == AND:
        return any(_contains(part, wide) for part in narrow[1:])
    # Of alternatives the first only: before another one there can be a mismatch, and a field of
    # another one can be missing.
    if wide[0] == OR and wide[1:] and fields_of(wide) <= fields_of(narrow):
        return _contains(narrow, wide[1])
    return False


def _plain(expression: Any) -> Any:
    """With one spelling of equality, and lists instead of tuples."""
    if expression is None:
        return None
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        return [operator, *(_plain(part) for part in parts)]
    return ["=" if operator == "==" else operator, *parts]


def _job_ids_imply(narrow: FilterRule, wide: FilterRule) -> bool:
    """Whether all job ids that the first rule matches satisfy the second one's predicates."""
    sides = [
        [(one, rule.watermark) for one in rule.predicates if one[0] == "jobid"]
        for rule in (narrow, wide)
    ]
    first, second = (
        [Predicate(one, watermark, LUXID) for one, watermark in side] for side in sides
    )
    return all(
        all(test.matches(Job(number)) for test in second)
        for number in job_numbers([*sides[0], *sides[1]])
        if all(test.matches(Job(number)) for test in first)
    )
