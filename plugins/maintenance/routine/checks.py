"""Checks of what the hook ``steward_routine`` returns."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti_steward.core.maintenance.task import RoutinePlan, Task
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.plugins.maintenance.repairs.checks import (
    BadPlan,
    check_jobs,
    check_names,
    check_text,
)


def check_routine(given: Sequence[RoutinePlan], world: World) -> None:
    """Raise BadPlan unless these are tasks and waits for this cluster."""
    for plan in given:
        check_text("a reason", plan.reason)
        if isinstance(plan, Task):
            _check_task(plan, world)


def _check_task(task: Task, world: World) -> None:
    check_text("a step", task.step)
    check_names("node", task.nodes, {node.name for node in world.cluster.nodes})
    check_names("instance", task.instances, world.instances)
    if task.command or not task.jobs:
        raise BadPlan("its task needs jobs, and no command")
    check_jobs(task.jobs)
