"""Exclusion, location, migration and spread tags of a model (allocation 3.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.balancing.crowds import Crowds
from ganeti_steward.allocators.score.score import Scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.state import Resident, State


class Tags:
    """Exclusion, location, migration and spread tags; most clusters have none of them."""

    def __init__(
        self, state: State, nodes: Ints, usable: Mask, residents: Sequence[Resident]
    ) -> None:
        """``nodes``: those of the group, ``usable``: which of them are, in the same order."""
        frame = state.frame
        self._usable = usable
        demands = [resident.demand for resident in residents]
        self.accepts: Mask | None = None
        """sources x targets: whether migration tags allow it; None when they always do"""
        if any(frame.migration):
            self.accepts = np.array([frame.accepts(i)[nodes] for i in nodes.tolist()])
        self.locations: Ints | None = None
        self.shared: Ints | None = None
        """nodes x nodes: number of location tags both have"""
        if frame.locations.shape[1]:
            self.locations = frame.locations[nodes]
            self.shared = self.locations @ self.locations.T
        self.missed = {
            at: frame.missing_locations(demand)[nodes]
            for at, demand in enumerate(demands)
            if demand.desired_locations and not demand.instance.forthcoming
        }
        names = sorted({tag for demand in demands for tag in demand.exclusion})
        index = {name: at for at, name in enumerate(names)}
        self.carried = {
            at: [index[tag] for tag in demand.exclusion]
            for at, demand in enumerate(demands)
            if demand.exclusion
        }
        self.crowds = Crowds(state, nodes, demands) if frame.spread else None
        """the services that are spread; None where no tag spreads any"""
        place = {node: at for at, node in enumerate(nodes.tolist())}
        self.taken = np.zeros((len(names), len(nodes)), np.int64)
        """tags x nodes: number of primaries that carry it, forthcoming ones included"""
        self.real = np.zeros_like(self.taken)
        """the same without forthcoming ones"""
        self.exists = [not demand.instance.forthcoming for demand in demands]
        """instances: whether it is more than announced"""
        for counts, tag_counts in (
            (self.taken, state.tag_counts.all),
            (self.real, state.tag_counts.real),
        ):
            for name, row in index.items():
                for node, number in tag_counts.get(name, {}).items():
                    if node in place:
                        counts[row, place[node]] = number
        self.fixed_pairs = Scorer(state, np.isin(np.arange(frame.size), nodes)).paired_tags()
        self.fixed_pairs -= self._pairs()

    def _pairs(self) -> float:
        """Component 19, and what crowded places cost, as far as movable instances have a part."""
        crowded = self.crowds.cost() if self.crowds else 0.0
        if self.locations is None or not len(self.taken):
            return crowded
        places = (self.real * self._usable) @ self.locations
        return crowded + float(places.sum() - (places > 0).sum())

    def paired(self) -> float:
        """Component 19 of the score: exclusion tags that meet within a location.  And crowds."""
        return self.fixed_pairs + self._pairs()

    def clashing(self, instance: int, primary: int) -> Ints | None:
        """How many of the instance's exclusion tags each node's other primaries carry."""
        rows = self.carried.get(instance)
        if rows is None:
            return None
        there = self.taken[rows].copy()
        there[:, primary] -= 1
        clashes: Ints = (there > 0).sum(axis=0)
        return clashes

    def met(self, instance: int, primary: int) -> Floats | None:
        """What component 19 gains when the instance is put on each node, and what crowds cost."""
        crowds = self.crowds.added(instance, primary) if self.crowds else None
        rows = self.carried.get(instance)
        if rows is None or self.locations is None or not self.exists[instance]:
            return crowds
        there = self.real[rows].copy()
        there[:, primary] -= 1
        places = (there * self._usable) @ self.locations
        met = (self.locations @ (places > 0).T).sum(axis=1) * self._usable
        as_floats: Floats = met.astype(np.float64)
        return as_floats if crowds is None else as_floats + crowds

    def change(self, instance: int, primary: int, secondary: int, sign: int) -> tuple[int, int]:
        """Count an instance that comes or goes.

        Returns the change of the clashes and of the location figure of ``primary``.
        """
        clashes = location = 0
        if self.crowds:
            self.crowds.change(instance, primary, sign)
        for row in self.carried.get(instance, ()):
            before = self.taken[row, primary]
            self.taken[row, primary] += sign
            self.real[row, primary] += sign * self.exists[instance]
            clashes += max(self.taken[row, primary] - 1, 0) - max(before - 1, 0)
        if instance in self.missed:
            location += sign * self.missed[instance][primary]
        if self.shared is not None and secondary >= 0 and self.exists[instance]:
            location += sign * self.shared[primary, secondary]
        return clashes, location
