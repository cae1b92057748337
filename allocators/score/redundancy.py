"""What a node group would not survive: instances with one copy, nodes without N+1.

With `RedundancyScore` a plan keeps as many nodes as possible whose failure is survived, and has the
lowest score among those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.score.plan_score import Penalties, PlanScore
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State

#: What a node costs whose failure is no longer survived: more than scores of plans differ by.
_LOST_NODE: Final = 1e5


class Redundancy(NamedTuple):
    """What one more failure would cost; names in order."""

    one_copy: tuple[str, ...] = ()
    """drbd instances with fewer than two copies on nodes that are online and report"""
    n1_failing: tuple[str, ...] = ()
    """nodes whose drbd instances their secondaries lack the memory to run if they failed"""


def redundancy(state: State, scope: Mask, live: Mask) -> Redundancy:
    """The redundancy of a state.

    ``scope``: nodes: those of interest; ``live``: nodes: whose copies count.
    """
    nodes = state.frame.cluster.nodes
    single = (
        one.demand.instance.name
        for residents in state.residents.values()
        for one in residents
        if one.demand.drbd
        and scope[one.primary]
        and not (live[one.primary] and live[one.secondary])
    )
    failing = np.flatnonzero(failing_primaries(state, live) & scope)
    return Redundancy(tuple(sorted(single)), tuple(nodes[node].name for node in failing.tolist()))


def failing_primaries(state: State, live: Mask) -> Mask:
    """nodes: whether N+1 fails on a secondary by what it keeps free for one (allocation 3.3).

    ``live``: nodes: those that count.
    """
    free = state.now[quantity.UNALLOCATED]
    secondary, primary = np.divmod(state.peers.key, state.frame.size)
    short = live[secondary] & live[primary] & (state.peers.reserved >= free[secondary])
    failing = np.zeros(state.frame.size, np.bool_)
    failing[primary[short]] = True
    return failing


class RedundancyScore(PlanScore):
    """The score, with a cost for each node whose failure would not be survived."""

    def __init__(self, live: Mask) -> None:
        """``live``: nodes: that count as primaries and secondaries."""
        self._live = live

    def score(self, state: State, scope: Mask) -> float:
        """The score of a state over the nodes of ``scope``."""
        return super().score(state, scope) + _LOST_NODE * self.lost(state, scope)

    def lost(self, state: State, scope: Mask | None = None) -> int:
        """How many nodes' failure is not survived, of those of ``scope`` or of all."""
        failing = failing_primaries(state, self._live)
        return int(failing.sum() if scope is None else failing[scope].sum())

    def penalties(self, state: State, demand: Demand) -> Penalties:
        """The cost of the nodes that are lost when the instance is placed."""
        return _LostNodes(state, demand, self._live).penalties()


class _LostNodes:
    """Which nodes' failure is no longer survived when an instance is placed."""

    def __init__(self, state: State, demand: Demand, live: Mask) -> None:
        size, free = state.frame.size, state.now[quantity.UNALLOCATED]
        self._reserve, self._live, self._free = demand.reserve, live, free
        self._secondary, self._primary = np.divmod(state.peers.key, size)
        self._reserved = state.peers.reserved
        self._failing = failing_primaries(state, live)
        # A new primary has less memory for all it is the secondary of.
        short = self._reserved >= free[self._secondary] - demand.use
        short &= live[self._secondary] & live[self._primary] & ~self._failing[self._primary]
        self._lost: Ints = np.bincount(self._secondary[short], minlength=size)

    def penalties(self) -> Penalties:
        primary: Floats = self._lost * np.float64(_LOST_NODE)
        return Penalties(primary, self._pairs)

    def _pairs(self, primaries: Ints, secondaries: Ints) -> Floats:
        """A new secondary needs memory for all that it is the secondary of the primary for."""
        size = len(self._live)
        row, column = np.full(size, -1), np.full(size, -1)
        row[primaries], column[secondaries] = np.arange(len(primaries)), np.arange(len(secondaries))
        at_row, at_column = row[self._primary], column[self._secondary]
        mine = (at_row >= 0) & (at_column >= 0)
        kept = np.zeros((len(primaries), len(secondaries)), np.int64)
        kept[at_row[mine], at_column[mine]] = self._reserved[mine]
        short = kept + self._reserve >= self._free[secondaries]
        short &= self._live[secondaries]
        short &= (self._live & ~self._failing)[primaries, None]
        lost: Floats = (self._lost[primaries, None] + short) * np.float64(_LOST_NODE)
        return lost
