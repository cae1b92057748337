"""Valid expressions as functions of the fields of an opcode, a reason or a job id."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.plugins.filters import language
from ganeti_steward.plugins.filters.regex import Effort, Regex, Undecided


class Mismatch(Exception):
    """Something that cannot be compared: the whole expression does not match (job-filters 2.1)."""


#: Finds a field's value; raises Mismatch where there is none.
Find = Callable[[str], Any]
#: Whether an expression is true of the fields; raises Mismatch and `Undecided`.
Test = Callable[[Find], bool]


#: What a test returns or raises.
Ending = bool | Mismatch | Undecided
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


class Part(NamedTuple):
    """A valid expression, or a part of one, ready to be evaluated."""

    expression: Any
    test: Test
    parts: tuple[Part, ...] = ()
    """of AND, OR and NOT"""

    def ending(self, find: Find) -> Ending:
        """What the test returns, or raises."""
        try:
            return self.test(find)
        except (Mismatch, Undecided) as err:
            return err


def compiled(expression: Any, order: Order = ordered, effort: Effort | None = None) -> Part:
    """A valid expression, ready to be evaluated.

    ``order`` gives the keys by which values of different types are compared; ``effort`` is that of
    its rule.
    """
    effort = effort or Effort()
    if expression is None:
        return Part(None, lambda find: True)
    if expression[0] not in language.COMPOUNDS:
        return Part(expression, _leaf(expression, order, effort))
    parts = tuple(compiled(part, order, effort) for part in expression[1:])
    return Part(expression, _compound(expression[0], [part.test for part in parts]), parts)


def _leaf(leaf: Any, order: Order, effort: Effort) -> Test:
    operator, name = leaf[:2]
    if operator == language.TRUE:
        return lambda find: _boolean(name, find(name))
    value = leaf[2]
    if operator in language.COMPARISONS:
        return _comparison(operator, name, value, order)
    if operator == language.MATCHES:
        regex = Regex(value, effort)
        return lambda find: regex.is_in(_text(name, find(name)))
    assert operator == language.CONTAINS
    return lambda find: _contains(name, find(name), value)


def _compound(operator: str, tests: list[Test]) -> Test:
    # From left to right, ending early: what comes later is not even looked at.
    if operator == language.AND:
        return lambda find: all(test(find) for test in tests)
    if operator == language.OR:
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


#: How an expression can end: a set of True, False and None, which stands for a mismatch; more than
#: one where values are unknown.
Outcomes = frozenset[bool | None]

EITHER: Final[Outcomes] = frozenset({True, False})
MISMATCH: Final[Outcomes] = frozenset({None})
ANY: Final = EITHER | MISMATCH

#: Type of a field, see `opcode_table.TYPES` -> a value that sorts like all values of the type.
_LIKE: Final[Mapping[str, Any]] = {"b": True, "n": 0, "s": "", "l": [], "o": {}}
#: Operator -> the type that its field must have, and how it can end then.
_TYPED: Final = {
    language.TRUE: ("b", EITHER),
    language.MATCHES: ("s", EITHER),
    language.CONTAINS: ("l", ANY),
}


def outcomes(part: Part, of_leaf: Callable[[Part], Outcomes]) -> Outcomes:
    """How an expression can end, given the outcomes of its leaves.

    Its parts are taken as independent of each other.  An outcome that is not in the result is
    therefore impossible; one that is may be.
    """
    if part.expression is None:
        return frozenset({True})
    operator = part.expression[0]
    if operator == language.NOT:
        inner = outcomes(part.parts[0], of_leaf)
        return frozenset(None if outcome is None else not outcome for outcome in inner)
    if operator not in language.COMPOUNDS:
        return of_leaf(part)
    # AND goes on while parts are true, OR while they are false.
    going_on, ends = operator == language.AND, frozenset[bool | None]()
    for inner in (outcomes(one, of_leaf) for one in part.parts):
        ends |= inner - {going_on}
        if going_on not in inner:
            return ends
    return ends | {going_on}


def by_type(leaf: Part, kind: str) -> Outcomes:
    """Of a leaf whose field has a value of this type; "a" is any."""
    operator, _, *value = leaf.expression
    if operator in _TYPED:
        wanted, ends = _TYPED[operator]
        if kind == "a":
            return ANY
        return ends if kind == wanted else MISMATCH
    if kind in ("a", "s" if isinstance(value[0], str) else "n"):
        return EITHER
    return of_value(leaf, _LIKE[kind])


def of_value(leaf: Part, value: Any) -> Outcomes:
    """Of a leaf whose field has this value."""
    return of_fields(leaf, lambda name: value)


def of_fields(leaf: Part, find: Find) -> Outcomes:
    """Of a leaf and these fields; either where that is undecided."""
    ending = leaf.ending(find)
    if isinstance(ending, Undecided):
        return EITHER
    return MISMATCH if isinstance(ending, Mismatch) else frozenset({ending})
