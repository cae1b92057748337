"""Request type ``balance``: moves that make each node group more even (allocation 12, hbal).

Each group is balanced by itself, the one with the highest score first while moves are limited.
`planning` searches for better places on a `GroupModel` and turns them into jobs each of which
obeys the rules.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.balancing.planning.group import GroupSearch
from ganeti_steward.allocators.balancing.planning.jobs import GroupPlan, Limits, Planned
from ganeti_steward.allocators.balancing.planning.plan import GroupPlanner
from ganeti_steward.allocators.balancing.planning.repairs import Repairs
from ganeti_steward.allocators.jobs.job_sets import ways
from ganeti_steward.allocators.jobs.operations import moves_result
from ganeti_steward.allocators.placement.info import listed
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.score.score import RESERVED_TOTAL_WEIGHT, Scorer
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.explanation import Explained, GroupBalance, GroupHealth, Move

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Balance


def balance(request: Balance, cluster: Cluster, context: Context) -> Outcome:
    """Answer with the moves in the order in which they must be done."""
    state = load(cluster, None, context.options.kvm_memory)
    chosen = [
        at
        for at, group in enumerate(cluster.groups)
        if request.groups is None or group.uuid in request.groups
    ]
    scores = {at: Scorer(state, state.frame.group == at).score for at in chosen}
    left = Limits(
        np.inf if request.max_moves is None else request.max_moves,
        np.inf if request.max_copy is None else request.max_copy * 1024,
    )
    plans = dict[int, GroupPlan]()
    for at in sorted(chosen, key=lambda at: -scores[at]):
        plans[at] = _plan(state, at, request, context, (scores[at], left))
        left = _left(left, plans[at])
        if state.frame.spread:
            # What a place has of a service depends on all groups, so one plan follows another.
            state = plans[at].after
    shown = list(plans.values()) if state.frame.spread else [plans[at] for at in chosen]
    result = moves_result(
        _moved(shown, cluster), [], [job.job for plan in shown for job in plan.jobs]
    )
    explanations: tuple[Explained, ...] = ()
    if context.explain:
        checks = context.options.capacity_checks
        explanations = tuple(explain(plan, capacity=checks) for plan in shown)
    return Answer(result, "; ".join(map(_text, shown)) or "no node group", explanations)


def _plan(
    state: State, at: int, request: Balance, context: Context, start: tuple[float, Limits]
) -> GroupPlan:
    """``start``: the score of the group, and what may be done."""
    score, limits = start
    members = state.frame.group == at
    least = bound(state, members)
    if not members.any():
        return GroupPlan(at, members, state, (), score, least)
    group = GroupSearch(state, at, request, context)
    planner: GroupPlanner | Repairs = GroupPlanner(group, score, least, limits)
    # The same question has the same answer: random moves are always the same ones.
    jobs = planner.plan(Random(at))
    if request.only_repairs:
        planner = Repairs(group, limits, jobs)
        jobs = planner.plan(Random(at))
    plan = GroupPlan(at, members, state, jobs, score, least)
    if not planner.refused or not context.explain:
        return plan
    options = context.options._replace(capacity_checks=False)
    unchecked = _plan(state, at, request, context._replace(options=options), start)
    return plan._replace(unchecked=unchecked.score_after)


def _left(limits: Limits, plan: GroupPlan) -> Limits:
    """What is left for other groups."""
    copied = sum(one.copied for one in plan.jobs)
    return Limits(limits.jobs - len(plan.jobs), limits.mib - copied)


def _moved(plans: list[GroupPlan], cluster: Cluster) -> list[tuple[str, str, list[str]]]:
    return [
        (
            job.resident.demand.instance.name,
            cluster.groups[plan.group].name,
            list(plan.before.frame.node_names(job.place)),
        )
        for plan in plans
        for job in plan.jobs
    ]


def _text(plan: GroupPlan) -> str:
    name = plan.before.frame.cluster.groups[plan.group].name
    return (
        f"group {name}: {len(plan.jobs)} moves, score {plan.score_before:.8f} to "
        f"{plan.score_after:.8f}, at best {plan.bound:.8f}"
        + "".join(f" ({note})" for note in _node_notes(plan))
    )


def bound(state: State, members: Mask) -> float:
    """The score no placement of a group's instances is below (allocation 5)."""
    memory = np.where(np.isinf(state.frame.memory), 0.0, state.frame.memory)[members]
    if len(memory) < 2:
        return 0.0
    total, most = float(memory.sum()), float(memory.max())
    if total <= most:
        return 0.0
    secondary = state.peers.key // state.frame.size
    kept = float(state.peers.reserved[members[secondary]].sum())
    return RESERVED_TOTAL_WEIGHT * (kept / (total - most) - kept / total)


def explain(plan: GroupPlan, *, capacity: bool) -> GroupBalance:
    """The plan with the score after each job, and what is wrong before and after it.

    ``capacity``: whether to look for instances that could not leave their node.
    """
    before = group_health(plan.before, plan.members, capacity=capacity)
    after = before
    if plan.jobs:
        after = group_health(plan.after, plan.members, capacity=capacity)
    return GroupBalance(
        group=plan.before.frame.cluster.groups[plan.group].name,
        score_before=plan.score_before,
        score_after=plan.score_after,
        bound=plan.bound,
        moves=_moves(plan),
        notes=_notes(plan),
        health_before=before,
        health_after=after,
    )


def _notes(plan: GroupPlan) -> tuple[str, ...]:
    """Where disks may have no room; that the capacity test refused moves, and what it costs."""
    notes = _node_notes(plan)
    if plan.unchecked is None:
        return (*notes,)
    lower = plan.score_after - plan.unchecked
    less = (
        f"the score would be {lower:.2g} lower" if lower > TOLERANCE else "no plan found is better"
    )
    return (*notes, f"the capacity test refused moves; without it (--no-capacity-checks) {less}")


def _node_notes(plan: GroupPlan) -> list[str]:
    unsure = {
        "with less disk in use than their instances have": plan.doubtful_targets,
        "of which the free space of their volume groups is not known": plan.unknown_targets,
    }
    notes = [
        f"disks are copied to nodes {why}: {listed(names)}"
        for why, names in unsure.items()
        if names
    ]
    frame = plan.before.frame
    suspects = np.flatnonzero(frame.suspect & frame.usable & plan.members).tolist()
    if suspects:
        notes.append(f"nothing is moved to suspect nodes: {listed(frame.node_names(suspects))}")
    return notes


def _moves(plan: GroupPlan) -> tuple[Move, ...]:
    before = Scorer(plan.before, plan.members).components()
    moves = []
    for job in plan.jobs:
        now = Scorer(job.after, plan.members).components()
        moves.append(_move(plan, job, _lowered(before, now)))
        before = now
    return tuple(moves)


def _lowered(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """The component of the score that fell most; empty when none did."""
    name = min(now, key=lambda one: now[one] - before[one])
    return name if now[name] < before[name] - TOLERANCE else ""


def _move(plan: GroupPlan, job: Planned, lowers: str) -> Move:
    frame, instance = plan.before.frame, job.resident.demand.instance
    return Move(
        instance=instance.name,
        before=frame.node_names(job.resident.nodes),
        after=frame.node_names(job.place),
        copied=round(job.copied),
        score=job.score,
        how=ways(job.job, instance),
        lowers=lowers,
    )


def group_health(state: State, nodes: Mask, *, capacity: bool = True) -> GroupHealth:
    """What is wrong with these nodes and what lives on them.

    ``capacity``: whether to look for instances that could not leave their node.
    """
    frame, now = state.frame, state.now
    names = [node.name for node in frame.cluster.nodes]

    def named(which: Mask) -> tuple[str, ...]:
        return tuple(names[i] for i in np.flatnonzero(which & nodes).tolist())

    unusable = nodes & ~frame.usable
    residents = [resident for mine in state.residents.values() for resident in mine]
    primaries = sorted(r.demand.instance.name for r in residents if unusable[r.primary])
    secondaries = sorted(
        r.demand.instance.name for r in residents if r.secondary >= 0 and unusable[r.secondary]
    )
    return GroupHealth(
        n1_nodes=named(frame.usable & (now[quantity.FAILS] > 0)),
        clashing=named(now[quantity.CLASHES] > 0),
        primaries=tuple(primaries),
        secondaries=tuple(secondaries),
        stuck=_stuck(state, nodes) if capacity else None,
    )


def _stuck(state: State, nodes: Mask) -> tuple[tuple[str, str], ...]:
    return tuple((one.instance, one.node) for one in CapacityTest(state, nodes).stuck())
