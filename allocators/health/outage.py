"""What a failure of nodes would do to each instance on them.

Nothing is moved here: an instance restarts where Ganeti could start it at once, which for drbd is
its secondary.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.cluster import EXTERNALLY_MIRRORED

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Instance

#: What becomes of an instance.
RESTARTS: Final = "restarts"
STAYS_DOWN: Final = "stays-down"
LOSES_COPY: Final = "loses-copy"
STOPPED: Final = "stopped"


class Outage(NamedTuple):
    """What becomes of one instance."""

    instance: str
    nodes: tuple[str, ...]
    """its nodes, primary first"""
    effect: str
    """restarts, stays-down, loses-copy; or stopped: it does not run now"""
    target: str = ""
    """where it can be started; empty: nowhere"""
    why: str = ""
    """why it cannot be started"""


def outage(state: State, failed: Set[str]) -> tuple[Outage, ...]:
    """What becomes of each instance with a node among the failed ones, by name.

    ``state``: of the cluster in which these nodes are offline.
    """
    return tuple(sorted(_Outages(state, failed).all()))


def _takes_memory(one: Instance) -> tuple[bool, bool, int, str]:
    return not one.up, one.template in EXTERNALLY_MIRRORED, -one.memory, one.name


class _Outages:
    def __init__(self, state: State, failed: Set[str]) -> None:
        self._state, self._failed = state, failed
        self._nodes = state.frame.cluster.nodes
        self._free: Ints = state.now[quantity.UNALLOCATED].copy()
        """nodes: MiB of memory that is left when what restarts there has started"""

    def all(self) -> Iterator[Outage]:
        """Those that lose their primary, in the order in which they take memory.

        Those that can start on one node only come first, and of each kind the largest.
        """
        instances = [
            one
            for one in self._state.frame.cluster.instances
            if not one.forthcoming and not self._failed.isdisjoint(one.nodes)
        ]
        for one in sorted(instances, key=_takes_memory):
            if one.primary not in self._failed:
                yield Outage(one.name, one.nodes, LOSES_COPY)
                continue
            target, why = self._target(one)
            if not one.up:
                yield Outage(one.name, one.nodes, STOPPED, target, why)
                continue
            effect = RESTARTS if target else STAYS_DOWN
            if target:
                self._free[self._index(target)] -= one.memory
            yield Outage(one.name, one.nodes, effect, target, why)

    def _index(self, name: str) -> int:
        return self._state.frame.cluster.node_index[name]

    def _target(self, one: Instance) -> tuple[str, str]:
        """Where it can be started; else why nowhere."""
        if one.template in EXTERNALLY_MIRRORED:
            return self._anywhere(one)
        if not one.secondaries:
            return "", f"its only disks are on {one.primary}"
        (secondary,) = one.secondaries
        node = self._nodes[self._index(secondary)]
        if secondary in self._failed:
            return "", "both nodes are among them"
        if not node.usable:
            return "", f"{secondary} is {node.condition}"
        if (free := int(self._free[self._index(secondary)])) < one.memory:
            return "", f"{secondary} would have {free} MiB of memory free, it needs {one.memory}"
        return secondary, ""

    def _anywhere(self, one: Instance) -> tuple[str, str]:
        """The node of its group with most memory free: its disks are reached from all of them."""
        frame = self._state.frame
        may = frame.usable & (frame.group == frame.group[self._index(one.primary)])
        places = np.flatnonzero(may)
        best = int(places[self._free[places].argmax()]) if len(places) else -1
        if best < 0:
            return "", "no usable node is left in its group"
        if (free := int(self._free[best])) < one.memory:
            return "", f"no node has {one.memory} MiB of memory free, at most {max(free, 0)}"
        return self._nodes[best].name, ""
