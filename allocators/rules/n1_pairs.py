"""N+1 pairs: a primary and a node that keeps memory free for it already (allocation 4.2).

With another instance the node needs the sum of both amounts, so these pairs are checked one by
one; for all others the rules of a new secondary are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.rules.checks import Check
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints
    from ganeti_steward.allocators.state.demand import Demand
    from ganeti_steward.allocators.state.state import State


def n1_pair_checks(state: State, demand: Demand, primary: int) -> list[Check]:
    """Each node as secondary of one primary it keeps memory for."""
    peers = state.peers
    mine = peers.key % peers.size == primary
    secondaries = peers.key[mine] // peers.size
    return _checks(state, demand, secondaries, peers.reserved[mine], secondaries)


def n1_checks_by_primary(state: State, demand: Demand, secondary: int) -> list[Check]:
    """One secondary with each node as its primary."""
    peers = state.peers
    first, last = np.searchsorted(peers.key, (secondary * peers.size, (secondary + 1) * peers.size))
    primaries = peers.key[first:last] % peers.size
    at = np.full(len(primaries), secondary, np.int64)
    return _checks(state, demand, primaries, peers.reserved[first:last], at)


def _checks(
    state: State, demand: Demand, nodes: Ints, kept: Ints, secondaries: Ints
) -> list[Check]:
    """The rule for pairs with memory kept; ``nodes`` are those it speaks of."""
    if demand.instance.forthcoming or not kept.any():
        return []
    after = state.after_secondary(demand, kept, secondaries)
    failing = np.zeros(state.frame.size, np.bool_)
    fails = quantity.newly_fails(state.now[quantity.FAILS, secondaries], after[quantity.FAILS])
    failing[nodes] = fails
    if not fails.any():
        return []
    return [Check("N+1", "FailMem", False, failing, _text(nodes, after))]


def _text(nodes: Ints, after: Ints) -> Callable[[int], str]:
    def text(node: int) -> str:
        at = int(np.flatnonzero(nodes == node)[0])
        return (
            f"would have to keep {after[quantity.RESERVED, at]} MiB free for N+1, "
            f"{after[quantity.UNALLOCATED, at]} MiB unallocated"
        )

    return text
