"""How an expression can end: true, false, or a mismatch; more than one where values are unknown.

The parts of an expression are taken as independent of each other.  An outcome that is not found
here is therefore impossible; one that is found may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ganeti_steward.plugins.filters.expressions import Find, Mismatch, Order, evaluation, ordered
from ganeti_steward.plugins.filters.language import AND, CONTAINS, MATCHES, NOT, OR, TRUE
from ganeti_steward.plugins.filters.regex import Effort, Undecided

#: A set of True, False and None, which stands for a mismatch.
Outcomes = frozenset[bool | None]
#: The outcomes of a leaf (operator, field, value or None).
Leaf = Callable[[str, str, Any], Outcomes]

EITHER: Final[Outcomes] = frozenset({True, False})
MISMATCH: Final[Outcomes] = frozenset({None})
ANY: Final = EITHER | MISMATCH

#: Type of a field, see `opcode_table.TYPES` -> a value that sorts like all values of the type.
_LIKE: Final[Mapping[str, Any]] = {"b": True, "n": 0, "s": "", "l": [], "o": {}}


def outcomes(expression: Any, leaf: Leaf) -> Outcomes:
    """The outcomes of a valid expression, given those of its leaves."""
    if expression is None:
        return frozenset({True})
    operator, *parts = expression
    if operator == NOT:
        found = outcomes(parts[0], leaf)
        return frozenset(None if one is None else not one for one in found)
    if operator in (AND, OR):
        return _sequence(operator == AND, [outcomes(part, leaf) for part in parts])
    return leaf(operator, parts[0], parts[1] if len(parts) > 1 else None)


def _sequence(going_on: bool, parts: list[Outcomes]) -> Outcomes:
    """Of `AND` (goes on while parts are true) or `OR` (while they are false)."""
    found: Outcomes = frozenset()
    for part in parts:
        found |= part - {going_on}
        if going_on not in part:
            return found
    return found | {going_on}


def by_type(operator: str, kind: str, value: Any, order: Order = ordered) -> Outcomes:
    """Of a leaf whose field has a value of this type."""
    if operator == TRUE:
        return _if_type(kind, "b", EITHER)
    if operator == MATCHES:
        return _if_type(kind, "s", EITHER)
    if operator == CONTAINS:
        return _if_type(kind, "l", ANY)
    if kind in ("a", "s" if isinstance(value, str) else "n"):
        return EITHER
    return of_value([operator, "", value], _LIKE[kind], order)


def _if_type(kind: str, wanted: str, found: Outcomes) -> Outcomes:
    if kind == "a":
        return ANY
    return found if kind == wanted else MISMATCH


def of_value(leaf: list[Any], value: Any, order: Order = ordered) -> Outcomes:
    """Of a leaf whose field has this value."""
    return of_fields(leaf, lambda name: value, order)


def of_fields(
    leaf: list[Any], find: Find, order: Order = ordered, effort: Effort | None = None
) -> Outcomes:
    """Of a leaf and these fields; ``effort``: of its rule."""
    try:
        return frozenset({evaluation(leaf, None, order, effort)(find)})
    except Mismatch:
        return MISMATCH
    except Undecided:
        return EITHER


def leaf_of(operator: str, field: str, value: Any) -> list[Any]:
    """A leaf of its parts; the value is None where it has none."""
    return [operator, field] if value is None else [operator, field, value]
