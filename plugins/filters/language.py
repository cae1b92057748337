"""The language of predicates: what luxid takes, and where a user's text differs from it.

A predicate is ``[name, expression]``; an expression is null or a list that begins with an
operator (job-filters 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.plugins.filters.regex import Regex

PREDICATES: Final = ("jobid", "opcode", "reason")

AND: Final = "&"
OR: Final = "|"
NOT: Final = "!"
TRUE: Final = "?"
MATCHES: Final = "=~"
CONTAINS: Final = "=[]"
COMPARISONS: Final = ("=", "==", "!=", "<", "<=", ">", ">=")
_WITH_VALUE: Final = (*COMPARISONS, MATCHES, CONTAINS)
_OPERATORS: Final = (AND, OR, NOT, TRUE, *_WITH_VALUE)


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
    return f"{quoted(operator)} is no operator of job filters{hint}"


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
    if expression is None:
        return
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        for number, part in enumerate(parts, 1):
            yield from _regexes(part, f"{place}[{number}]")
    elif operator == MATCHES and (fault := Regex(parts[1]).fault):
        yield f"{place}[2]", f"the regular expression {quoted(parts[1])} is faulty: {fault}"


def fields_of(expression: Any) -> set[str]:
    """The names of all fields in a valid expression."""
    if expression is None:
        return set()
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        return {name for part in parts for name in fields_of(part)}
    return {parts[0]}
