"""Checks of one rule by itself: what never or always matches, and useless parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule
from ganeti_steward.plugins.filters.lint.field_traps import missing_fields, unset_fields
from ganeti_steward.plugins.filters.lint.findings import ERROR, NOTE, WARNING, Finding
from ganeti_steward.plugins.filters.lint.leaf_traps import Trap, traps
from ganeti_steward.plugins.filters.lint.opcode_table import opcode_table
from ganeti_steward.plugins.filters.lint.reach import Reach, named_by, reach
from ganeti_steward.plugins.filters.lint.witness import number_for


def check_predicates(rule: FilterRule) -> Iterator[Finding]:
    """All findings about the predicates of a valid rule."""
    reaches = [reach(one, rule.watermark) for one in rule.predicates]
    for number, (predicate, found) in enumerate(zip(rule.predicates, reaches, strict=True)):
        yield from _predicate(rule, predicate, found, f"predicates[{number}][1]")
    if all(found.possible for found in reaches) and number_for([rule]) is None:
        text = "the predicates of job ids exclude each other"
        yield Finding(ERROR, rule.uuid, "never", "predicates", text)
    if rule.action != CONTINUE and all(found.certain for found in reaches):
        text = f"every job matches, so that no later rule applies; the action is {rule.action}"
        yield Finding(NOTE, rule.uuid, "always", "predicates", text)


def _predicate(rule: FilterRule, predicate: Any, found: Reach, place: str) -> Iterator[Finding]:
    name, expression = predicate
    count = 0
    for where, text in _traps(name, expression, place):
        count += 1
        if found.possible:
            yield Finding(WARNING, rule.uuid, "part", where, text)
        else:
            yield Finding(ERROR, rule.uuid, "never", where, text)
    if not found.possible and not count:
        yield Finding(ERROR, rule.uuid, "never", place, _never(name))
    if found.certain and expression is not None:
        yield Finding(WARNING, rule.uuid, "always", place, _always(name))
    if name == "opcode":
        for where, text in unset_fields(expression, place, found.opcodes):
            yield Finding(WARNING, rule.uuid, "unset", where, text)


def _traps(name: str, expression: Any, place: str) -> Iterator[Trap]:
    if name != "opcode":
        yield from traps(name, expression, place, frozenset())
        return
    scope = named_by(expression)
    yield from traps(name, expression, place, scope or frozenset(opcode_table()))
    yield from missing_fields(expression, place, scope)


def _never(name: str) -> str:
    what = {"opcode": "opcode of Ganeti 3", "reason": "reason", "jobid": "job id"}[name]
    return f"no {what} can satisfy the expression"


def _always(name: str) -> str:
    if name != "reason":
        return "every job satisfies the expression"
    return (
        "every job satisfies the expression: luxid adds a reason to each opcode, and one reason "
        "that satisfies it is enough"
    )
