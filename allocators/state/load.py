"""From the cluster snapshot to the engine's figures (allocation 3.2 to 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.frame import COUNTED, LOAD_UNIT, Demand, Frame, TagRules
from ganeti_steward.allocators.state.state import Peers, Resident, State, TagCounts
from ganeti_steward.core.model.cluster import FILE, LOCAL_STORAGE, Cluster, Node, VolumeGroup
from ganeti_steward.core.needed import ROOM_PREFIXES
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.spread import Places


_Item = TypeVar("_Item")


def load(cluster: Cluster, template: str | None, kvm_memory: int) -> State:
    """The state of a cluster as it is.

    ``template``: the disk template the message's disk figures are about, None when the
    request does not name one (see `disk_known`).
    ``kvm_memory``: MiB that the system of a KVM node itself takes; 0: as the node reports.
    """
    rules = TagRules.of(cluster.tags)
    demands = [rules.demand(instance) for instance in cluster.instances]
    index = cluster.node_index
    primary = _ints(demands, lambda g: index[g.instance.nodes[0]])
    secondary = _ints(
        demands, lambda g: index[g.instance.nodes[1]] if len(g.instance.nodes) > 1 else -1
    )
    known = disk_known(cluster, template)
    # Of a requested template Ganeti reports the volume group that a new instance gets.
    sure = not known or template in LOCAL_STORAGE
    doubtful = _doubtful(cluster, demands, primary, secondary) & (not sure)
    pools = _Pools.of(cluster.nodes, demands)
    frame = _frame(cluster, rules, known, doubtful, pools)
    if cluster.is_tagged(ROOM_PREFIXES):
        from ganeti_steward.allocators.state.reserves import read_reserves  # most have none

        frame = frame._replace(reserves=read_reserves(frame, _room(cluster, kvm_memory)))
    peers = _peers(demands, primary, secondary, frame.size)
    sums = _Sums(demands, primary, secondary, frame.size)
    state = State(
        frame=frame,
        now=_matrix(frame, sums, peers, pools, kvm_memory),
        peers=peers,
        tag_counts=_tag_counts(demands, primary),
        residents=_residents(demands, primary, secondary),
    )
    _count_places(state, demands, primary, secondary)
    return state


def disk_known(cluster: Cluster, template: str | None) -> bool:
    """Whether the nodes' disk figures are about drbd and plain storage.

    Ganeti reports the space of one template: that of the request, else the first one that the
    cluster has enabled; 0 of 0 for templates without space of their own.
    """
    if template in LOCAL_STORAGE:
        return True
    if template == FILE:
        return False
    reporting = [node for node in cluster.nodes if node.live and not node.lacks_disk_figures]
    return not reporting or any(node.total_disk or node.free_disk for node in reporting)


def _doubtful(cluster: Cluster, demands: Sequence[Demand], primary: Ints, secondary: Ints) -> Mask:
    """nodes: whether one has less disk in use than its drbd and plain instances take.

    They have disks in another volume group, which its figures are not about, or have lost some.
    """
    nodes, size = cluster.nodes, len(cluster.nodes)
    reporting = _mask(n.live and not n.lacks_disk_figures for n in nodes)
    total, free = (_floats(n.total_disk for n in nodes), _floats(n.free_disk for n in nodes))
    disk = _ints(demands, lambda g: 0 if g.instance.forthcoming else g.disk)
    taken = np.bincount(primary, disk, size)
    taken += np.bincount(secondary[secondary >= 0], disk[secondary >= 0], size)
    return reporting & (total - free < taken)


def _ints(items: Sequence[_Item], value: Callable[[_Item], int]) -> Ints:
    return np.fromiter(map(value, items), np.int64, len(items))


def _finite(values: Floats) -> Floats:
    """A divisor that turns a share of nothing into 0."""
    return np.where(values == 0, np.inf, values)


def _frame(cluster: Cluster, rules: TagRules, known: bool, doubtful: Mask, pools: _Pools) -> Frame:
    nodes = cluster.nodes
    group = _ints(nodes, lambda node: cluster.group_index[node.group])
    policies = [cluster.groups[i].policy for i in group]
    exclusive = _mask(node.exclusive_storage for node in nodes)
    spindles = _floats(node.spindles for node in nodes)
    limit = spindles * _floats(policy.spindle_ratio for policy in policies)
    total = np.where(exclusive, spindles, _floats(node.total_disk for node in nodes))
    lacks_disk = _mask(node.lacks_disk_figures for node in nodes)
    total *= known
    migration = [_carried(node, rules.migration) for node in nodes]
    locations = [_carried(node, rules.location) for node in nodes]
    names = tuple(sorted(frozenset[str]().union(*locations)))
    cpus = _floats(node.total_cpus for node in nodes)
    power = cpus * _floats(node.cpu_speed for node in nodes)
    memory = _finite(_floats(node.total_memory for node in nodes))
    usable = _mask(node.usable for node in nodes)
    return Frame(
        cluster=cluster,
        tag_rules=rules,
        group=group,
        usable=usable,
        exclusive=exclusive,
        memory=memory,
        disk=_finite(total),
        no_disk=total == 0,
        no_disk_share=_no_disk_shares(nodes, group, total, lacks_disk),
        lacks_disk=lacks_disk,
        cpus=_finite(cpus),
        spindle_limit=limit,
        wholes=_wholes(memory, _finite(total), _finite(power), _finite(limit), pools.total),
        vcpu_ratio=_floats(policy.vcpu_ratio for policy in policies),
        locations=np.array(
            [[name in carried for name in names] for carried in locations], np.int64
        ).reshape(len(nodes), len(names)),
        location_names=names,
        migration=tuple(migration),
        accepted=tuple(
            tags | {source for source, target in rules.accepts if target in tags}
            for tags in migration
        ),
        conditions=_conditions(nodes),
        kinds=_kinds(group, exclusive),
        disk_known=known,
        spindles_known=not exclusive.any()
        or all(not one.local or one.spindles is not None for one in cluster.instances),
        doubtful=doubtful,
        suspect=_mask(bool(node.suspect) for node in nodes),
        pools=pools.names,
        pools_used=pools.used,
        pools_unknown=_mask(node.live and node.volume_groups is None for node in nodes),
        pool_shares=pools.shares(group, usable),
        loads=any(one.other_loads != COUNTED for one in cluster.instances),
        spread=_places(nodes, rules),
    )


def _places(nodes: Sequence[Node], rules: TagRules) -> tuple[Places, ...]:
    if not rules.spread:
        return ()
    from ganeti_steward.allocators.state.crowding import places_of  # as in `TagRules.of`

    return tuple(places_of(rule, nodes) for rule in rules.spread)


class _Pools(NamedTuple):
    """Figures of the volume groups apart from the cluster's, pools x nodes."""

    names: tuple[str, ...]
    """none where nothing is known of them on any node"""
    used: Mask
    """pools: whether an instance has a disk there"""
    total: Floats
    """MiB; 0 where a node has none, or nothing is known of it"""
    free: Ints
    """MiB; see `quantity.pool_rows`"""

    @classmethod
    def of(cls, nodes: Sequence[Node], demands: Sequence[Demand]) -> _Pools:
        """The figures of the volume groups that nodes have or instances use."""
        used = set[str]().union(*(demand.elsewhere for demand in demands))
        known = [node.volume_groups for node in nodes if node.volume_groups is not None]
        names = tuple(sorted(used.union(*known))) if known else ()
        absent = VolumeGroup(0, -quantity.UNKNOWN)
        unknown = dict.fromkeys(names, VolumeGroup(0, quantity.UNKNOWN))
        found = [
            [
                (unknown if n.volume_groups is None else n.volume_groups).get(name, absent)
                for n in nodes
            ]
            for name in names
        ]
        both = np.array(found, np.int64).reshape(len(names), len(nodes), 2)
        mine = np.array([name in used for name in names], np.bool_)
        return cls(names, mine, both[:, :, 0].astype(np.float64), both[:, :, 1])

    def shares(self, group: Ints, usable: Mask) -> Floats:
        """Free shares where none can be computed: the mean of the node group; 0 elsewhere."""
        shares = np.zeros_like(self.total)
        for pool, at in np.argwhere(self.total == 0).tolist():
            mates = usable & (self.total[pool] > 0) & (group == group[at])
            known = self.free[pool, mates] / self.total[pool, mates]
            shares[pool, at] = known.mean() if mates.any() else 1.0
        return shares


def _wholes(
    memory: Floats, disk: Floats, cpu_power: Floats, spindles: Floats, pools: Floats
) -> Floats:
    """rows x nodes: what makes a share of each quantity; ``cpu_power``: CPUs times their speed."""
    wholes = np.ones((quantity.ROWS + 2 * len(pools), len(memory)))
    wholes[quantity.ROWS :] = _finite(pools).repeat(2, axis=0)
    wholes[[quantity.UNALLOCATED, quantity.RESERVED, quantity.MEMORY_F]] = memory
    wholes[[quantity.DISK, quantity.SPINDLES, quantity.DISK_F, quantity.SPINDLES_F]] = disk
    wholes[[quantity.VCPUS, quantity.VCPUS_F]] = cpu_power
    wholes[[quantity.SPINDLE_USE, quantity.SPINDLE_USE_F]] = spindles
    wholes[[quantity.CPU_LOAD, *quantity.GIVEN_LOADS]] = LOAD_UNIT
    return wholes


def _no_disk_shares(nodes: Sequence[Node], group: Ints, total: Floats, lacks_disk: Mask) -> Floats:
    """nodes: the share of free disk that counts where no share can be computed (allocation 5)."""
    shares = np.where(total == 0, 1.0, 0.0)
    if not lacks_disk.any():
        return shares
    free = _floats(n.free_spindles if n.exclusive_storage else n.free_disk for n in nodes)
    reported = np.where(total == 0, 1.0, free / _finite(total))
    counted = _mask(node.usable for node in nodes) & ~lacks_disk
    for node in np.flatnonzero(lacks_disk).tolist():
        mates = counted & (group == group[node])
        shares[node] = reported[mates].mean() if mates.any() else 1.0
    return shares


def _conditions(nodes: Sequence[Node]) -> tuple[tuple[str, Mask], ...]:
    words = [node.condition for node in nodes]
    return tuple(
        (word, _mask(other == word for other in words)) for word in sorted(set(words) - {""})
    )


def _kinds(group: Ints, exclusive: Mask) -> tuple[tuple[int, bool, Mask], ...]:
    kinds = sorted(set(zip(group.tolist(), exclusive.tolist(), strict=True)))
    return tuple((g, storage, (group == g) & (exclusive == storage)) for g, storage in kinds)


def _carried(node: Node, prefixes: tuple[str, ...]) -> frozenset[str]:
    if not prefixes:
        return frozenset()
    return frozenset(tag for tag in node.tags if tag.startswith(prefixes))


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, np.float64)


def _mask(values: Iterable[bool]) -> Mask:
    return np.fromiter(values, np.bool_)


def _peers(demands: Sequence[Demand], primary: Ints, secondary: Ints, size: int) -> Peers:
    pair = (secondary >= 0) & ~_forthcoming(demands)
    key, which = np.unique(secondary[pair] * size + primary[pair], return_inverse=True)
    reserved = _ints(demands, lambda g: g.reserve)[pair]
    running = _ints(demands, lambda g: g.use if g.drbd else 0)[pair]
    return Peers(
        size,
        key,
        np.bincount(which, reserved, len(key)).astype(np.int64),
        np.bincount(which, running, len(key)).astype(np.int64),
    )


def _forthcoming(demands: Sequence[Demand]) -> Mask:
    return _mask(demand.instance.forthcoming for demand in demands)


class _Sums:
    """Amounts of instances added up per node."""

    def __init__(
        self, demands: Sequence[Demand], primary: Ints, secondary: Ints, size: int
    ) -> None:
        """``primary``, ``secondary``: instances: node, -1 without one; ``size``: nodes."""
        self._demands, self._primary, self._secondary = demands, primary, secondary
        self._size, self._both = size, secondary >= 0
        self.every: Mask = np.ones(len(demands), np.bool_)
        self.real: Mask = ~_forthcoming(demands)
        """instances: without forthcoming ones"""

    def of(self, value: Callable[[Demand], int]) -> Ints:
        """instances: an amount of each."""
        return _ints(self._demands, value)

    def on_primary(self, amount: Ints, which: Mask) -> Ints:
        """nodes: the amounts of these instances on their primaries."""
        return np.bincount(self._primary[which], amount[which], self._size).astype(np.int64)

    def on_secondary(self, amount: Ints, which: Mask) -> Ints:
        """nodes: the amounts of these instances on their secondaries."""
        which = which & self._both
        return np.bincount(self._secondary[which], amount[which], self._size).astype(np.int64)

    def on_both(self, amount: Ints, which: Mask) -> Ints:
        """nodes: the sum of both."""
        return self.on_primary(amount, which) + self.on_secondary(amount, which)


def _matrix(frame: Frame, sums: _Sums, peers: Peers, pools: _Pools, kvm_memory: int) -> Ints:
    """rows x nodes: the figures as they are read, those by tags left out."""
    now = np.zeros((len(frame.wholes), frame.size), np.int64)
    _fill_memory(now, frame, sums, peers, kvm_memory)
    _fill_disk(now, frame, sums)
    for pool, name in enumerate(frame.pools):
        taken = sums.of(lambda d, name=name: d.elsewhere.get(name, 0))  # type: ignore[misc]
        free = pools.free[pool]
        now[[*quantity.pool_rows(pool)]] = free, free - sums.on_both(taken, ~sums.real)
    _fill_spindles(now, frame, sums)
    _fill_counts(now, frame, sums)
    return now


def _room(cluster: Cluster, kvm_memory: int) -> Ints:
    """nodes: MiB of memory for instances, used or not."""
    nodes, kvm = cluster.nodes, kvm_memory > 0 and cluster.hypervisors[:1] == ("kvm",)
    own = np.full(len(nodes), kvm_memory) if kvm else _ints(nodes, lambda n: n.reserved_memory)
    return _ints(nodes, lambda n: int(n.total_memory)) - own


def _fill_memory(now: Ints, frame: Frame, sums: _Sums, peers: Peers, kvm_memory: int) -> None:
    nodes, use = frame.cluster.nodes, sums.of(lambda d: d.use)
    free = _ints(nodes, lambda n: n.free_memory)
    recorded = _room(frame.cluster, kvm_memory) - sums.on_primary(use, sums.every)
    beyond = frame.reserves.beyond if frame.reserves is not None else 0
    now[quantity.UNALLOCATED] = recorded - np.maximum(recorded - free, 0) + beyond
    now[quantity.RESERVED] = peers.most()
    now[quantity.FAILS] = quantity.n1_fails(now)
    now[quantity.MEMORY_F] = (
        free + beyond - sums.on_primary(sums.of(lambda d: d.memory) - use, sums.every)
    )


def _fill_disk(now: Ints, frame: Frame, sums: _Sums) -> None:
    nodes, disk = frame.cluster.nodes, sums.of(lambda d: d.disk)
    now[quantity.DISK] = (
        _ints(nodes, lambda n: n.free_disk) if frame.disk_known else quantity.UNKNOWN
    )
    # So little that a node is no target even when instances with large disks have left it.
    now[quantity.DISK, frame.lacks_disk] = -quantity.UNKNOWN
    now[quantity.DISK_F] = now[quantity.DISK] - sums.on_both(disk, ~sums.real)


def _fill_spindles(now: Ints, frame: Frame, sums: _Sums) -> None:
    nodes, exclusive = frame.cluster.nodes, frame.exclusive
    spindles, share = sums.of(lambda d: d.spindles), sums.of(lambda d: d.spindle_use)
    now[quantity.SPINDLES] = (
        _ints(nodes, lambda n: n.free_spindles) if frame.disk_known else quantity.UNKNOWN
    )
    now[quantity.SPINDLES] *= exclusive
    known = np.maximum(spindles, 0)
    now[quantity.SPINDLES_F] = now[quantity.SPINDLES] - sums.on_both(known, ~sums.real) * exclusive
    now[quantity.SPINDLES_F, (sums.on_both(spindles - known, ~sums.real) < 0) & exclusive] = -1
    now[quantity.SPINDLE_USE] = sums.on_both(share, sums.real) * ~exclusive
    now[quantity.SPINDLE_USE_F] = sums.on_both(share, sums.every) * ~exclusive


def _fill_counts(now: Ints, frame: Frame, sums: _Sums) -> None:
    nodes, vcpus = frame.cluster.nodes, sums.of(lambda d: d.vcpus)
    one = np.ones_like(vcpus)
    own_cpus = _ints(nodes, lambda n: n.reserved_cpus)
    now[quantity.VCPUS] = own_cpus + sums.on_primary(vcpus, sums.real)
    now[quantity.VCPUS_F] = own_cpus + sums.on_primary(vcpus, sums.every)
    now[quantity.PRIMARIES] = sums.on_primary(one, sums.real)
    now[quantity.SECONDARIES] = sums.on_secondary(one, sums.real)
    now[quantity.CPU_LOAD] = _ints(nodes, lambda n: round(n.own_load * LOAD_UNIT))
    now[quantity.CPU_LOAD] += sums.on_primary(sums.of(lambda d: d.load), sums.real)
    now[quantity.MEM_LOAD] = sums.on_primary(sums.of(lambda d: d.loads[0]), sums.real)
    now[quantity.DISK_LOAD] = sums.on_both(sums.of(lambda d: d.loads[1]), sums.real)
    now[quantity.NET_LOAD] = sums.on_primary(sums.of(lambda d: d.loads[2]), sums.real)


def _tag_counts(demands: Sequence[Demand], primary: Ints) -> TagCounts:
    every: dict[str, dict[int, int]] = {}
    real: dict[str, dict[int, int]] = {}
    services: dict[tuple[int, str], dict[int, int]] = {}
    for demand, node in zip(demands, primary.tolist(), strict=True):
        for tag in demand.exclusion:
            for counts in (every, real)[: 1 if demand.instance.forthcoming else 2]:
                mine = counts.setdefault(tag, {})
                mine[node] = mine.get(node, 0) + 1
        for service in demand.services:
            mine = services.setdefault(service, {})
            mine[node] = mine.get(node, 0) + 1
    return TagCounts(every, every if every == real else real, services)


def _residents(
    demands: Sequence[Demand], primary: Ints, secondary: Ints
) -> dict[int, tuple[Resident, ...]]:
    lists: dict[int, list[Resident]] = {}
    for demand, first, second in zip(demands, primary.tolist(), secondary.tolist(), strict=True):
        if not demand.instance.forthcoming:
            lists.setdefault(first, []).append(Resident(demand, first, second))
    return {node: tuple(reversed(mine)) for node, mine in lists.items()}


def _count_places(state: State, demands: Sequence[Demand], primary: Ints, secondary: Ints) -> None:
    """Fill in the rows that depend on tags; they are rare, so they are counted singly."""
    for counts in state.tag_counts.all.values():
        for node, count in counts.items():
            state.now[quantity.CLASHES, node] += count - 1
    locations = state.frame.locations
    if locations.shape[1]:
        mine = ~_forthcoming(demands) & (secondary >= 0)
        shared = (locations[primary[mine]] * locations[secondary[mine]]).sum(axis=1)
        np.add.at(state.now[quantity.LOCATION], primary[mine], shared)
    for demand, node in zip(demands, primary.tolist(), strict=True):
        if demand.desired_locations and not demand.instance.forthcoming:
            state.now[quantity.LOCATION, node] += state.frame.missing_locations(demand)[node]
