"""The engine's figures of a cluster: one column per node, changed by copying.

`Frame` holds what no placement changes, `State` what placements change: a matrix of whole
numbers with one row per quantity (allocation 3.2, 3.6), the memory kept free for each pair
of primary and secondary, and who lives where.  All formulas that move an instance are the
four ``after_*`` methods: they give the matrix as it would be if *every* node had been
changed in that way, so the same code judges all candidates at once and applies one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.state.demand import Guest, TagRules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ganeti_steward.core.model.cluster import Cluster

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

#: Free space of a node whose disk figures are not known, MiB.
UNKNOWN: Final = 2**50

# Rows of the matrix.  The second half are the books that count forthcoming instances.
UNALLOCATED: Final = 0
RESERVED: Final = 1
FAILS: Final = 2  # N+1 fails: 1 or 0
DISK: Final = 3
SPINDLES: Final = 4
SPINDLE_USE: Final = 5
VCPUS: Final = 6
PRIMARIES: Final = 7
SECONDARIES: Final = 8
CLASHES: Final = 9  # instances beyond the first with the same exclusion tag
LOCATION: Final = 10  # shared location tags and missed wishes of its primaries
CPU_LOAD: Final = 11  # in nano-loads
MEMORY_F: Final = 12
DISK_F: Final = 13
SPINDLES_F: Final = 14
SPINDLE_USE_F: Final = 15
VCPUS_F: Final = 16
ROWS: Final = 17


class Resident(NamedTuple):
    """A guest that lives on the cluster; ``secondary`` is -1 without one."""

    guest: Guest
    primary: int
    secondary: int


class Peers(NamedTuple):
    """Memory by pair of secondary and primary, sorted by ``key = secondary * n + primary``."""

    size: int
    key: Ints
    reserved: Ints
    """kept free on the secondary for the primary"""
    running: Ints
    """taken on the secondary when all drbd instances of the pair fail over"""

    def row(self, primary: int) -> Ints:
        """What each node keeps free for one primary."""
        kept = np.zeros(self.size, np.int64)
        mine = self.key % self.size == primary
        kept[self.key[mine] // self.size] = self.reserved[mine]
        return kept

    def most(self, secondary: int | None = None) -> Ints:
        """The largest reserve of each secondary (or of just one), at least 0."""
        if secondary is not None:
            first, last = np.searchsorted(
                self.key, (secondary * self.size, (secondary + 1) * self.size)
            )
            largest: Ints = np.maximum(self.reserved[first:last].max(initial=0), 0)
            return largest
        most = np.zeros(self.size, np.int64)
        np.maximum.at(most, self.key // self.size, self.reserved)
        return most

    def changed(self, secondary: int, primary: int, guest: Guest, sign: int) -> Peers:
        """With a guest of this pair added or removed."""
        key = secondary * self.size + primary
        at = int(np.searchsorted(self.key, key))
        if at < len(self.key) and self.key[at] == key:
            reserved, running = self.reserved.copy(), self.running.copy()
            reserved[at] += sign * guest.reserve
            running[at] += sign * (guest.use if guest.drbd else 0)
            return Peers(self.size, self.key, reserved, running)
        return Peers(
            self.size,
            np.insert(self.key, at, key),
            np.insert(self.reserved, at, sign * guest.reserve),
            np.insert(self.running, at, sign * (guest.use if guest.drbd else 0)),
        )


class Frame(NamedTuple):
    """What no placement changes."""

    cluster: Cluster
    tag_rules: TagRules
    group: Ints
    usable: Mask
    exclusive: Mask
    memory: Floats
    """total memory; infinite where it is 0, so that shares of it are 0"""
    disk: Floats
    """total disk, or spindles with exclusive storage; infinite where unknown or 0"""
    no_disk: Mask
    cpus: Floats
    cpu_power: Floats
    """CPUs times their speed: what the score, and it alone, measures CPUs in use by"""
    spindle_limit: Floats
    spindle_share: Floats
    """the spindle limit; infinite where it is 0"""
    vcpu_ratio: Floats
    locations: Ints
    """one row per node, one column per location tag, 1 where carried"""
    location_names: tuple[str, ...]
    migration: tuple[frozenset[str], ...]
    accepted: tuple[frozenset[str], ...]
    conditions: tuple[tuple[str, Mask], ...]
    """(why nodes are unusable, which)"""
    kinds: tuple[tuple[int, bool, Mask], ...]
    """(group, exclusive storage or not, which nodes): what a policy is judged by"""
    disk_known: bool
    """whether the message's disk figures are about drbd and plain storage"""

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.usable)

    @property
    def vcpu_limit(self) -> Floats:
        """VCPUs each node takes; infinite where nothing limits them (as in `rules`)."""
        endless = (self.vcpu_ratio < 0) | np.isinf(self.cpus)
        return np.where(endless, np.inf, self.vcpu_ratio * np.where(endless, 0.0, self.cpus))

    def shared_locations(self, node: int) -> Ints:
        """How many location tags each node shares with this one."""
        shared: Ints = self.locations @ self.locations[node]
        return shared

    def missed_wishes(self, guest: Guest) -> Ints:
        """How many of the guest's wished locations each node lacks."""
        missed = np.full(self.size, len(guest.wishes), np.int64)
        if guest.wishes:
            for column, name in enumerate(self.location_names):
                if name in guest.wishes:
                    missed -= self.locations[:, column]
        return missed

    def accepts(self, source: int) -> Mask:
        """Nodes an instance may migrate to from ``source`` (migration tags)."""
        tags = self.migration[source]
        if not tags:
            return np.ones(self.size, np.bool_)
        return np.fromiter((tags <= taken for taken in self.accepted), np.bool_, self.size)


_Counts = Mapping[str, Mapping[int, int]]


class TagBooks(NamedTuple):
    """Exclusion tag -> node -> how many of its primaries carry it."""

    all: _Counts
    """announced (forthcoming) instances included"""
    real: _Counts

    def counted(self, guest: Guest, node: int, sign: int) -> TagBooks:
        """With a guest added to or taken off a node."""
        if not guest.exclusion:
            return self
        every = _counted(self.all, guest, node, sign)
        if self.all is self.real and not guest.instance.forthcoming:
            return TagBooks(every, every)
        announced = guest.instance.forthcoming
        return TagBooks(every, self.real if announced else _counted(self.real, guest, node, sign))


def _counted(counts: _Counts, guest: Guest, node: int, sign: int) -> _Counts:
    new = dict(counts)
    for tag in guest.exclusion:
        mine = dict(new.get(tag, {}))
        mine[node] = mine.get(node, 0) + sign
        if mine[node] <= 0:
            del mine[node]
        new[tag] = mine
    return new


class State(NamedTuple):
    """One placement of all instances; never changed, only replaced."""

    frame: Frame
    now: Ints
    peers: Peers
    books: TagBooks
    residents: Mapping[int, tuple[Resident, ...]]
    """node -> its real primaries, the latest first"""

    def exclusion_tags_taken(self, guest: Guest) -> Ints:
        """How many exclusion tags of the guest each node's primaries carry already."""
        taken = np.zeros(self.frame.size, np.int64)
        for tag in guest.exclusion:
            for node in self.books.all.get(tag, ()):
                taken[node] += 1
        return taken

    def after_primary(self, guest: Guest) -> Ints:
        """Every node as if the guest became its primary.

        The location row counts missed wishes only: what primary and secondary share
        depends on the pair and is the caller's to add.
        """
        after = self._moved(guest, 1)
        after[MEMORY_F] -= guest.memory
        after[VCPUS_F] += guest.vcpus
        after[CLASHES] += self.exclusion_tags_taken(guest)
        if guest.instance.forthcoming:
            return after
        after[UNALLOCATED] -= guest.use
        after[VCPUS] += guest.vcpus
        after[PRIMARIES] += 1
        after[CPU_LOAD] += guest.load
        after[LOCATION] += self.frame.missed_wishes(guest)
        return self._judged(after)

    def after_primary_left(self, guest: Guest) -> Ints:
        """Every node as if the guest stopped being its primary."""
        after = self._moved(guest, -1)
        after[MEMORY_F] += guest.memory
        after[VCPUS_F] -= guest.vcpus
        for tag in guest.exclusion:
            for node, count in self.books.all.get(tag, {}).items():
                after[CLASHES, node] -= count > 1
        if guest.instance.forthcoming:
            return after
        after[UNALLOCATED] += guest.use
        after[VCPUS] -= guest.vcpus
        after[PRIMARIES] -= 1
        after[CPU_LOAD] -= guest.load
        after[LOCATION] -= self.frame.missed_wishes(guest)
        return self._judged(after)

    def after_secondary(
        self, guest: Guest, kept: Ints | int, nodes: Ints | slice = slice(None)
    ) -> Ints:
        """These nodes as if they became secondary; ``kept`` is free there for the primary."""
        after = self._moved(guest, 1, nodes)
        if guest.instance.forthcoming:
            return after
        after[SECONDARIES] += 1
        np.maximum(after[RESERVED], kept + guest.reserve, out=after[RESERVED])
        return self._judged(after)

    def after_secondary_left(self, guest: Guest, reserved: Ints | int) -> Ints:
        """Every node as if it stopped being secondary, ``reserved`` memory then needed."""
        after = self._moved(guest, -1)
        if guest.instance.forthcoming:
            return after
        after[SECONDARIES] -= 1
        after[RESERVED] = reserved
        return self._judged(after)

    def _moved(self, guest: Guest, sign: int, nodes: Ints | slice = slice(None)) -> Ints:
        """Disk and spindles, which primary and secondary count alike."""
        after = self.now[:, nodes].copy()
        real = not guest.instance.forthcoming
        exclusive = self.frame.exclusive[nodes]
        if guest.disk:
            after[DISK_F] -= sign * guest.disk
            if real:
                after[DISK] -= sign * guest.disk
        if guest.spindle_use:
            shared = sign * guest.spindle_use * ~exclusive
            after[SPINDLE_USE_F] += shared
            if real:
                after[SPINDLE_USE] += shared
        if exclusive.any():
            for row in (SPINDLES, SPINDLES_F) if real else (SPINDLES_F,):
                if guest.spindles >= 0:
                    after[row] -= sign * guest.spindles * exclusive
                elif sign > 0:
                    after[row, exclusive] = -1
        return after

    @staticmethod
    def _judged(after: Ints) -> Ints:
        """With the N+1 flag set anew (allocation 3.3)."""
        after[FAILS] = after[UNALLOCATED] <= after[RESERVED]
        return after

    def placed(self, guest: Guest, primary: int, secondary: int = -1) -> State:
        """With the guest added."""
        state = self.touched(primary, self.after_primary(guest))
        state = state._replace(books=self.books.counted(guest, primary, 1))
        announced = guest.instance.forthcoming
        if secondary >= 0:
            kept = 0 if announced else self.peers.row(primary)
            state = state.touched(secondary, state.after_secondary(guest, kept))
        if announced:
            return state
        if secondary >= 0:
            state.now[LOCATION, primary] += self.frame.shared_locations(primary)[secondary]
            state = state._replace(peers=self.peers.changed(secondary, primary, guest, 1))
        residents = dict(self.residents)
        mine = Resident(guest, primary, secondary)
        residents[primary] = (mine, *residents.get(primary, ()))
        return state._replace(residents=residents)

    def removed(self, resident: Resident) -> State:
        """With a guest taken off."""
        guest, primary, secondary = resident
        state = self.touched(primary, self.after_primary_left(guest))
        state = state._replace(books=self.books.counted(guest, primary, -1))
        announced = guest.instance.forthcoming
        if secondary >= 0:
            peers = self.peers if announced else self.peers.changed(secondary, primary, guest, -1)
            most = peers.most(secondary)
            state = state.touched(secondary, state.after_secondary_left(guest, most))
            state = state._replace(peers=peers)
        if announced:
            return state
        if secondary >= 0:
            state.now[LOCATION, primary] -= self.frame.shared_locations(primary)[secondary]
        residents = dict(self.residents)
        residents[primary] = tuple(r for r in residents[primary] if r is not resident)
        return state._replace(residents=residents)

    def touched(self, node: int, after: Ints) -> State:
        """With one node's column taken from ``after``."""
        now = self.now.copy()
        now[:, node] = after[:, node]
        return self._replace(now=now)

    def resident(self, name: str) -> Resident:
        """The instance of this name as the cluster snapshot has it."""
        cluster = self.frame.cluster
        instance = cluster.instances[cluster.instance_index[name]]
        nodes = [cluster.node_index[node] for node in instance.nodes]
        for resident in self.residents.get(nodes[0], ()):
            if resident.guest.instance is instance:
                return resident
        # Announced instances live nowhere yet.
        guest = self.frame.tag_rules.guest(instance)
        return Resident(guest, nodes[0], nodes[1] if len(nodes) > 1 else -1)
