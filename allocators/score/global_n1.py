"""The capacity test: can every node still be emptied by itself? (allocation 8)

hail tests the result of an allocation; here the question is whether the placement makes it
*worse*: no instance may become stuck on its node that was not stuck before.  On a
cluster that passes beforehand both questions have the same answer, and one that does not
(a dead node that is still the secondary of an instance) can take instances all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.rules.checks import policy_fault
from ganeti_steward.allocators.score.emptying import (
    MOVABLE,
    Stuck,
    all_leave,
    evacuate,
    failover_pairs,
)
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ganeti_steward.allocators.score.ranked_places import RankedPlace
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import Resident, State, TagCounts

#: Nodes whose moves are tested together: arrays of these x all nodes take most of the memory.
_BLOCK: Final = 128

#: Nodes with the most free memory that are tried before all others.
_ROOMY: Final = 128

#: Bytes of figures of states that are kept for finding the same state again.
_KEPT: Final = 16 << 20


class _Rest(NamedTuple):
    """What the instances of a node without a drbd secondary need elsewhere."""

    use: int
    """the largest memory among them"""
    use_sum: int
    disk: int
    """the largest disk; -1 when none has local storage"""
    disk_sum: int
    """-1 likewise"""
    spindles: int
    """the most dedicated spindles among them; 0 when no node of the group has any"""
    spindles_sum: int
    plain: bool
    """whether memory, disk and spindles are all that can stop them"""


class _KnownStates:
    """What was stuck on a node in states of one frame: many tests end in a state tested before."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, bytes], list[tuple[_Placed, frozenset[Stuck]]]] = {}
        self._kept = 0

    def stuck(self, state: State, node: int) -> frozenset[Stuck]:
        """`evacuate`, once for each state."""
        peers = state.peers
        figures = b"".join(
            part.tobytes() for part in (state.now, peers.key, peers.reserved, peers.running)
        )
        placed = _Placed(state.residents.get(node, ()), state.tag_counts)
        found = self._found.setdefault((node, figures), [])
        for known, stuck in found:
            if known == placed:
                return stuck
        stuck = evacuate(state, node)
        self._kept += len(figures)
        if self._kept > _KEPT:
            self._found, self._kept = {}, 0
        else:
            found.append((placed, stuck))
        return stuck


class _Placed(NamedTuple):
    residents: tuple[Resident, ...]
    tag_counts: TagCounts


class CapacityTest:
    """Compares placements with the state before them."""

    def __init__(self, before: State, nodes: Mask) -> None:
        """``nodes``: those that must be evacuable (the cluster, or the named group)."""
        self._before = before
        self._nodes = nodes
        self._stuck: dict[int, frozenset[Stuck]] = {}
        self._rests: dict[int, tuple[tuple[Resident, ...], _Rest | None]] = {}
        self._known = _KnownStates()
        self._times_worse: dict[int, int] = {}
        """node -> how many states were worse for what is stuck there"""
        self.moves = 0
        """how many moves were tried so far, of instances off nodes: what tests cost"""
        self._judged: tuple[State, tuple[int, ...], dict[int, frozenset[Stuck]]] | None = None
        """the state tested last, the nodes changed for it, and what was stuck on each node tried"""

    def following(self, state: State) -> CapacityTest:
        """The same test from another state on, best from the one tested last."""
        following = CapacityTest(state, self._nodes)
        following._rests, following._known = self._rests, self._known
        if self._judged is not None and self._judged[0] is state:
            _, changed, found = self._judged
            following._stuck = {
                node: stuck
                for node, stuck in self._stuck.items()
                if not self._concerns(state, node, changed)
            }
            following._stuck.update(found)
        return following

    @staticmethod
    def _concerns(state: State, node: int, changed: tuple[int, ...]) -> bool:
        """Whether changes of other nodes may change what is stuck on one."""
        residents = state.residents.get(node, ())
        return node in changed or not all(
            one.demand.drbd and one.secondary not in changed for one in residents
        )

    def newly_stuck(
        self, state: State, changed: tuple[int, ...], exempt: frozenset[str] = frozenset()
    ) -> list[Stuck]:
        """The instances of the first node that gets worse; empty when none does.

        ``changed``: the nodes whose figures differ from a state that is no worse; ``exempt``:
        instances that do not count.
        """
        for node in self._to_try(state, changed):
            worse = self._worse(state, node, all_leave(state, node))
            counted = sorted(one for one in worse if one.instance not in exempt)
            if counted:
                return counted
        return []

    def is_worse(self, state: State, changed: tuple[int, ...]) -> bool:
        """Whether `newly_stuck` finds any, often without trying where each instance goes."""
        unsure = []
        for node in self._to_try(state, changed):
            leave = all_leave(state, node)
            if leave is False and not self._stuck_before(node):
                return True
            if not leave:
                unsure.append(node)
        # What got worse before is likely to get worse again, and one is enough.
        for node in sorted(unsure, key=lambda one: -self._times_worse.get(one, 0)):
            if self._worse(state, node, None):
                self._times_worse[node] = self._times_worse.get(node, 0) + 1
                return True
        return False

    def _to_try(self, state: State, changed: tuple[int, ...]) -> list[int]:
        self._judged = (state, changed, {})
        to_try: list[int] = np.flatnonzero(self._uncertain(state, changed) & self._nodes).tolist()
        return to_try

    def _worse(self, state: State, node: int, leave: bool | None) -> frozenset[Stuck]:
        """What is stuck on a node that was not before; ``leave``: see `all_leave`."""
        assert self._judged is not None
        stuck = self._evacuate(state, node, leave)
        self._judged[2][node] = stuck
        return stuck - self._stuck_before(node) if stuck else stuck

    def stuck(self) -> list[Stuck]:
        """All instances that could not leave their node as it is now."""
        every = tuple(range(self._before.frame.size))
        uncertain = np.flatnonzero(self._uncertain(self._before, every) & self._nodes)
        return sorted(one for node in uncertain.tolist() for one in self._stuck_before(node))

    def is_stuck(self, instance: str, node: int) -> bool:
        """Whether an instance could not leave this node as it is now."""
        return any(one.instance == instance for one in self._stuck_before(node))

    def _stuck_before(self, node: int) -> frozenset[Stuck]:
        if node not in self._stuck:
            leave = all_leave(self._before, node)
            self._stuck[node] = self._evacuate(self._before, node, leave)
        return self._stuck[node]

    def _evacuate(self, state: State, node: int, leave: bool | None) -> frozenset[Stuck]:
        self.moves += len(state.residents.get(node, ()))
        return frozenset() if leave else self._known.stuck(state, node)

    def _uncertain(self, state: State, changed: tuple[int, ...]) -> Mask:
        """Nodes that have to be tried: all others are certainly no worse."""
        uncertain = ~_certain_failovers(state)
        for node in np.flatnonzero(uncertain).tolist():
            # What is stuck there because of other nodes was stuck before.
            uncertain[node] = node in changed or any(
                resident.demand.drbd and resident.secondary in changed
                for resident in state.residents.get(node, ())
            )
        sources, rests = [], []
        for node, residents in state.residents.items():
            rest = self._rest(state, node, residents)
            if rest is not None:
                sources.append(node)
                rests.append(rest)
        if rests:
            uncertain[sources] |= ~_certain_moves(state, np.array(sources), rests)
        return uncertain

    def _rest(self, state: State, node: int, residents: tuple[Resident, ...]) -> _Rest | None:
        # Placements share the tuples of all nodes they do not touch.
        known = self._rests.get(node)
        if known is None or known[0] is not residents:
            known = self._rests[node] = (residents, _rest_of(state, node, residents))
        return known[1]


def _rest_of(state: State, node: int, residents: tuple[Resident, ...]) -> _Rest | None:
    demands = [resident.demand for resident in residents if not resident.demand.drbd]
    if not demands:
        return None
    frame = state.frame
    local = [demand.disk for demand in demands if demand.instance.local]
    exclusive = {bool(one) for one in frame.exclusive[frame.group == frame.group[node]]}
    policy = frame.cluster.groups[frame.group[node]].policy
    # Those of disks elsewhere count as well, as with hail, but stop nothing.
    spindles = [demand.spindles for demand in demands if True in exclusive]
    return _Rest(
        use=max(demand.use for demand in demands),
        use_sum=sum(demand.use for demand in demands),
        disk=max(local, default=-1),
        disk_sum=sum(local) if local else -1,
        spindles=max(spindles, default=0),
        spindles_sum=sum(spindles),
        # Only an instance that is recreated has to keep to the policy.
        plain=(not local or min(spindles, default=0) >= 0)
        and not any(demand.elsewhere for demand in demands)
        and not any(
            policy_fault(demand.instance, policy, exclusive=storage)
            for demand in demands
            if demand.instance.template not in MOVABLE
            for storage in exclusive
        ),
    )


def _certain_failovers(state: State) -> Mask:
    """Nodes whose drbd instances can certainly all fail over."""
    _, primary, good = failover_pairs(state)
    certain = np.ones(state.frame.size, np.bool_)
    certain[primary[~good]] = False
    return certain


def _certain_moves(state: State, source: Ints, rests: list[_Rest]) -> Mask:
    """Nodes whose other instances certainly find a place, whichever is chosen for each.

    A node is closed to the largest instance only when less than that is left of its memory, its
    disk or its dedicated spindles.  To close all of them takes more than all the instances have; so
    as long as the room beyond one largest instance adds up to more than their sum, none is stuck.
    With several resources each node may be closed by the one that is cheapest to exhaust,
    therefore the shares of their sums are compared with the number of resources.
    """
    sure = np.zeros(len(source), np.bool_)
    for rows, targets in _parts(state, source):
        left = rows[~sure[rows]]
        for block in (left[at : at + _BLOCK] for at in range(0, len(left), _BLOCK)):
            parts = [rests[row] for row in block.tolist()]
            sure[block] = _certain_block(state, source[block], parts, targets)
    return sure


def _parts(state: State, source: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Rows of ``source`` and nodes to look for room on, until it is enough or there are no more.

    In a large group the nodes with the most free memory are nearly always enough.
    """
    frame, rows = state.frame, np.arange(len(source))
    if frame.size <= _ROOMY:
        yield rows, np.arange(frame.size)
        return
    for group in np.unique(frame.group[source]).tolist():
        mates, mine = np.flatnonzero(frame.group == group), rows[frame.group[source] == group]
        if len(mates) > _ROOMY:
            yield mine, mates[np.argsort(-state.now[quantity.UNALLOCATED][mates])[:_ROOMY]]
        yield mine, mates


def _certain_block(state: State, source: Ints, rests: list[_Rest], targets: Ints) -> Mask:
    """The same for some nodes, with room on ``targets`` alone."""
    frame, now = state.frame, state.now
    row, column = np.full((2, frame.size), -1)
    row[source], column[targets] = np.arange(len(source)), np.arange(len(targets))
    # The drbd instances of the source have gone to their secondaries before.
    secondary, primary = np.divmod(state.peers.key, frame.size)
    mine = (row[primary] >= 0) & (column[secondary] >= 0)
    memory = np.repeat(now[[quantity.UNALLOCATED]][:, targets], len(source), axis=0)
    memory[row[primary[mine]], column[secondary[mine]]] -= state.peers.running[mine]
    disk = now[quantity.DISK][targets]
    figures = np.array([rest[:6] for rest in rests], np.int64)
    use, use_sum, largest, disk_sum, spindles, spindles_sum = figures.T[:, :, None]
    mates = (frame.group[source, None] == frame.group[targets]) & (source[:, None] != targets)
    if any(frame.migration):
        mates &= np.array([frame.accepts(node)[targets] for node in source.tolist()])
    mates &= np.array([rest.plain for rest in rests])[:, None]
    # Nodes that share their spindles take any number of them here.
    free = np.where(frame.exclusive, now[quantity.SPINDLES], quantity.UNKNOWN)[targets]
    one = mates & (memory > use_sum) & ((disk > disk_sum) | (disk_sum < 0))
    one &= (free >= spindles_sum) | (disk_sum < 0)
    by_memory = np.maximum(memory - use, 0) / np.maximum(use_sum, 1)
    by_disk = np.maximum(disk - largest, 0) / np.maximum(disk_sum, 1)
    by_disk = np.where(disk_sum < 0, np.inf, by_disk)
    by_spindles = np.maximum(free - spindles + 1, 0) / np.maximum(spindles_sum, 1)
    by_spindles = np.where(disk_sum < 0, np.inf, by_spindles)
    room = (np.minimum(np.minimum(by_memory, by_disk), by_spindles) * mates).sum(axis=1)
    enough = np.where(disk_sum[:, 0] < 0, 1.0, 2.0 + frame.dedicated)
    sure: Mask = one.any(axis=1) | (room > enough)
    return sure


class PlaceFilter:
    """Passes places on, best first, until one passes the capacity test.

    Where a primary (or a secondary) alone makes things worse, all its other pairs are
    passed over without a test.
    """

    def __init__(self, test: CapacityTest, state: State, demand: Demand) -> None:
        self._test, self._state, self._demand = test, state, demand
        self._bad: set[tuple[int, bool]] = set()
        self.refused = 0
        """places that failed or were passed over"""
        self._last: tuple[State, RankedPlace] | None = None
        self.failing_role = ""
        """the role in which its node alone makes things worse; empty when it takes both"""

    def passes(self, place: RankedPlace) -> State | None:
        """The state after taking the place, None when it fails the test."""
        if (place.primary, True) in self._bad or (place.secondary, False) in self._bad:
            self.refused += 1
            return None
        after = self._state.placed(self._demand, place.primary, place.secondary)
        if not self._test.is_worse(after, (place.primary, place.secondary)):
            return after
        self.refused += 1
        self._last = (after, place)
        self.find_failing_role(place)
        return None

    def last(self) -> list[Stuck]:
        """What got stuck at the last failed place."""
        if self._last is None:
            return []
        after, place = self._last
        return self._test.newly_stuck(after, (place.primary, place.secondary))

    def find_failing_role(self, place: RankedPlace) -> None:
        """Set `failing_role` for a place that fails."""
        self.failing_role = PRIMARY if place.secondary < 0 else ""
        if place.secondary < 0:
            return
        for node, first, after in (
            (place.primary, True, self._state.after_primary(self._demand)),
            (place.secondary, False, self._state.after_secondary(self._demand, 0)),
        ):
            if self._test.is_worse(self._state.touched(node, after[:, [node]]), (node,)):
                self._bad.add((node, first))
                self.failing_role = PRIMARY if first else SECONDARY
                return
