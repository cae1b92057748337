"""The ways from one place to another in at most two moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.rules.move_kinds import kind_between

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import NodePair

Path = tuple["NodePair", ...]


def paths(now: NodePair, then: NodePair) -> list[Path]:
    """Places to pass, the end included; those that copy least come first, then the short ones.

    Only the nodes of both places are used.
    """
    (p, s), (a, b) = now, then
    if s < 0:
        return [(then,)]
    places = dict.fromkeys((one, other) for one in (p, s, a, b) for other in (p, s, a, b))
    between = [place for place in places if place[0] != place[1] and place not in (now, then)]
    found: list[Path] = [(then,), *((place, then) for place in between)]
    costs = {path: cost for path in found if (cost := _cost(now, path)) is not None}
    return sorted(costs, key=lambda path: costs[path])


def _cost(now: NodePair, path: Path) -> tuple[int, int] | None:
    """Copies and steps of a path; None where a move of it does not exist."""
    copies = steps = 0
    for place in path:
        kind = kind_between(now, place)
        # Nothing is copied to where it does not stay.
        if kind is None or not set(place) - set(now) <= set(path[-1]):
            return None
        copies, steps, now = copies + kind.copies, steps + len(kind.steps), place
    return copies, steps
