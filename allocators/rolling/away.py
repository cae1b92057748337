"""A set of nodes that are away at the same time, and where their instances are meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ganeti_steward.allocators.rolling import obstacles
from ganeti_steward.allocators.rolling.fleet import COPY, SHUT_DOWN, Fleet, Member
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.crowding import full, in_places

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand


class Placed(NamedTuple):
    """An instance away from its primary."""

    member: Member
    target: int
    """index of the node"""


class Shortage(NamedTuple):
    """A node that could not take over all that it is the secondary of."""

    node: str
    needed: int
    """MiB it has to keep free for N+1"""
    free: int
    """MiB that are unallocated"""


class Load(NamedTuple):
    """What the nodes that stay have in addition."""

    memory: Ints
    """nodes: MiB"""
    vcpus: Ints
    """nodes: number"""
    disk: Ints
    """nodes: MiB in the cluster's volume group"""
    spindles: Ints
    """nodes: number"""
    pools: Mapping[str, Ints]
    """volume group apart from the cluster's -> nodes: MiB; those of which figures are known"""
    tags: frozenset[tuple[int, str]] = frozenset()
    """nodes with the exclusion tags of what they have in addition"""
    spread: tuple[Placed, ...] = ()
    """what is elsewhere and is one of a service that is spread"""

    def full(self, fleet: Fleet, member: Member) -> Mask:
        """nodes: in places that have the most instances of its services, by a hard rule."""
        state, mask = fleet.state, np.zeros(fleet.size, np.bool_)
        for at, tag in member.demand.services:
            places = state.frame.spread[at]
            if not places.rule.hard:
                continue
            by_node = Counter(state.tag_counts.services.get((at, tag), {}))
            by_node[member.primary] -= 1
            for one in self.spread:
                if (at, tag) in one.member.demand.services:
                    by_node[one.target] += 1
                    by_node[one.member.primary] -= 1
            mask |= full(places, in_places(places, by_node), member.primary)
        return mask

    def fits(self, fleet: Fleet, member: Member) -> Mask:
        """nodes: which have room for one instance more, and no exclusion tag of it."""
        now, demand = fleet.state.now, member.demand
        fits: Mask = now[quantity.UNALLOCATED] - self.memory - demand.use > 0
        if demand.vcpus:
            used = now[quantity.VCPUS] + self.vcpus + demand.vcpus
            fits &= used <= fleet.vcpu_limit
        if member.how == COPY and demand.instance.local:
            fits &= self._disk_fits(fleet, demand)
            spindles = now[quantity.SPINDLES] - self.spindles - max(demand.spindles, 0) >= 0
            fits &= spindles | ~fleet.state.frame.exclusive
        if demand.exclusion:
            fits &= fleet.state.exclusion_tags_taken(demand) == 0
            fits[[node for node, tag in self.tags if tag in demand.exclusion]] = False
        return fits

    def _disk_fits(self, fleet: Fleet, demand: Demand) -> Mask:
        """nodes: which have room for copies of its disks; none where this is not known."""
        frame, now = fleet.state.frame, fleet.state.now
        fits: Mask = now[quantity.DISK] - self.disk - demand.disk > 0
        fits |= demand.disk == 0 and bool(demand.elsewhere)
        for name, size in demand.elsewhere.items():
            if name not in self.pools:
                return np.zeros_like(fits)
            free = now[quantity.pool_rows(frame.pools.index(name))[0]] - self.pools[name]
            fits &= (free - size > 0) & ~frame.pools_unknown
        return fits

    def takes(self, fleet: Fleet, member: Member, node: int) -> bool:
        """Whether a node that has the disks of an instance has room for it, and no tag of it."""
        now, demand = fleet.state.now, member.demand
        if now[quantity.UNALLOCATED, node] - self.memory[node] - demand.use <= 0:
            return False
        used = now[quantity.VCPUS, node] + self.vcpus[node] + demand.vcpus
        if demand.vcpus and used > fleet.vcpu_limit[node]:
            return False
        taken = fleet.state.tag_counts.all
        return not any(
            taken.get(tag, {}).get(node) or (node, tag) in self.tags for tag in demand.exclusion
        )

    def changed(self, placed: Placed, sign: int = 1) -> Load:
        """With an instance added to or taken off its target."""
        demand, target = placed.member.demand, placed.target
        tags = frozenset((target, tag) for tag in demand.exclusion)
        copied = placed.member.how == COPY
        disk = demand.disk if copied else 0
        for name in demand.elsewhere.keys() & self.pools.keys() if copied else ():
            self.pools[name][target] += sign * demand.elsewhere[name]
        self.memory[target] += sign * demand.use
        self.vcpus[target] += sign * demand.vcpus
        self.disk[target] += sign * disk
        self.spindles[target] += sign * (
            max(demand.spindles, 0) if copied and demand.all_disk else 0
        )
        load = self
        if demand.services:
            others = tuple(one for one in self.spread if one.member.name != placed.member.name)
            load = load._replace(spread=(*others, placed) if sign > 0 else others)
        if not tags:
            return load
        return load._replace(tags=self.tags | tags if sign > 0 else self.tags - tags)

    def copy(self) -> Load:
        """The same with figures of its own."""
        rows = (self.memory, self.vcpus, self.disk, self.spindles)
        memory, vcpus, disk, spindles = (row.copy() for row in rows)
        pools = {name: row.copy() for name, row in self.pools.items()}
        return Load(memory, vcpus, disk, spindles, pools, self.tags, self.spread)


class _NoRoom(Exception):
    """An instance has no place."""

    def __init__(self, obstacle: obstacles.NodeObstacle) -> None:
        super().__init__(obstacle.sentence)
        self.obstacle = obstacle


class Away(NamedTuple):
    """Nodes that are away at the same time; never changed, only replaced."""

    fleet: Fleet
    load: Load
    nodes: frozenset[int] = frozenset()
    paired: tuple[Placed, ...] = ()
    """instances on their secondaries"""
    free: Mapping[str, Placed] = MappingProxyType({})
    """name -> an instance that had a choice"""

    @classmethod
    def none(cls, fleet: Fleet) -> Away:
        """No node is away."""
        pools = {name: np.zeros(fleet.size, np.int64) for name in fleet.state.frame.pools}
        memory, vcpus, disk, spindles = np.zeros((4, fleet.size), np.int64)
        return cls(fleet, Load(memory, vcpus, disk, spindles, pools))

    def with_node(self, node: int, *, keep_n1: bool = False) -> Away | obstacles.NodeObstacle:
        """With one node more, or why it cannot be away together with these.

        ``keep_n1``: no node that stays may fail N+1 that did not before; raises PluginError.
        """
        fleet = self.fleet
        shared = fleet.partners[node] & self.nodes
        if shared:
            return obstacles.pair(fleet, node, min(shared))
        members = [one for one in fleet.members[node] if one.how != SHUT_DOWN]
        for member in members:
            if not member.how:
                return obstacles.refused(fleet, member)
        try:
            found = self._joined(node, members)
        except _NoRoom as err:
            return err.obstacle
        if keep_n1 and (short := found.shortages()):
            return obstacles.NodeObstacle.of_n1(fleet.name(node), *short[0])
        return found

    def _joined(self, node: int, members: Iterable[Member]) -> Away:
        fixed = [one for one in members if one.paired]
        loose = [one for one in members if not one.paired]
        left = {one.secondary for one in fixed} | {node}
        try:
            return self._placed(node, fixed, loose, left)
        except _NoRoom:
            if not self.free:
                raise
        # Once more, with another place for everything that has a choice.
        return self._placed(node, fixed, loose, None)

    def _placed(
        self, node: int, fixed: list[Member], loose: list[Member], left: set[int] | None
    ) -> Away:
        """``left``: nodes from which what has a choice is taken again; None: from all."""
        load, nodes = self.load.copy(), self.nodes | {node}
        again = [one for one in self.free.values() if left is None or one.target in left]
        for one in again:
            load = load.changed(one, -1)
        paired = []
        for member in fixed:
            load = self._to_secondary(load, member, fixed)
            paired.append(Placed(member, member.secondary))
        taken = {one.member.name for one in again}
        free = {name: one for name, one in self.free.items() if name not in taken}
        gone = list(nodes)
        wanting = [*(one.member for one in again), *loose]
        for member in sorted(wanting, key=lambda one: (-one.demand.use, one.name)):
            place = self._place(load, member, gone, tight=left is None)
            load, free[member.name] = load.changed(place), place
        return Away(self.fleet, load, nodes, (*self.paired, *paired), free)

    def _to_secondary(self, load: Load, member: Member, others: list[Member]) -> Load:
        target = member.secondary
        if load.full(self.fleet, member)[target]:
            raise _NoRoom(obstacles.crowded(self.fleet, member))
        if not self.fleet.allowed(member)[target] or not load.takes(self.fleet, member, target):
            room = self.fleet.state.now[quantity.UNALLOCATED] - self.load.memory
            raise _NoRoom(obstacles.no_room(self.fleet, member, others, int(room[target])))
        return load.changed(Placed(member, target))

    def _place(self, load: Load, member: Member, gone: list[int], *, tight: bool) -> Placed:
        """Where most memory is left; ``tight``: where least is.

        Suspect nodes are used last, and before them those that trouble the migration.
        """
        room = self.fleet.state.now[quantity.UNALLOCATED] - load.memory
        may = self.fleet.allowed(member).copy()
        may[gone] = False
        may &= ~load.full(self.fleet, member)
        fits = may & load.fits(self.fleet, member)
        for worse in (self.fleet.state.frame.suspect, self.fleet.troubled(member)):
            fits = well if (well := fits & ~worse).any() else fits
        targets = np.flatnonzero(fits)
        if not len(targets):
            raise _NoRoom(obstacles.no_place(self.fleet, member, may, room))
        rooms = room[targets]
        return Placed(member, int(targets[rooms.argmin() if tight else rooms.argmax()]))

    @property
    def placed(self) -> list[Placed]:
        """All instances that are elsewhere, by name of the primary and their own."""
        found = [*self.paired, *self.free.values()]
        return sorted(found, key=lambda one: (one.member.primary, one.member.name))

    def shortages(self) -> list[Shortage]:
        """Nodes that stay and fail N+1 now, and did not before.

        What had its other copy on a node that is away cannot fail over at all, and does not count.
        """
        state, peers = self.fleet.state, self.fleet.state.peers
        stays = np.ones(self.fleet.size, np.bool_)
        stays[list(self.nodes)] = False
        secondary, primary = np.divmod(peers.key, peers.size)
        counted = stays[secondary] & stays[primary]
        needed = np.zeros(self.fleet.size, np.int64)
        np.maximum.at(needed, secondary[counted], peers.reserved[counted])
        unallocated, reserved = state.now[quantity.UNALLOCATED], state.now[quantity.RESERVED]
        free = unallocated - self.load.memory
        fails = stays & (free < needed) & (unallocated >= reserved)
        return [
            Shortage(self.fleet.name(node), int(needed[node]), int(free[node]))
            for node in np.flatnonzero(fails).tolist()
        ]
