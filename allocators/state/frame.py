"""What no placement changes: nodes, their sizes, limits and tags, as arrays over the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.demand import Demand, TagRules
    from ganeti_steward.core.model.cluster import Cluster


class Frame(NamedTuple):
    """What no placement changes."""

    cluster: Cluster
    tag_rules: TagRules
    group: Ints
    """nodes: index of the node group"""
    usable: Mask
    """nodes: neither offline nor drained, and vm_capable"""
    exclusive: Mask
    """nodes: with exclusive storage"""
    memory: Floats
    """nodes: MiB in all; infinite where it is 0, so that shares of it are 0"""
    disk: Floats
    """nodes: MiB in all, or spindles with exclusive storage; infinite where unknown or 0"""
    no_disk: Mask
    """nodes: where ``disk`` is unknown or 0"""
    no_disk_share: Floats
    """nodes: the share of free disk that counts there (allocation 5)"""
    lacks_disk: Mask
    """nodes: that do not report their disk (allocation 2.4), or less in use than there is"""
    cpus: Floats
    """nodes: number; infinite where it is 0"""
    cpu_power: Floats
    """nodes: CPUs times their speed, which only the score uses"""
    spindle_limit: Floats
    """nodes: how many shares of the common spindles may be in use"""
    spindle_share: Floats
    """nodes: the same; infinite where it is 0"""
    vcpu_ratio: Floats
    """nodes: vcpus per CPU allowed; negative: without limit"""
    locations: Ints
    """nodes x location tags: 1 where the node carries the tag"""
    location_names: tuple[str, ...]
    """the location tags"""
    migration: tuple[frozenset[str], ...]
    """nodes: the migration tags it carries"""
    accepted: tuple[frozenset[str], ...]
    """nodes: the migration tags of nodes it takes instances from"""
    conditions: tuple[tuple[str, Mask], ...]
    """(why nodes are unusable, which)"""
    kinds: tuple[tuple[int, bool, Mask], ...]
    """(group, exclusive storage or not, nodes): where a policy means the same"""
    disk_known: bool
    """whether the message's disk figures are about drbd and plain storage"""

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.usable)

    def node_names(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """The names of nodes by index; -1 stands for no node and is left out."""
        named = self.cluster.nodes
        return tuple(named[node].name for node in nodes if node >= 0)

    @property
    def vcpu_limit(self) -> Floats:
        """nodes: vcpus it may have in use; infinite without a limit (as in `rules`)."""
        endless, cpus = self.vcpu_ratio < 0, np.where(np.isinf(self.cpus), 0.0, self.cpus)
        return np.where(endless, np.inf, self.vcpu_ratio * cpus)

    def lack(self, node: int) -> str:
        """What a node does not report, or not as it is: "does not report its free disk"."""
        known = self.cluster.nodes[node]
        if self.lacks_disk[node] and not known.lacks_disk_figures:
            return "reports less disk in use than its instances have"
        return known.lack

    @property
    def doubtful_disks(self) -> list[str]:
        """The names of the nodes that report less disk in use than their instances have."""
        nodes = (self.cluster.nodes[node] for node in np.flatnonzero(self.lacks_disk).tolist())
        return [node.name for node in nodes if not node.lacks_disk_figures]

    def keeps_disks(self, node: int) -> bool:
        """Whether an instance may stay as secondary whatever disk is free (allocation 4.4)."""
        return bool(self.lacks_disk[node]) or not bool(self.usable[node])

    def shared_locations(self, node: int) -> Ints:
        """nodes: number of location tags shared with this one."""
        shared: Ints = self.locations @ self.locations[node]
        return shared

    def missing_locations(self, demand: Demand) -> Ints:
        """nodes: how many of the instance's desired locations the node lacks."""
        missed = np.full(self.size, len(demand.desired_locations), np.int64)
        if demand.desired_locations:
            for column, name in enumerate(self.location_names):
                if name in demand.desired_locations:
                    missed -= self.locations[:, column]
        return missed

    def accepts(self, source: int) -> Mask:
        """nodes: where an instance may migrate to from ``source`` (migration tags)."""
        tags = self.migration[source]
        if not tags:
            return np.ones(self.size, np.bool_)
        return np.fromiter((tags <= taken for taken in self.accepted), np.bool_, self.size)
