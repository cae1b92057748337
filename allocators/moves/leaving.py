"""What leaves one node, and what can be done now: the request and the answer of `leave_node`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.score.redundancy import Redundancy

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance
    from ganeti_steward.core.model.opcodes import Job

#: Names of instances, each with the reason why it is not moved.
Reasons = tuple[tuple[str, str], ...]


class Leaving(NamedTuple):
    """Which instances leave which node, and which other nodes are not used."""

    node: str
    """name; it is drained or offline"""
    instances: Sequence[str]
    """names; the node is primary or secondary of each"""
    avoided: Mapping[str, str]
    """node nothing may be moved to -> why"""
    reserved: frozenset[str]
    """nodes that other tasks use: nothing may be moved to or from them now, but later"""
    most: int
    """the most moves at the same time"""
    last: Mapping[str, frozenset[str]] = MappingProxyType({})
    """instance -> names of nodes to which its move failed: used only where no other fits"""
    passing: frozenset[str] = frozenset()
    """nodes nothing may be moved to for a short time, for another reason than a task; they may be
    among ``avoided``, too"""
    excluded: frozenset[str] = frozenset()
    """nodes among ``avoided`` that nothing may ever be moved to"""
    may_keep_copies: bool = True
    """whether a drbd instance may leave as primary only where its copy has no other place"""

    @property
    def unused(self) -> frozenset[str]:
        """Names of all nodes nothing may be moved to now."""
        return self.reserved.union(self.avoided, self.passing)

    @property
    def later(self) -> Leaving:
        """The same when what others do now has ended."""
        avoided = {node: why for node, why in self.avoided.items() if node not in self.passing}
        return self._replace(avoided=avoided, reserved=frozenset(), passing=frozenset())


class NodeMove(NamedTuple):
    """One instance that leaves the node."""

    instance: Instance
    nodes: frozenset[str]
    """names of all nodes the job uses"""
    job: Job
    keeps_copy: bool = False
    """whether the node stays its secondary, because no other node can take a copy"""


class NodeMoves(NamedTuple):
    """What can be done now; reasons are only given when that is nothing."""

    moves: tuple[NodeMove, ...] = ()
    """they share the node that is left and no other one; those that keep copies on it only when
    no other move can be made"""
    blocked: Reasons = ()
    """instances that fit only on nodes that are reserved now or not used for a short time"""
    impossible: Reasons = ()
    """instances that fit nowhere"""
    stays: Reasons = ()
    """drbd instances that run elsewhere and whose copy on the node fits nowhere else"""
    copies_impossible: frozenset[str] = frozenset()
    """names of all drbd instances on the node for whose copy the group has no third node that is
    vm_capable and neither offline nor excluded; also given when there are moves"""
    before: Redundancy = Redundancy()
    """of the node's group now; the copies on the node count while it is not offline"""
    after: Redundancy = Redundancy()
    """of the node's group after all moves that are planned, the node itself not counted"""
