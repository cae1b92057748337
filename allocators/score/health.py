"""What is wrong in a node group, apart from being uneven: the facts hcheck counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.explanation import GroupHealth

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.state import State


def group_health(state: State, nodes: Mask, *, capacity: bool = True) -> GroupHealth:
    """What is wrong with these nodes and what lives on them.

    ``capacity``: whether to look for instances that could not leave their node.
    """
    frame, now = state.frame, state.now
    names = [node.name for node in frame.cluster.nodes]

    def named(which: Mask) -> tuple[str, ...]:
        return tuple(names[i] for i in np.flatnonzero(which & nodes).tolist())

    unusable = nodes & ~frame.usable
    residents = [resident for mine in state.residents.values() for resident in mine]
    primaries = sorted(r.demand.instance.name for r in residents if unusable[r.primary])
    secondaries = sorted(
        r.demand.instance.name for r in residents if r.secondary >= 0 and unusable[r.secondary]
    )
    return GroupHealth(
        n1_nodes=named(frame.usable & (now[quantity.FAILS] > 0)),
        clashing=named(now[quantity.CLASHES] > 0),
        primaries=tuple(primaries),
        secondaries=tuple(secondaries),
        stuck=_stuck(state, nodes) if capacity else None,
    )


def _stuck(state: State, nodes: Mask) -> tuple[tuple[str, str], ...]:
    return tuple((one.instance, one.node) for one in CapacityTest(state, nodes).stuck())
