"""Where instances without disks on their node go, one after the other, between a few nodes.

The choice is that of `Scorer`.  Such an instance changes few components of the score, and on a few
nodes those cost less in Python's numbers than the hundred operations on arrays of a `Scorer`.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.score.score import (
    INSTANCES,
    N1_WEIGHT,
    OFFLINE_PRIMARY_WEIGHT,
    OFFLINE_WEIGHT,
    merged_rows,
    quantities,
    spread_weights,
)
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.state import figures_added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State

#: At most so many nodes.  With 80 arrays are as fast, and stop once the rest certainly fits.
_FEW: Final = 40


def is_for(state: State, node: int, demands: Sequence[Demand]) -> bool:
    """Whether `FewNodes` can be used: few nodes, and nothing but memory and CPUs of instances."""
    frame = state.frame
    few = np.count_nonzero(frame.group == frame.group[node]) <= _FEW
    tagged = any(d.exclusion or d.desired_locations or d.services for d in demands)
    return bool(few) and not tagged and not frame.dedicated


class FewNodes:
    """The nodes of a group while instances without a disk leave one of them; they are moved here.

    Instances are given by their position in ``demands``.
    """

    def __init__(self, state: State, source: int, targets: Mask, demands: Sequence[Demand]) -> None:
        """``source``: the node that is left; ``targets``: nodes: which may take instances of it."""
        frame = state.frame
        nodes = np.flatnonzero(frame.group == frame.group[source])
        now = state.now[:, nodes]
        self._nodes: list[int] = nodes.tolist()
        self._source = self._nodes.index(source)
        self._targets: list[int] = np.flatnonzero(targets[nodes]).tolist()
        self._online: list[bool] = frame.usable[nodes].tolist()
        self._uses = [demand.use for demand in demands]
        self._memory: list[int] = now[quantity.UNALLOCATED].tolist()
        self._reserved: list[int] = now[quantity.RESERVED].tolist()
        self._fails: list[bool] = (now[quantity.FAILS] > 0).tolist()
        self._both: list[int] = (now[quantity.PRIMARIES] + now[quantity.SECONDARIES]).tolist()
        self._spreads = _spreads(state, nodes, demands)

    def move(self, instance: int) -> int | None:
        """Move an instance to the best node, and return it; None: there is none, it stays."""
        use = self._uses[instance]
        fitting = [node for node in self._targets if self._memory[node] > use]
        if not fitting:
            return None
        for spread in self._spreads:
            spread.change(self._source, instance, -1)
        best = self._best(fitting, instance)
        self._take(best, instance)
        return self._nodes[best]

    def _best(self, nodes: Sequence[int], instance: int) -> int:
        """The node with which the score is lowest, the last of equal ones."""
        if len(nodes) == 1:
            return nodes[0]
        costs = [self._own_cost(node, self._uses[instance]) for node in nodes]
        for spread in self._spreads:
            parts = spread.parts(nodes, instance)
            costs = [cost + part for cost, part in zip(costs, parts, strict=True)]
        return nodes[len(nodes) - 1 - costs[::-1].index(min(costs))]

    def _own_cost(self, node: int, use: int) -> float:
        """What a node adds to the score by itself with one primary more."""
        if not self._online[node]:
            return OFFLINE_WEIGHT + OFFLINE_PRIMARY_WEIGHT
        both, fails = self._both[node], self._memory[node] - use <= self._reserved[node]
        return N1_WEIGHT * ((both + 1) * fails - both * self._fails[node])

    def _take(self, node: int, instance: int) -> None:
        self._memory[node] -= self._uses[instance]
        self._both[node] += 1
        self._fails[node] = self._memory[node] <= self._reserved[node]
        for spread in self._spreads:
            spread.change(node, instance, 1)


class _Spread:
    """A component that is measured as standard deviation over the online nodes (allocation 5)."""

    def __init__(
        self,
        weight: float,
        figures: Sequence[int],
        wholes: Sequence[float],
        added: Sequence[int],
        online: Sequence[bool],
    ) -> None:
        """``figures`` and ``wholes``: nodes: both make its value, 0 where the whole is infinite;
        ``added``: instances: the figure of each; ``online``: nodes: which count.
        """
        self._weight, self._figures, self._wholes, self._added = weight, [*figures], wholes, added
        self._worth = [1 / whole for whole in wholes]
        self._values = [figure / whole for figure, whole in zip(figures, wholes, strict=True)]
        counted = [value for value, counts in zip(self._values, online, strict=True) if counts]
        self._n = len(counted)
        self._mean = sum(counted) / self._n
        self._variance = sum((value - self._mean) ** 2 for value in counted) / self._n

    def parts(self, nodes: Sequence[int], instance: int) -> list[float]:
        """The component, weighted, with an instance more on each of these nodes."""
        added, weight = self._added[instance], self._weight
        variances = [self._after(node, added * self._worth[node]) for node in nodes]
        return [weight * sqrt(variance) if variance > 0 else 0.0 for variance in variances]

    def change(self, node: int, instance: int, sign: int) -> None:
        """An instance more on a node, or less where ``sign`` is -1."""
        self._figures[node] += sign * self._added[instance]
        # Not added up: nodes with equal figures have equal values, however they came to them.
        value = self._figures[node] / self._wholes[node]
        change = value - self._values[node]
        self._variance = self._after(node, change)
        self._mean += change / self._n
        self._values[node] = value

    def _after(self, node: int, change: float) -> float:
        """The variance with the value of a node changed."""
        shift = change / self._n
        return self._variance + shift * (2 * (self._values[node] - self._mean) + change - shift)


def _spreads(state: State, nodes: Ints, demands: Sequence[Demand]) -> list[_Spread]:
    """The components that the instances change, equal ones merged."""
    now, usable = state.now[:, nodes], state.frame.usable[nodes]
    online: list[bool] = usable.tolist()
    rows = quantities(state.frame)
    wholes = np.where(usable, state.frame.wholes[:, nodes], np.inf)[rows]
    figures = now[rows]
    if not state.frame.loads:
        figures[INSTANCES] += now[quantity.SECONDARIES]
    # Copies of one instance have the same demand.
    pools = state.frame.pools
    known = {id(demand): figures_added(demand, pools, primary=True) for demand in demands}
    added = [known[id(demand)] for demand in demands]
    tables = rows.tolist(), figures.tolist(), wholes.tolist()
    components = [
        (figure, whole, [each[row] for each in added])
        for row, figure, whole in zip(*tables, strict=True)
    ]
    merged = merged_rows(
        spread_weights(state.frame).tolist(),
        lambda one, other: components[one] == components[other],
    )
    return [
        _Spread(weight, *components[row], online)
        for row, weight in merged
        if any(components[row][2]) and any(online)
    ]
