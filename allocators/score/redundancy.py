"""What a node group would not survive: instances with one copy, nodes without N+1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.state import State


class Redundancy(NamedTuple):
    """What one more failure would cost; names in order."""

    one_copy: tuple[str, ...] = ()
    """drbd instances with fewer than two copies on nodes that are online and report"""
    n1_failing: tuple[str, ...] = ()
    """nodes whose drbd instances their secondaries lack the memory to run if they failed"""


def redundancy(state: State, scope: Mask, live: Mask, free: Ints) -> Redundancy:
    """The redundancy of a state.

    ``scope``: nodes: those of interest; ``live``: nodes: whose copies count; ``free``: nodes:
    MiB of memory that is free in the end.
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
    failing = np.flatnonzero(failing_primaries(state, live, free) & scope)
    return Redundancy(tuple(sorted(single)), tuple(nodes[node].name for node in failing.tolist()))


def failing_primaries(state: State, live: Mask, free: Ints) -> Mask:
    """nodes: whether a secondary keeps less memory free for one than it needs.

    ``live``: nodes: those that count; ``free``: nodes: MiB.
    """
    secondary, primary = np.divmod(state.peers.key, state.frame.size)
    short = live[secondary] & live[primary] & (state.peers.reserved > free[secondary])
    failing = np.zeros(state.frame.size, np.bool_)
    failing[primary[short]] = True
    return failing
