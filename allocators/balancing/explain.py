"""From a balancing plan to a `GroupBalance` for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.score.health import group_health
from ganeti_steward.core.ganeti.job_sets import ways
from ganeti_steward.core.model.explanation import GroupBalance, Move

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.schedule import GroupPlan, Planned


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
        moves=tuple(_move(plan, job) for job in plan.jobs),
        health_before=before,
        health_after=after,
    )


def _move(plan: GroupPlan, job: Planned) -> Move:
    frame, instance = plan.before.frame, job.resident.demand.instance
    return Move(
        instance=instance.name,
        before=frame.node_names(job.resident.nodes),
        after=frame.node_names(job.place),
        copied=job.copies * instance.disk_space,
        score=job.score,
        how=ways(job.job, instance),
    )
