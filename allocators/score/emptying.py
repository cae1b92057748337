"""Emptying one node the way hail does: which of its instances find no place (allocation 8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.rules.candidates import policy_check
from ganeti_steward.allocators.rules.checks import (
    first_failing,
    primary_checks,
    room_checks,
    secondary_checks,
)
from ganeti_steward.allocators.score import few_nodes
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import Resident, State

#: Templates that move to another node; the rest but drbd is recreated there.
MOVABLE: Final = frozenset({"diskless", "sharedfile", "rbd", "ext", "gluster"})


class Stuck(NamedTuple):
    """An instance that could not leave its node if that had to be emptied."""

    instance: str
    node: str


def failover_pairs(state: State) -> tuple[Ints, Ints, Mask]:
    """Pairs of nodes by secondary and primary; whether all of a pair can certainly fail over."""
    frame, now, peers = state.frame, state.now, state.peers
    secondary, primary = np.divmod(peers.key, frame.size)
    if not len(peers.key):
        return secondary, primary, np.zeros(0, np.bool_)
    good = now[quantity.UNALLOCATED, secondary] > peers.running
    # A failover copies nothing and changes no node's spindles.
    counted = ~frame.exclusive | ((now[quantity.SPINDLES] >= 0) & frame.spindles_known)
    good &= ~frame.lacks_disk[secondary] & counted[secondary] & counted[primary]
    if any(frame.migration):
        for pair in np.flatnonzero(good).tolist():
            source, target = frame.migration[primary[pair]], frame.accepted[secondary[pair]]
            good[pair] = source <= target
    return secondary, primary, good


def all_leave(state: State, node: int) -> bool | None:
    """Whether all instances certainly leave a node, or certainly not all; None: it has to be tried.

    Only for nodes without instances that are recreated elsewhere.
    """
    residents = state.residents.get(node, ())
    moving = [resident for resident in residents if not resident.demand.drbd]
    if not all(resident.demand.instance.template in MOVABLE for resident in moving):
        return None
    memory = state.now[quantity.UNALLOCATED]
    if len(moving) < len(residents):
        secondary, primary, good = failover_pairs(state)
        mine = primary == node
        if not good[mine].all():
            return None
        memory = memory.copy()
        memory[secondary[mine]] -= state.peers.running[mine]
    sizes = _sizes(memory[_targets(state, node)].tolist(), [one.demand for one in moving])
    if _all_fit(sizes):
        return True
    return False if _too_much(sizes) else None


def evacuate(state: State, node: int) -> frozenset[Stuck]:
    """Empty one node the way hail does; the instances that have no place to go.

    Nothing but hard rules and migration tags stops a move here (allocation 8).
    """
    stuck: list[Resident] = []
    residents = state.residents.get(node, ())
    work = state
    # Where no rule can refuse a failover, the rules are not checked; it takes no room from those to
    # other nodes, only from what has no secondary.
    secondary, primary, good = failover_pairs(state)
    certain = frozenset(secondary[good & (primary == node)].tolist())
    others = [resident for resident in residents if not resident.demand.drbd]
    for resident in residents:
        if resident.demand.drbd and resident.secondary in certain:
            work = _swapped(work, resident) if others else work
        elif resident.demand.drbd:
            work = _try(_failed_over(work, resident), resident, work, stuck)
    moving = [one for one in others if one.demand.instance.template in MOVABLE]
    fixed = [one for one in others if one.demand.instance.template not in MOVABLE]
    demands = [one.demand for one in moving]
    if not fixed and few_nodes.is_for(work, node, demands):
        nodes = few_nodes.FewNodes(work, node, _targets(work, node), demands)
        stuck += [resident for at, resident in enumerate(moving) if nodes.move(at) is None]
    else:
        for at, resident in enumerate(moving):
            memory = work.now[quantity.UNALLOCATED, _targets(work, node)].tolist()
            if not fixed and _all_fit(_sizes(memory, demands[at:])):
                break
            work = _try(_moved(work, resident), resident, work, stuck)
    for resident in sorted(fixed, key=lambda one: -one.demand.memory):
        work = _try(_recreated(work, resident), resident, work, stuck)
    name = state.frame.cluster.nodes[node].name
    return frozenset(Stuck(resident.demand.instance.name, name) for resident in stuck)


def _try(moved: State | None, resident: Resident, before: State, stuck: list[Resident]) -> State:
    if moved is None:
        stuck.append(resident)
        return before
    return moved


def _failed_over(state: State, resident: Resident) -> State | None:
    demand, source, target = resident
    if not state.frame.accepts(source)[target]:
        return None
    left = state.removed(resident)
    size = state.frame.size
    checks = primary_checks(left, demand, left.after_primary(demand), has_copy=True)
    if first_failing(checks, size, forced=True)[target]:
        return None
    after = left.after_secondary(demand, left.peers.row(target))
    checks = secondary_checks(left, demand, after, has_copy=True)
    if first_failing(checks, size, forced=True)[source]:
        return None
    return left.placed(demand, target, source)


def _swapped(state: State, resident: Resident) -> State:
    demand, source, target = resident
    return state.removed(resident).placed(demand, target, source)


class _Sizes(NamedTuple):
    """What instances without a secondary need elsewhere, in units of memory that divide all."""

    uses: list[int]
    """by instance, in the order in which they move"""
    room: list[int]
    """by target node: the most it can take; -1: not even an instance that takes nothing"""


def _sizes(memory: Sequence[int], moving: Sequence[Demand]) -> _Sizes:
    """``memory``: targets: MiB that are unallocated."""
    uses = [demand.use for demand in moving]
    unit = math.gcd(*uses) or 1
    return _Sizes([use // unit for use in uses], [max((free - 1) // unit, -1) for free in memory])


def _all_fit(sizes: _Sizes) -> bool:
    """Whether all certainly find a place, wherever the ones before them go.

    A node that has no room for one of them must have taken some of the ones before it: at least
    the least sum of some of them that leaves too little.  No instance is stuck as long as these
    sums, over all nodes, are more than all that move before it.
    """
    before, sums = 0, 1  # bit n of sums: some of the ones before take n units together
    for use in sizes.uses:
        needed = 0
        for room in sizes.room:
            least = max(room - use + 1, 0)
            larger = sums >> least
            needed += least + (larger & -larger).bit_length() - 1
            if not larger or needed > before:
                break
        else:
            return False
        before += use
        sums |= sums << use
    return True


def _too_much(sizes: _Sizes) -> bool:
    """Whether the instances are certainly too many: each node filled as well as any of them can."""
    sums = 1
    for use in sizes.uses:
        sums |= sums << use
    most = sum((sums & (2 << max(room, 0)) - 1).bit_length() - 1 for room in sizes.room)
    return most < sum(sizes.uses)


def _targets(state: State, node: int) -> Mask:
    """The other nodes that take instances without a secondary from this one."""
    targets: Mask = (state.frame.group == state.frame.group[node]) & state.frame.accepts(node)
    targets[node] = False
    return targets


def _moved(state: State, resident: Resident) -> State | None:
    targets = _targets(state, resident.primary)
    mates = state.frame.group == state.frame.group[resident.primary]
    return _on_best(state.removed(resident), resident, targets, mates)


def _recreated(state: State, resident: Resident) -> State | None:
    allowed = ~policy_check(state.frame, resident.demand).failing
    allowed &= state.frame.group == state.frame.group[resident.primary]
    if resident.demand.elsewhere:
        allowed &= ~state.frame.pools_unknown
    return _on_best(state, resident, allowed, np.ones(state.frame.size, np.bool_))


def _on_best(state: State, resident: Resident, allowed: Mask, scope: Mask) -> State | None:
    """With the instance on the best of these nodes; ``scope``: the nodes in the score."""
    demand = resident.demand
    after = state.after_primary(demand)
    checks = room_checks(state, demand, after)
    fits = allowed & (first_failing(checks, state.frame.size, forced=True) == 0)
    fits[resident.primary] = False
    nodes = np.flatnonzero(fits)
    if len(nodes) < 2:
        return state.placed(demand, int(nodes[0])) if len(nodes) else None
    scorer = Scorer(state, scope)
    extra: Floats = scorer.tag_costs(demand)[nodes]
    scores = scorer.one(nodes, after[:, nodes], extra)
    best = nodes[len(scores) - 1 - int(scores[::-1].argmin())]
    return state.placed(demand, int(best))
