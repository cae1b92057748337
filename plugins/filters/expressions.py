"""Valid expressions as functions of the fields of an opcode, a reason or a job id."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Mapping
from typing import Any, Final

from ganeti_steward.plugins.filters.language import (
    AND,
    COMPARISONS,
    CONTAINS,
    MATCHES,
    NOT,
    OR,
    TRUE,
)
from ganeti_steward.plugins.filters.regex import Effort, Regex, Undecided


class Mismatch(Exception):
    """Something that cannot be compared: the whole expression does not match (job-filters 2.1)."""


#: Finds a field's value; raises Mismatch where there is none.
Find = Callable[[str], Any]
#: Whether an expression is true of the fields; raises Mismatch and `Undecided`.
Test = Callable[[Find], bool]


#: Called with each part of an expression that was evaluated, its outcome, and what finds fields.
Note = Callable[[Any, "bool | Mismatch | Undecided", Find], None]
#: The key of a value that sorts it.
Order = Callable[[Any], tuple[Any, ...]]


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operators.eq,
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def ordered(value: Any) -> tuple[Any, ...]:
    """Sorts JSON values as luxid does: null, booleans, numbers, strings, lists, objects."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, int | float):
        return (2, value)
    if isinstance(value, str):
        return (3, value)
    if isinstance(value, list | tuple):
        return (4, [ordered(one) for one in value])
    return (5, [(name, ordered(one)) for name, one in value.items()])


def strings_first(value: Any) -> tuple[Any, ...]:
    """Sorts the strings and numbers of reasons as luxid does (job-filters 2.2)."""
    return (isinstance(value, int), value)


def evaluation(
    expression: Any,
    note: Note | None = None,
    order: Order = ordered,
    effort: Effort | None = None,
) -> Test:
    """The test that a valid expression is; ``note`` is called with each part of it.

    ``order`` gives the keys by which values of different types are compared; ``effort`` is that of
    its rule.
    """
    effort = effort or Effort()
    found = _evaluation(expression, note, order, effort)
    if note is None:
        return found

    def noted(find: Find) -> bool:
        try:
            outcome = found(find)
        except (Mismatch, Undecided) as err:
            note(expression, err, find)
            raise
        note(expression, outcome, find)
        return outcome

    return noted


def _evaluation(expression: Any, note: Note | None, order: Order, effort: Effort) -> Test:
    if expression is None:
        return lambda find: True
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        return _compound(operator, [evaluation(part, note, order, effort) for part in parts])
    name = parts[0]
    if operator == TRUE:
        return lambda find: _boolean(name, find(name))
    value = parts[1]
    if operator in COMPARISONS:
        return _comparison(operator, name, value, order)
    if operator == MATCHES:
        regex = Regex(value, effort)
        return lambda find: regex.is_in(_text(name, find(name)))
    assert operator == CONTAINS
    return lambda find: _contains(name, find(name), value)


def _compound(operator: str, tests: list[Test]) -> Test:
    # From left to right, ending early: what comes later is not even looked at.
    if operator == AND:
        return lambda find: all(test(find) for test in tests)
    if operator == OR:
        return lambda find: any(test(find) for test in tests)
    (negated,) = tests
    return lambda find: not negated(find)


def _comparison(operator: str, name: str, value: Any, order: Order) -> Test:
    compare, other, kind = _COMPARE[operator], order(value), type(value)

    def test(find: Find) -> bool:
        found = find(name)
        if type(found) is kind:
            return compare(found, value)
        return compare(order(found), other)

    return test


def _boolean(name: str, found: Any) -> bool:
    if not isinstance(found, bool):
        raise Mismatch(f"{name} is not a boolean")
    return found


def _text(name: str, found: Any) -> str:
    if not isinstance(found, str):
        raise Mismatch(f"{name} is not a string")
    return found


def _contains(name: str, found: Any, value: Any) -> bool:
    if not isinstance(found, list | tuple):
        raise Mismatch(f"{name} is not a list")
    kind = str if isinstance(value, str) else int
    if any(isinstance(one, bool) or not isinstance(one, kind) for one in found):
        what = "strings" if kind is str else "integers"
        raise Mismatch(f"{name} has elements that are not {what}")
    return value in found
