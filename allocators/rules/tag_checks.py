"""The rules by tags that are never forced away (allocation 3.5, 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.rules.checks import Check

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.spread import Places
    from ganeti_steward.allocators.state.state import State


def spread_checks(state: State, demand: Demand, source: int = -1) -> list[Check]:
    """The hard rules ``steward:spread`` for a new primary; ``state`` is without the instance.

    ``source``: its primary until now.  They are never forced away.
    """
    if not demand.services:
        return []
    from ganeti_steward.allocators.state.crowding import crowds, full  # few clusters have them

    return [
        _spread_check(tag, places, numbers, full(places, numbers, source))
        for tag, places, numbers in crowds(state, demand)
        if places.rule.hard
    ]


def _spread_check(tag: str, places: Places, numbers: Ints, failing: Mask) -> Check:
    rule = places.rule

    def text(node: int) -> str:
        at = int((places.nodes[node] * numbers).argmax())
        found = f"{places.names[at]} has {numbers[at]} with {tag} already"
        return f"{found}, at most {rule.most} are allowed ({rule.tag})"

    return Check("spread", "FailTags", True, failing, text)


def migration_check(state: State, source: int) -> Check:
    """The migration tags of the node to leave (allocation 3.5); never forced away."""
    frame = state.frame

    def text(node: int) -> str:
        missing = sorted(frame.migration[source] - frame.accepted[node])
        return f"does not accept instances from a node tagged {', '.join(missing)}"

    return Check("migration tags", "FailMig", True, ~frame.accepts(source), text)
