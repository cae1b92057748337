"""What no placement changes: instances and nodes in the figures the engine counts with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.spread import Places, SpreadRule
    from ganeti_steward.core.model.cluster import Cluster, Instance


#: The load 1 in the engine's whole numbers, which stay exact however often they are
#: added and taken off again.
LOAD_UNIT: Final = 10**9
#: The loads of memory, disk and network of an instance of which they are not given.
COUNTED: Final = (1.0, 1.0, 1.0)
_COUNTED_LOADS: Final = (LOAD_UNIT, LOAD_UNIT, LOAD_UNIT)


class Demand(NamedTuple):
    """What an instance takes of its nodes (allocation 3.1, 3.5)."""

    instance: Instance
    memory: int
    """MiB of memory when running"""
    use: int
    """MiB of memory it takes now; 0 when stopped or forthcoming"""
    reserve: int
    """MiB its secondary keeps free for it; 0 when administratively offline"""
    vcpus: int
    """number of CPUs that count; 0 when administratively offline"""
    load: int
    """CPU load in nano-loads; 1 load unless it is measured (allocation 3.4)"""
    loads: tuple[int, int, int]
    """memory, disk and network load in nano-loads; 1 load each unless they are given"""
    disk: int
    """MiB of disk on each node, in the cluster's volume group; 0 unless storage is local"""
    spindles: int
    """number of dedicated spindles on each node; -1 when unknown"""
    spindle_use: int
    """share of the common spindles; 0 unless storage is local"""
    exclusion: tuple[str, ...]
    """its exclusion tags"""
    desired_locations: frozenset[str]
    """location tags its primary should carry"""
    elsewhere: Mapping[str, int]
    """volume group -> MiB there on each node; without the cluster's"""
    services: tuple[tuple[int, str], ...] = ()
    """(rule of `Frame.spread`, tag): the services it is one of"""

    @property
    def all_disk(self) -> int:
        """MiB of disk on each node, in all volume groups."""
        return self.disk + sum(self.elsewhere.values())

    @property
    def drbd(self) -> bool:
        """Whether it is mirrored to a secondary."""
        return self.instance.template == "drbd"


class TagRules(NamedTuple):
    """The cluster tags that give instance and node tags a meaning (allocation 3.5)."""

    exclusion: tuple[str, ...]
    """prefixes of exclusion tags of instances"""
    location: tuple[str, ...]
    """prefixes of location tags of nodes"""
    desired: tuple[str, ...]
    """prefixes of desired location tags of instances"""
    migration: tuple[str, ...]
    """prefixes of migration tags of nodes"""
    accepts: tuple[tuple[str, str], ...]
    """(a, b): a node carrying migration tag b also takes instances from nodes with a"""
    spread: tuple[SpreadRule, ...]
    """which instances are to run in different places"""

    @classmethod
    def of(cls, tags: tuple[str, ...]) -> TagRules:
        """Read the tags of a cluster; malformed ones mean nothing."""
        pairs = [tuple(rest.split("::")) for rest in _suffixes(tags, "htools:allowmigration:")]
        return cls(
            exclusion=tuple(p for p in _suffixes(tags, "htools:iextags:") if p),
            location=tuple(p + ":" for p in _suffixes(tags, "htools:nlocation:")),
            desired=tuple(p for p in _suffixes(tags, "htools:desiredlocation:") if p),
            migration=tuple(p + ":" for p in _suffixes(tags, "htools:migration:")),
            accepts=tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2),
            spread=_spread(tags),
        )

    def demand(self, instance: Instance) -> Demand:
        """The instance in the engine's figures."""
        local, spindles, tags = instance.local, instance.spindles, instance.tags
        load, loads, elsewhere = instance.cpu_load, instance.other_loads, instance.elsewhere
        return Demand(
            instance,
            instance.memory,
            instance.memory if instance.uses_memory else 0,
            instance.reserved,
            instance.vcpus if instance.counts_vcpus else 0,
            LOAD_UNIT if load == 1.0 else round(load * LOAD_UNIT),
            _COUNTED_LOADS if loads == COUNTED else _nano(loads),
            instance.disk_space - sum(elsewhere.values()) if local else 0,
            -1 if spindles is None else spindles,
            instance.spindle_use if local else 0,
            tuple(dict.fromkeys(t for t in tags if t.startswith(self.exclusion))) if tags else (),
            frozenset(t for t in tags if t.startswith(self.desired)) if tags else frozenset(),
            elsewhere,
            self._services(tags) if self.spread and tags else (),
        )

    def _services(self, tags: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
        return tuple(
            (at, tag)
            for at, rule in enumerate(self.spread)
            for tag in dict.fromkeys(tags)
            if rule.serves(tag, self.exclusion)
        )


def _nano(loads: tuple[float, float, float]) -> tuple[int, int, int]:
    memory, disk, network = (round(load * LOAD_UNIT) for load in loads)
    return memory, disk, network


def _spread(tags: tuple[str, ...]) -> tuple[SpreadRule, ...]:
    if not any(tag.startswith("steward:spread:") for tag in tags):
        return ()
    # Most clusters have no such tag, and an allocation should not pay for it.
    from ganeti_steward.allocators.state.spread import spread_rules

    return spread_rules(tags)


def _suffixes(tags: tuple[str, ...], prefix: str) -> list[str]:
    return [tag[len(prefix) :] for tag in tags if tag.startswith(prefix)]


class Reserves(NamedTuple):
    """What stays free when instances are placed (allocation 4.6)."""

    kept: Ints
    """rows x nodes: MiB of each free amount; 0 in all other rows"""
    hosts: tuple[int, ...]
    """node groups: how many nodes' worth of memory new instances leave"""
    host_memory: Ints
    """node groups: MiB of unallocated memory that new instances leave; 0 for nothing"""
    beyond: Ints
    """nodes: MiB that instances may have allocated beyond the memory for instances, in the end"""
    for_n1: Ints
    """nodes: MiB of that for instances of a failed node only"""

    @property
    def memory(self) -> Ints:
        """nodes: MiB of memory."""
        kept: Ints = self.kept[quantity.UNALLOCATED]
        return kept

    @property
    def closed(self) -> Ints:
        """nodes: MiB of memory that no new primary may take: the reserve, and what is for N+1."""
        return self.memory + self.for_n1

    def newly_fails(self, before: Ints, after: Ints, nodes: Ints | slice = slice(None)) -> Mask:
        """Whether N+1 with the reserve kept fails after a change of nodes and did not before.

        ``before``: rows x all nodes, ``after``: rows x ``nodes``.
        """
        kept = self.memory[nodes]
        return quantity.n1_fails(after, kept) & ~quantity.n1_fails(before[:, nodes], kept)


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
    """nodes: the share of free disk that counts there (allocation 5); 0 elsewhere"""
    lacks_disk: Mask
    """nodes: that do not report their disk (allocation 2.4)"""
    cpus: Floats
    """nodes: number; infinite where it is 0"""
    spindle_limit: Floats
    """nodes: how many shares of the common spindles may be in use"""
    wholes: Floats
    """rows x nodes: what the score divides each quantity by; see `shares`"""
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
    spindles_known: bool
    """whether each instance with local storage gives its dedicated spindles, if nodes have any"""
    doubtful: Mask
    """nodes: that report less disk in use than their drbd and plain instances take"""
    suspect: Mask
    """nodes: whether other nodes are used first, see `Node.suspect`"""
    pools: tuple[str, ...]
    """the volume groups that nodes or instances have apart from the cluster's; none where no node's
    figures of them are known"""
    pools_used: Mask
    """pools: whether an instance has a disk there; only these make a difference to the score"""
    pools_unknown: Mask
    """nodes: whether nothing is known of their volume groups apart from the cluster's"""
    pool_shares: Floats
    """pools x nodes: the share of free disk that counts where no share can be computed"""
    loads: bool = False
    """whether loads of memory, disk and network are given of any instance"""
    spread: tuple[Places, ...] = ()
    """where the nodes are for each of `TagRules.spread`"""
    reserves: Reserves | None = None
    """what stays free; None where nothing is configured"""

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.usable)

    @property
    def dedicated(self) -> bool:
        """Whether any node has exclusive storage."""
        return any(exclusive for _, exclusive, _ in self.kinds)

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
        """What a node does not report: "does not report its free disk"."""
        return self.cluster.nodes[node].lack

    def overcommitted(self, node: int) -> str:
        """What a sentence on free memory ends with where a memory ratio adds to it."""
        beyond = 0 if self.reserves is None else int(self.reserves.beyond[node])
        return f" ({beyond} of these beyond the node's memory)" if beyond else ""

    @property
    def doubtful_disks(self) -> list[str]:
        """The names of the nodes that report less disk in use than their instances take."""
        return [self.cluster.nodes[node].name for node in np.flatnonzero(self.doubtful).tolist()]

    def shared_locations(self, node: int) -> Ints:
        """nodes: number of location tags shared with this one."""
        shared: Ints = self.locations @ self.locations[node]
        return shared

    def lacks_pool(self, name: str) -> Mask:
        """nodes: which certainly have no volume group of this name."""
        known = (node.volume_groups for node in self.cluster.nodes)
        return np.array([groups is not None and name not in groups for groups in known], np.bool_)

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
