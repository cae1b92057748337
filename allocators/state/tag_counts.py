"""How many primaries of each node carry each exclusion tag (allocation 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.demand import Demand

_Counts = Mapping[str, Mapping[int, int]]


class TagCounts(NamedTuple):
    """Exclusion tag -> node -> how many of its primaries carry it."""

    all: _Counts
    """forthcoming instances included"""
    real: _Counts
    """without forthcoming instances"""

    def counted(self, demand: Demand, node: int, sign: int) -> TagCounts:
        """With an instance added to or taken off a node."""
        if not demand.exclusion:
            return self
        every = _counted(self.all, demand, node, sign)
        if self.all is self.real and not demand.instance.forthcoming:
            return TagCounts(every, every)
        forthcoming = demand.instance.forthcoming
        return TagCounts(
            every, self.real if forthcoming else _counted(self.real, demand, node, sign)
        )


def _counted(counts: _Counts, demand: Demand, node: int, sign: int) -> _Counts:
    new = dict(counts)
    for tag in demand.exclusion:
        mine = dict(new.get(tag, {}))
        mine[node] = mine.get(node, 0) + sign
        if mine[node] <= 0:
            del mine[node]
        new[tag] = mine
    return new
