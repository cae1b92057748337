"""Room for many equal instances, called copies: how many more each node can take.

All copies are equal, so what one takes of a node is known beforehand and each rule of
allocation 4 becomes a number of copies.  Only the two nodes of the last copy change.  The rules
are monotone: a copy never makes room elsewhere, so a set of copies that is legal as a whole is
legal in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.rules.candidates import Terms, entry_checks, policy_check
from ganeti_steward.allocators.rules.checks import Check, first_failing
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.quantity import MANY, times_with_rest, times_within
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints, Mask, NodePair
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State


#: Types of the attributes that `Headroom.change` and its like change in place.
_CHANGING: Final = (np.ndarray, set)


class Headroom:
    """How many copies of one instance the nodes have taken, and what they can still take."""

    def __init__(self, state: State, demand: Demand, terms: Terms, *, paired: bool) -> None:
        """``paired``: each copy needs a secondary."""
        frame, now = state.frame, state.now
        forthcoming = demand.instance.forthcoming
        self.paired = paired
        self.group: Ints = frame.group
        """nodes: index of the node group"""
        self._counted = not forthcoming
        self.use = 0 if forthcoming else demand.use
        """MiB a copy takes on its primary"""
        self.reserve = demand.reserve
        """MiB a copy\'s secondary keeps free"""
        self._memory = demand.memory
        policy = [policy_check(frame, demand)]
        self._allowed = _allowed(state, terms, PRIMARY, policy)
        self._allowed_second = _allowed(state, terms, SECONDARY, [])
        if paired and not demand.drbd:
            self._allowed_second[:] = False
        self.slots = _slots(state, demand, forced=False)
        """nodes: copies that disk and spindles allow in either role"""
        self._slots_first = _slots(state, demand, forced=terms.forced)
        self._primary_slots = _primary_slots(state, demand, forced=terms.forced)
        self._places, self._place_room = _hard_places(state, demand)
        self._forced = terms.forced
        self.primaries: Ints = np.zeros(frame.size, np.int64)
        """nodes: copies as primary"""
        self.taken: Ints = np.zeros(frame.size, np.int64)
        """nodes: copies in either role"""
        self.free: Ints = now[quantity.UNALLOCATED].copy()
        """nodes: MiB of unallocated memory"""
        self._free_f: Ints = now[quantity.MEMORY_F].copy()
        self.reserved: Ints = now[quantity.RESERVED].copy()
        """nodes: MiB of N+1 reserve"""
        self._own_reserve: Ints = now[quantity.RESERVED].copy()
        self._fails: Mask = now[quantity.FAILS] > 0
        reserves = frame.reserves
        self._in_reserve: Ints = np.zeros(frame.size, np.int64)
        self._fails_kept: Mask = self._fails.copy()
        self._host_room: Ints = np.full(len(frame.cluster.groups), quantity.UNKNOWN)
        """node groups: MiB of memory that new instances may take"""
        if reserves is not None:
            from ganeti_steward.allocators.state.reserves import host_room  # few clusters need it

            self._host_room = host_room(state)
            self._in_reserve = reserves.memory
            self._fails_kept = quantity.n1_fails(now, self._in_reserve)
        self.kept: Ints = _kept(state) if paired else np.zeros((0, 0), np.int64)
        """primaries x secondaries: MiB kept free; empty where no secondary is needed"""
        self._barred: Mask = np.zeros(frame.size, np.bool_)
        self._barred_second: Mask = np.zeros(frame.size, np.bool_)
        self._barred_pairs: set[NodePair] = set()
        self._scope: Mask = np.ones(frame.size, np.bool_)

    def copy(self) -> Headroom:
        """An independent copy, for trying changes."""
        other = Headroom.__new__(Headroom)
        other.__dict__.update(
            (name, value.copy() if isinstance(value, _CHANGING) else value)
            for name, value in self.__dict__.items()
        )
        return other

    def narrow(self, nodes: Mask) -> None:
        """Place on these nodes only from now on, and forget what was barred."""
        self._scope = nodes
        self._barred = np.zeros_like(nodes)
        self._barred_second = np.zeros_like(nodes)
        self._barred_pairs = set()

    def bar(self, pair: NodePair, role: str) -> None:
        """Do not use the pair again; with a role, not its node in that role at all."""
        if role == PRIMARY:
            self._barred[pair[0]] = True
        elif role == SECONDARY:
            self._barred_second[pair[1]] = True
        else:
            self._barred_pairs.add(pair)

    def as_primary(self) -> Mask:
        """Nodes that can be primary of one more copy."""
        good: Mask = self._allowed & self._scope & ~self._barred
        good &= (self.primaries < self._primary_slots) & (self.taken < self._slots_first)
        good &= self._places @ (self._place_room <= 0) == 0
        if self._counted and not self._forced:
            good &= self._keeps_n1(self.free - self.use, self.reserved)
            good &= (self._host_room[self.group] >= self.use) | (self.use == 0)
        return good

    def _keeps_n1(self, free: Ints, need: Ints) -> Mask:
        """Whether nodes with so much unallocated do not newly fail N+1, with the reserve too."""
        good: Mask = (self._fails | (free > need)) & (
            self._fails_kept | (free - self._in_reserve > need)
        )
        return good

    def as_secondary(self) -> Mask:
        """Nodes that can be secondary of one more copy, as far as the primary does not matter."""
        good: Mask = self._allowed_second & self._scope & ~self._barred_second
        needed = self.reserve + self._in_reserve
        good &= (self.taken < self.slots) & (self._free_f > needed)
        if self._counted:
            good &= self.free > needed
            good &= self._keeps_n1(self.free, self.reserved)
        return good

    def row(self, primary: int, as_secondary: Mask) -> Mask:
        """Which of ``as_secondary`` can go with this primary."""
        good: Mask = as_secondary & (self.group == self.group[primary])
        good[primary] = False
        if self._counted:
            good &= self._keeps_n1(self.free, self.kept[primary] + self.reserve)
        for first, second in self._barred_pairs:
            if first == primary:
                good[second] = False
        return good

    def column(self, secondary: int, as_primary: Mask) -> Mask:
        """Which of ``as_primary`` can go with this secondary, which fits by itself."""
        good: Mask = as_primary & (self.group == self.group[secondary])
        good[secondary] = False
        kept = self.kept[:, secondary] + self.reserve
        if self._counted and not self._fails[secondary]:
            good &= self.free[secondary] > kept
        if self._counted and not self._fails_kept[secondary]:
            good &= self.free[secondary] - self._in_reserve[secondary] > kept
        for first, second in self._barred_pairs:
            if second == secondary:
                good[first] = False
        return good

    def reserved_with(self, primary: int) -> Ints:
        """What each node would have to keep free as secondary of this primary."""
        if not self._counted:
            return self.reserved
        after: Ints = np.maximum(self.reserved, self.kept[primary] + self.reserve)
        return after

    def change(self, pair: NodePair, sign: int) -> None:
        """Place a copy, or take one off again."""
        primary, secondary = pair
        self.primaries[primary] += sign
        self._place_room -= sign * self._places[primary]
        self.taken[primary] += sign
        self.free[primary] -= sign * self.use
        self._free_f[primary] -= sign * self._memory
        self._host_room[self.group[primary]] -= sign * self.use
        if self._forced:
            self._fails[primary] |= self.free[primary] <= self.reserved[primary]
            left = self.free[primary] - self._in_reserve[primary]
            self._fails_kept[primary] |= left <= self.reserved[primary]
        if secondary >= 0:
            self.taken[secondary] += sign
            if self._counted:
                self.kept[primary, secondary] += sign * self.reserve
                least = self._own_reserve[secondary]
                self.reserved[secondary] = max(least, self.kept[:, secondary].max())

    def primaries_left(self) -> Ints:
        """How many more primaries each node can take as things are."""
        left = np.minimum(self._primary_slots - self.primaries, self._slots_first - self.taken)
        if self._counted and self.use and not self._forced:
            for fails, kept in ((self._fails, 0), (self._fails_kept, self._in_reserve)):
                by_memory = (self.free - self.reserved - kept - 1) // self.use
                left = np.minimum(left, np.where(fails, left, by_memory))
            left = np.minimum(left, np.maximum(self._host_room, 0)[self.group] // self.use)
        room = np.where(self._places > 0, self._place_room, MANY)
        left = np.minimum(left, room.min(axis=1, initial=MANY))
        good: Ints = np.where(self._allowed & self._scope & ~self._barred, np.maximum(left, 0), 0)
        return good

    def bound(self) -> int:
        """More copies than this cannot be placed; whether so many can is another question."""
        primary_slots = self.primaries_left()
        if not self.paired:
            return int(primary_slots.sum())
        second = self._allowed_second & self._scope
        slots = np.where(second, np.maximum(self.slots - self.taken, 0), 0)
        total = 0
        for group in np.unique(self.group[self._scope]).tolist():
            mine = self.group == group
            most, room = primary_slots[mine], np.minimum(slots[mine], MANY)
            total += _pairs_bound(most, room, np.maximum(most, room))
        return total


def _pairs_bound(primary_slots: Ints, as_secondary: Ints, either: Ints) -> int:
    """Pairs of different nodes: no node can be in more of them than there are pairs."""
    most = int(min(primary_slots.sum(), as_secondary.sum(), either.sum() // 2))
    while (fewer := int(np.minimum(either, most).sum()) // 2) < most:
        most = fewer
    return most


def _allowed(state: State, terms: Terms, role: str, more: list[Check]) -> Mask:
    """Nodes that no rule forbids that has nothing to do with amounts."""
    checks = [*entry_checks(state.frame, terms), *terms.bans[role], *more]
    allowed: Mask = first_failing(checks, state.frame.size) == 0
    return allowed


def _slots(state: State, demand: Demand, *, forced: bool) -> Ints:
    """nodes: copies that disk and spindles allow, in either role (allocation 4.1, 4.2)."""
    frame, now = state.frame, state.now
    slots = np.full(frame.size, MANY, np.int64)
    if not demand.instance.local:
        return slots
    rows = [(quantity.DISK_F, quantity.SPINDLES_F, quantity.SPINDLE_USE_F, True)]
    if not demand.instance.forthcoming:
        rows.append((quantity.DISK, quantity.SPINDLES, quantity.SPINDLE_USE, False))
    for disk, dedicated, shared, soft in rows:
        if soft and forced:
            continue
        if demand.disk or not demand.elsewhere:
            free = _beyond_reserve(state, disk, forced=forced)
            slots = np.minimum(slots, times_with_rest(free, demand.disk))
        slots = np.minimum(slots, _pool_slots(state, demand, soft, forced=forced))
        spindles = times_with_rest(now[dedicated] + 1, demand.spindles)
        if demand.spindles < 0:
            spindles[:] = 0
        slots = np.where(frame.exclusive, np.minimum(slots, spindles), slots)
        if not forced:
            fitting = times_within(now[shared], frame.spindle_limit, demand.spindle_use)
            slots = np.where(frame.exclusive, slots, np.minimum(slots, fitting))
    return slots


def _beyond_reserve(state: State, row: int, *, forced: bool) -> Ints:
    """nodes: MiB that copies may take of what is free, of memory as primaries."""
    reserves, free = state.frame.reserves, state.now[row]
    left: Ints = free.copy()
    if reserves is not None and not forced:
        memory = row in (quantity.UNALLOCATED, quantity.MEMORY_F)
        left -= reserves.closed if memory else reserves.kept[row]
    return left


def _pool_slots(state: State, demand: Demand, forthcoming: bool, *, forced: bool) -> Ints:
    """nodes: copies that fit in the volume groups apart from the cluster's; 0 where unknown."""
    frame, slots = state.frame, np.full(state.frame.size, MANY, np.int64)
    for name, size in demand.elsewhere.items():
        if name not in frame.pools:
            slots[:] = 0
            continue
        row = quantity.pool_rows(frame.pools.index(name))[forthcoming]
        fitting = times_with_rest(_beyond_reserve(state, row, forced=forced), size)
        slots = np.minimum(slots, np.where(frame.pools_unknown, 0, fitting))
    return slots


def _primary_slots(state: State, demand: Demand, *, forced: bool) -> Ints:
    """nodes: copies that memory and CPUs allow as primaries, without N+1 (allocation 4.1)."""
    frame, now = state.frame, state.now
    primary_slots = np.full(frame.size, MANY, np.int64)
    forthcoming = demand.instance.forthcoming
    if not forthcoming:
        free = _beyond_reserve(state, quantity.UNALLOCATED, forced=forced)
        primary_slots = times_with_rest(free, demand.use)
    if forced:
        return primary_slots
    free = _beyond_reserve(state, quantity.MEMORY_F, forced=False)
    primary_slots = np.minimum(primary_slots, times_with_rest(free, demand.memory))
    for row in (quantity.VCPUS_F,) if forthcoming else (quantity.VCPUS, quantity.VCPUS_F):
        primary_slots = np.minimum(
            primary_slots, times_within(now[row], frame.vcpu_limit, demand.vcpus)
        )
    if demand.exclusion and not forthcoming:
        primary_slots = np.minimum(primary_slots, state.exclusion_tags_taken(demand) == 0)
    return primary_slots


def _hard_places(state: State, demand: Demand) -> tuple[Ints, Ints]:
    """nodes x places of hard rules ``steward:spread``, and how many more each may have."""
    nodes, room = [np.zeros((state.frame.size, 0), np.int64)], [np.zeros(0, np.int64)]
    if demand.services:
        from ganeti_steward.allocators.state.crowding import crowds  # few clusters have them

        hard = [found for found in crowds(state, demand) if found[1].rule.hard]
        nodes += [places.nodes for _, places, _ in hard]
        room += [np.maximum(places.rule.most - numbers, 0) for _, places, numbers in hard]
    return np.concatenate(nodes, axis=1), np.concatenate(room)


def _kept(state: State) -> Ints:
    """primaries x secondaries: MiB kept free; one primary's secondaries lie side by side."""
    return np.ascontiguousarray(state.peers.dense().T)
