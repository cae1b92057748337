"""The verdict: membership and expression give allowed, or the reason.

``docs/reference/aggregates.md`` has the language.

The rules for one thing at a time, as they were measured.  Only the root of a tree, the node
group, spans: what it is in counts for its nodes.  Being wanted is enough for one of both,
being banned too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ganeti_steward.plugins.aggregates.language.expression import Expression
from ganeti_steward.plugins.aggregates.membership import Names

UNION: Final = "union"

_NONE: Final[Names] = frozenset()


class Objection(NamedTuple):
    """Why something may not serve."""

    rule: str
    """a few words refusals are counted under"""
    text: str
    """the sentence about the thing, without its name"""


def alone(expression: Expression, own: Names) -> bool:
    """Whether something in these aggregates is in all that is required."""
    return all(need & own for need in expression.need)


def by_itself(expression: Expression, own: Names) -> Objection | None:
    """A thing that nothing spans: one role's expression, or a list of hosts."""
    return banned(expression, own, _NONE) or missing(expression, own)


def in_tree(expression: Expression, own: Names, root: Names, combine: str) -> Objection | None:
    """A thing in the tree of ``root`` (which may be the thing itself), plain expression."""
    against = banned(expression, own, root)
    if against:
        return against
    if combine == UNION:
        return missing(expression, own | root)
    if alone(expression, own) or alone(expression, root):
        return None
    return missing(expression, own | root) or Objection(
        f"not by itself in {_listed(expression)}",
        f"neither it nor its group by itself is in {_listed(expression)}",
    )


def pool_from(expression: Expression, own: Names, root: Names) -> Objection | None:
    """A storage pool used from the tree of ``root``, plain expression: never spanned."""
    return banned(expression, own, root) or missing(expression, own)


def reaches(pool: Names, tree: Iterable[Names]) -> bool:
    """Whether a pool reaches a tree: an aggregate in common with any member of it.

    One that is declared in no aggregate reaches every tree, as one that is not declared does.
    """
    return not pool or any(pool & names for names in tree)


def banned(expression: Expression, own: Names, root: Names) -> Objection | None:
    """Whether a thing or its root is in a forbidden aggregate."""
    found = expression.ban & (own | root)
    if not found:
        return None
    name = min(found)
    return Objection(f"in forbidden aggregate {name}", f"{where(name, own)}, which is forbidden")


def where(name: str, own: Names) -> str:
    """That a thing in ``own`` is in an aggregate, or else its root."""
    return f"{'it' if name in own else 'its group'} is in aggregate {name}"


def missing(expression: Expression, mine: Names) -> Objection | None:
    """The first of the required aggregates that these are not among."""
    for need in expression.need:
        if not need & mine:
            names = ", ".join(sorted(need))
            if len(need) == 1:
                return Objection(f"not in aggregate {names}", f"it is not in aggregate {names}")
            return Objection(f"in none of {names}", f"it is in none of the aggregates {names}")
    return None


def _listed(expression: Expression) -> str:
    return " and ".join(" or ".join(sorted(need)) for need in expression.need)
