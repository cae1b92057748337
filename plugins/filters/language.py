"""The language of predicates: what luxid takes, and the two ways to read it.

A predicate is ``[name, expression]``; an expression is null or a list that begins with an
operator (job-filters 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.plugins.filters.regex import Regex

PREDICATES: Final = ("jobid", "opcode", "reason")

AND: Final = "&"
OR: Final = "|"
NOT: Final = "!"
TRUE: Final = "?"
MATCHES: Final = "=~"
CONTAINS: Final = "=[]"
#: The operators of expressions.
COMPOUNDS: Final = (AND, OR, NOT)
COMPARISONS: Final = ("=", "==", "!=", "<", "<=", ">", ">=")
_WITH_VALUE: Final = (*COMPARISONS, MATCHES, CONTAINS)
_OPERATORS: Final = (*COMPOUNDS, TRUE, *_WITH_VALUE)


def faults_of(predicates: Any) -> list[str]:
    """One sentence for each fault of a rule's predicates, with its place; empty: luxid takes them.

    Places are written as in Python: ``predicates[0][1]`` is the expression of the first one.
    Regular expressions are looked at in predicates without other faults.
    """
    return _sentences(
        predicates, lambda one, place: [*_predicate(one, place)] or _regexes(one[1], f"{place}[1]")
    )


def faults_of_form(predicates: Any) -> list[str]:
    """The same without faults of regular expressions: none, and the rule can be evaluated.

    A rule that luxid has may hold a regular expression that luxid takes and PCRE2 does not; then
    it is unknown whether that part is true.
    """
    return _sentences(predicates, _predicate)


def _sentences(
    predicates: Any, faults: Callable[[Any, str], Iterable[tuple[str, str]]]
) -> list[str]:
    if not isinstance(predicates, list | tuple):
        return [f"predicates: a list is expected, found {describe(predicates)}"]
    return [
        f"{place}: {text}"
        for number, predicate in enumerate(predicates)
        for place, text in faults(predicate, f"predicates[{number}]")
    ]


_Faults = Iterator[tuple[str, str]]
_Nodes = Iterator[tuple[str, Any]]


def _predicate(predicate: Any, place: str) -> _Faults:
    if not isinstance(predicate, list | tuple):
        yield place, f"a predicate is a list [name, expression], found {describe(predicate)}"
        return
    name = predicate[0] if predicate else None
    if name not in PREDICATES:
        found = quoted(name) if isinstance(name, str) else describe(name)
        names = "jobid, opcode or reason"
        yield f"{place}[0]", f"the name of a predicate is {names}, found {found}"
    if len(predicate) != 2:
        yield place, f"a predicate has two parts, its name and an expression, not {len(predicate)}"
        return
    yield from _expression(predicate[1], f"{place}[1]")


def _expression(expression: Any, place: str) -> _Faults:
    if expression is None:
        return
    if not isinstance(expression, list | tuple) or not expression:
        found = "an empty list" if expression in ([], ()) else describe(expression)
        yield place, f"an expression is null or a list [operator, ...], found {found}"
        return
    operator, parts = expression[0], expression[1:]
    if operator not in _OPERATORS:
        yield f"{place}[0]", _unknown(operator)
    elif operator in (AND, OR):
        for number, part in enumerate(parts, 1):
            yield from _expression(part, f"{place}[{number}]")
    elif operator == NOT:
        yield from _negation(parts, place)
    else:
        yield from _leaf(operator, parts, place)


def _unknown(operator: Any) -> str:
    if not isinstance(operator, str):
        return f"an operator is expected, found {describe(operator)}"
    hints = {"=*": MATCHES, "<>": "!=", "in": CONTAINS, "and": AND, "or": OR, "not": NOT}
    negated = {"!~": MATCHES, "!*": MATCHES, "!=~": MATCHES, "!=[]": CONTAINS}
    hint = ""
    if operator in hints:
        hint = f"; use {quoted(hints[operator])}"
    elif operator in negated:
        hint = f"; use [{quoted(NOT)}, [{quoted(negated[operator])}, ...]]"
    return f"{quoted(operator)} is not an operator of job filters{hint}"


def _negation(parts: Any, place: str) -> _Faults:
    if len(parts) != 1:
        yield place, f"operator '!' takes one expression, not {len(parts)}"
        return
    yield from _expression(parts[0], f"{place}[1]")


def _leaf(operator: str, parts: Any, place: str) -> _Faults:
    wanted = 2 if operator in _WITH_VALUE else 1
    if len(parts) != wanted:
        what = "a field and a value" if wanted == 2 else "one field"
        yield place, f"operator {quoted(operator)} takes {what}, not {len(parts)} parts"
        return
    if not isinstance(parts[0], str):
        yield f"{place}[1]", f"the name of a field is expected, found {describe(parts[0])}"
    if wanted == 2:
        yield from _value(operator, parts[1], f"{place}[2]")


def _value(operator: str, value: Any, place: str) -> _Faults:
    if operator == MATCHES:
        if not isinstance(value, str):
            yield place, f"a regular expression is expected, found {describe(value)}"
    elif isinstance(value, bool) or not isinstance(value, str | int):
        more = '; use ["?", FIELD] to test a boolean' if isinstance(value, bool) else ""
        yield place, f"a string or an integer is expected, found {describe(value)}{more}"


def _regexes(expression: Any, place: str) -> _Faults:
    """Faulty regular expressions in an expression without other faults."""
    for where, part in nodes(expression, place):
        if part[0] == MATCHES and (fault := Regex(part[2]).fault):
            yield f"{where}[2]", f"the regular expression {quoted(part[2])} is faulty: {fault}"


def nodes(expression: Any, place: str = "") -> _Nodes:
    """Every part of a valid expression with its place, each before its own parts."""
    if expression is not None:
        yield place, expression
        if expression[0] in COMPOUNDS:
            for number, part in enumerate(expression[1:], 1):
                yield from nodes(part, f"{place}[{number}]")


def leaves(expression: Any) -> Iterator[Any]:
    """The parts ``[operator, field, value]``, or without a value, of a valid expression."""
    return (part for _, part in nodes(expression) if part[0] not in COMPOUNDS)


def fields_of(expression: Any) -> set[str]:
    """The names of all fields in a valid expression."""
    return {leaf[1] for leaf in leaves(expression)}


def replaced(expression: Any, leaf: Callable[[Any], Any]) -> Any:
    """A valid expression with its leaves replaced, as a list."""
    if expression is None:
        return None
    if expression[0] in COMPOUNDS:
        return [expression[0], *(replaced(part, leaf) for part in expression[1:])]
    return leaf(expression)


class Dialect(NamedTuple):
    """How rules are evaluated (job-filters 2 and 7)."""

    name: str
    reason_operators: bool
    """whether ``=~``, ``?`` and ``=[]`` work in the predicate ``reason``; else they never match"""
    any_value: bool
    """whether a job id can be compared with any text; else that never matches"""
    common_parameters: bool
    """whether the predicate ``opcode`` also sees ``comment``, ``priority`` and the like"""
    bucket: re.Pattern[str]
    """of a reason text: the group ``limit`` is the most jobs at a time, ``name`` the bucket"""


#: What Ganeti 3.0 and 3.1 do.
LUXID: Final = Dialect(
    "luxid",
    reason_operators=False,
    any_value=False,
    common_parameters=False,
    bucket=re.compile(r"rate-limit:(?P<name>\s*0*(?P<limit>[1-9][0-9]*)\s*(?::.*)?)", re.DOTALL),
)
#: What the design document says.
DESIGN: Final = Dialect(
    "design",
    reason_operators=True,
    any_value=True,
    common_parameters=True,
    bucket=re.compile(r"rate-limit:(?P<name>(?P<limit>[1-9][0-9]*):.*)", re.DOTALL),
)

DIALECTS: Final = {one.name: one for one in (LUXID, DESIGN)}
