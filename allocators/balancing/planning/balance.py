"""Request type ``balance``: moves that make each node group more even (allocation 12, hbal).

Each group is balanced by itself, the one with the highest score first while moves are limited.
`planning` searches for better places on a `GroupModel` and turns them into jobs each of which
obeys the rules.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.balancing.planning.group import Group
from ganeti_steward.allocators.balancing.planning.jobs import GroupPlan, Limits
from ganeti_steward.allocators.balancing.planning.plan import Planner
from ganeti_steward.allocators.score.score import RESERVED_TOTAL_WEIGHT, Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.opcodes import moves_result

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explained
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
    shown = [plans[at] for at in chosen]
    result = moves_result(
        _moved(shown, cluster), [], [job.job for plan in shown for job in plan.jobs]
    )
    return Answer(
        result, "; ".join(map(_text, shown)) or "no node group", _explained(context, shown)
    )


def _plan(
    state: State, at: int, request: Balance, context: Context, start: tuple[float, Limits]
) -> GroupPlan:
    """``start``: the score of the group, and what may be done."""
    score, limits = start
    members = state.frame.group == at
    least = bound(state, members)
    if not members.any():
        return GroupPlan(at, members, state, (), score, least)
    group = Group(state, at, request, context)
    # The same question has the same answer: random moves are always the same ones.
    jobs = Planner(group, score, least, limits).plan(Random(group.number))
    return GroupPlan(group.number, group.members, group.state, jobs, score, least)


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


def _explained(context: Context, plans: list[GroupPlan]) -> tuple[Explained, ...]:
    if not context.explain:
        return ()
    from ganeti_steward.allocators.balancing.planning.explain import explain  # not on Ganeti's path

    checks = context.options.capacity_checks
    return tuple(explain(plan, capacity=checks) for plan in plans)
