"""One placement of all instances: the figures of every node, changed by copying.

`State` holds what placements change: a matrix of whole numbers with one row per `quantity` and
one column per node, the memory kept free for each pair of nodes, and the instances of each
node.  What no placement changes is in `frame`.  All formulas that move an instance are the four
``after_*`` methods: they return the columns of nodes as they would be if *each* had been changed
in that way, so the same code evaluates all candidates and applies one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints, Mask, NodePair
    from ganeti_steward.allocators.state.frame import Demand, Frame


_Counts = Mapping[str, Mapping[int, int]]
_Crowds = Mapping[tuple[int, str], Mapping[int, int]]
_Key = TypeVar("_Key")


class TagCounts(NamedTuple):
    """Tag -> node -> how many of its primaries carry it."""

    all: _Counts
    """exclusion tags, forthcoming instances included"""
    real: _Counts
    """exclusion tags, without forthcoming instances"""
    services: _Crowds
    """the same for `Demand.services`, forthcoming instances included"""

    def counted(self, demand: Demand, node: int, sign: int) -> TagCounts:
        """With an instance added to or taken off a node."""
        if not demand.exclusion and not demand.services:
            return self
        services = _counted(self.services, demand.services, node, sign)
        if not demand.exclusion:
            return self._replace(services=services)
        every = _counted(self.all, demand.exclusion, node, sign)
        if self.all is self.real and not demand.instance.forthcoming:
            return TagCounts(every, every, services)
        forthcoming = demand.instance.forthcoming
        real = self.real if forthcoming else _counted(self.real, demand.exclusion, node, sign)
        return TagCounts(every, real, services)


def _counted(
    counts: Mapping[_Key, Mapping[int, int]], tags: Iterable[_Key], node: int, sign: int
) -> Mapping[_Key, Mapping[int, int]]:
    new = dict(counts)
    for tag in tags:
        mine = dict(new.get(tag, {}))
        mine[node] = mine.get(node, 0) + sign
        if mine[node] <= 0:
            del mine[node]
        new[tag] = mine
    return new


class Peers(NamedTuple):
    """Memory by pair of secondary and primary, sorted by ``key = secondary * n + primary``."""

    size: int
    """n, the number of nodes"""
    key: Ints
    """pairs"""
    reserved: Ints
    """pairs: MiB kept free on the secondary for the primary"""
    running: Ints
    """pairs: MiB taken on the secondary when all drbd instances of the pair fail over"""

    def row(self, primary: int) -> Ints:
        """nodes: MiB each keeps free for one primary."""
        kept = np.zeros(self.size, np.int64)
        mine = self.key % self.size == primary
        kept[self.key[mine] // self.size] = self.reserved[mine]
        return kept

    def most(self, secondary: int | None = None) -> Ints:
        """nodes: the largest reserve of each as secondary (or of just one), at least 0 MiB."""
        if secondary is not None:
            first, last = np.searchsorted(
                self.key, (secondary * self.size, (secondary + 1) * self.size)
            )
            largest: Ints = np.maximum(self.reserved[first:last].max(initial=0), 0)
            return largest
        most = np.zeros(self.size, np.int64)
        np.maximum.at(most, self.key // self.size, self.reserved)
        return most

    def dense(self, nodes: Ints | None = None) -> Ints:
        """secondaries x primaries: MiB kept free; ``nodes``: only between these, in this order."""
        size = self.size if nodes is None else len(nodes)
        place = np.arange(self.size)
        if nodes is not None:
            place = np.full(self.size, -1, np.int64)
            place[nodes] = np.arange(size)
        secondary, primary = (place[part] for part in np.divmod(self.key, self.size))
        inside = (secondary >= 0) & (primary >= 0)
        dense = np.zeros((size, size), np.int64)
        dense[secondary[inside], primary[inside]] = self.reserved[inside]
        return dense

    def changed(self, secondary: int, primary: int, demand: Demand, sign: int) -> Peers:
        """With an instance of this pair added or removed."""
        key = secondary * self.size + primary
        at = int(np.searchsorted(self.key, key))
        if at < len(self.key) and self.key[at] == key:
            reserved, running = self.reserved.copy(), self.running.copy()
            reserved[at] += sign * demand.reserve
            running[at] += sign * (demand.use if demand.drbd else 0)
            return Peers(self.size, self.key, reserved, running)
        return Peers(
            self.size,
            np.insert(self.key, at, key),
            np.insert(self.reserved, at, sign * demand.reserve),
            np.insert(self.running, at, sign * (demand.use if demand.drbd else 0)),
        )


class Resident(NamedTuple):
    """An instance on its nodes."""

    demand: Demand
    primary: int
    """index of the node"""
    secondary: int
    """index of the node; -1 without one"""

    @property
    def nodes(self) -> NodePair:
        """Both nodes."""
        return self.primary, self.secondary


class State(NamedTuple):
    """One placement of all instances; never changed, only replaced."""

    frame: Frame
    now: Ints
    """rows x nodes"""
    peers: Peers
    tag_counts: TagCounts
    residents: Mapping[int, tuple[Resident, ...]]
    """node -> its real primaries, the latest first"""

    def exclusion_tags_taken(self, demand: Demand, least: int = 1) -> Ints:
        """nodes: number of exclusion tags of the instance that ``least`` primaries there carry."""
        taken = np.zeros(self.frame.size, np.int64)
        for tag in demand.exclusion:
            for node, count in self.tag_counts.all.get(tag, {}).items():
                taken[node] += count >= least
        return taken

    def after_primary(self, demand: Demand) -> Ints:
        """Every node as if the instance became its primary.

        The location row counts missed desired_locations only: what primary and secondary share
        depends on the pair and is the caller's to add.
        """
        return self._primary_changed(demand, 1, slice(None))

    def after_primary_left(self, demand: Demand, node: int) -> Ints:
        """One node as if the instance stopped being its primary."""
        return self._primary_changed(demand, -1, _only(node))

    def _primary_changed(self, demand: Demand, sign: int, nodes: slice) -> Ints:
        after = self._changed(demand, sign, nodes, primary=True)
        if demand.exclusion:
            # The first of the instances with a tag meets none.
            taken = self.exclusion_tags_taken(demand, 1 if sign > 0 else 2)
            after[quantity.CLASHES] += sign * taken[nodes]
        if demand.instance.forthcoming:
            return after
        if demand.desired_locations:
            missing = self.frame.missing_locations(demand)
            after[quantity.LOCATION] += sign * missing[nodes]
        return self._with_n1_flag(after)

    def after_secondary(
        self, demand: Demand, kept: Ints | int, nodes: Ints | slice = slice(None)
    ) -> Ints:
        """These nodes as if they became secondary; ``kept`` is free there for the primary."""
        after = self._changed(demand, 1, nodes, primary=False)
        if demand.instance.forthcoming:
            return after
        np.maximum(after[quantity.RESERVED], kept + demand.reserve, out=after[quantity.RESERVED])
        return self._with_n1_flag(after)

    def after_secondary_left(self, demand: Demand, node: int, reserved: Ints) -> Ints:
        """One node as if it stopped being secondary; ``reserved``: the one figure then needed."""
        after = self._changed(demand, -1, _only(node), primary=False)
        if demand.instance.forthcoming:
            return after
        after[quantity.RESERVED] = reserved
        return self._with_n1_flag(after)

    def _changed(self, demand: Demand, sign: int, nodes: Ints | slice, *, primary: bool) -> Ints:
        """These nodes with an instance more, or less where ``sign`` is -1, by its figures alone."""
        figures = np.array(figures_added(demand, self.frame.pools, primary=primary))
        after: Ints = self.now[:, nodes] + sign * figures[:, None]
        if self.frame.dedicated:
            self._count_spindles(after, demand, sign, self.frame.exclusive[nodes])
        return after

    @staticmethod
    def _count_spindles(after: Ints, demand: Demand, sign: int, exclusive: Mask) -> None:
        """Dedicated spindles instead of shares of common ones, on nodes with exclusive storage."""
        rows = [(quantity.SPINDLES_F, quantity.SPINDLE_USE_F)]
        if not demand.instance.forthcoming:
            rows.append((quantity.SPINDLES, quantity.SPINDLE_USE))
        for own, common in rows:
            after[common, exclusive] -= sign * demand.spindle_use
            if demand.spindles >= 0:
                after[own, exclusive] -= sign * demand.spindles
            elif sign > 0:
                after[own, exclusive] = -1

    @staticmethod
    def _with_n1_flag(after: Ints) -> Ints:
        """With the N+1 flag recomputed (allocation 3.3)."""
        after[quantity.FAILS] = quantity.n1_fails(after)
        return after

    def placed(self, demand: Demand, primary: int, secondary: int = -1) -> State:
        """With the instance added."""
        state = self.touched(primary, self._primary_changed(demand, 1, _only(primary)))
        state = state._replace(tag_counts=self.tag_counts.counted(demand, primary, 1))
        forthcoming = demand.instance.forthcoming
        if secondary >= 0:
            kept = 0 if forthcoming else self.peers.row(primary)[_only(secondary)]
            state = state.touched(secondary, state.after_secondary(demand, kept, _only(secondary)))
        if forthcoming:
            return state
        if secondary >= 0:
            state.now[quantity.LOCATION, primary] += self.frame.shared_locations(primary)[secondary]
            state = state._replace(peers=self.peers.changed(secondary, primary, demand, 1))
        residents = dict(self.residents)
        mine = Resident(demand, primary, secondary)
        residents[primary] = (mine, *residents.get(primary, ()))
        return state._replace(residents=residents)

    def removed(self, resident: Resident) -> State:
        """With an instance taken off."""
        demand, primary, secondary = resident
        state = self.touched(primary, self.after_primary_left(demand, primary))
        state = state._replace(tag_counts=self.tag_counts.counted(demand, primary, -1))
        forthcoming = demand.instance.forthcoming
        if secondary >= 0:
            peers = (
                self.peers if forthcoming else self.peers.changed(secondary, primary, demand, -1)
            )
            most = peers.most(secondary)
            state = state.touched(secondary, state.after_secondary_left(demand, secondary, most))
            state = state._replace(peers=peers)
        if forthcoming:
            return state
        if secondary >= 0:
            state.now[quantity.LOCATION, primary] -= self.frame.shared_locations(primary)[secondary]
        residents = dict(self.residents)
        residents[primary] = tuple(r for r in residents[primary] if r is not resident)
        return state._replace(residents=residents)

    def touched(self, node: int, after: Ints) -> State:
        """With the figures of one node changed; ``after``: rows x 1."""
        now = self.now.copy()
        now[:, _only(node)] = after
        return self._replace(now=now)

    def find(self, demand: Demand, primary: int) -> Resident | None:
        """The instance on this primary; None where it is not, or is forthcoming."""
        for resident in self.residents.get(primary, ()):
            if resident.demand is demand:
                return resident
        return None

    def resident(self, name: str) -> Resident:
        """The instance of this name as the cluster snapshot has it."""
        cluster = self.frame.cluster
        instance = cluster.instances[cluster.instance_index[name]]
        nodes = [cluster.node_index[node] for node in instance.nodes]
        for resident in self.residents.get(nodes[0], ()):
            if resident.demand.instance is instance:
                return resident
        # A forthcoming instance is among no node's residents.
        demand = self.frame.tag_rules.demand(instance)
        return Resident(demand, nodes[0], nodes[1] if len(nodes) > 1 else -1)


def _only(node: int) -> slice:
    return slice(node, node + 1)


def figures_added(demand: Demand, pools: Sequence[str], *, primary: bool) -> list[int]:
    """rows: what an instance adds to a node with common spindles, whatever else is there.

    ``pools``: `Frame.pools`.
    """
    real = not demand.instance.forthcoming
    figures = [0] * (quantity.ROWS + 2 * len(pools))
    for name in demand.elsewhere.keys() & pools if pools else ():
        free, free_f = quantity.pool_rows(pools.index(name))
        figures[free], figures[free_f] = -real * demand.elsewhere[name], -demand.elsewhere[name]
    figures[quantity.DISK_F] = -demand.disk
    figures[quantity.SPINDLE_USE_F] = demand.spindle_use
    if primary:
        figures[quantity.MEMORY_F] = -demand.memory
        figures[quantity.VCPUS_F] = demand.vcpus
    if real:
        figures[quantity.DISK] = -demand.disk
        figures[quantity.SPINDLE_USE] = demand.spindle_use
        figures[quantity.PRIMARIES if primary else quantity.SECONDARIES] = 1
        figures[quantity.DISK_LOAD] = demand.loads[1]
    if real and primary:
        figures[quantity.UNALLOCATED] = -demand.use
        figures[quantity.VCPUS] = demand.vcpus
        figures[quantity.CPU_LOAD] = demand.load
        figures[quantity.MEM_LOAD], _, figures[quantity.NET_LOAD] = demand.loads
    return figures
