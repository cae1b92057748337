"""From a balancing plan to a `GroupBalance` for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.jobs.job_sets import ways
from ganeti_steward.allocators.score.health import group_health
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.model.explanation import GroupBalance, Move

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.allocators.balancing.planning.jobs import GroupPlan, Planned


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
        health_before=before,
        health_after=after,
    )


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
