"""Checks of what the hook ``steward_routine`` returns."""

from __future__ import annotations

from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.maintenance.task import Task, Wait
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.plugins.maintenance.repairs.checks import (
    BadPlan,
    check_jobs,
    check_names,
    check_text,
)

_HOOK = "steward_routine"


def check_routine(given: object, world: World) -> None:
    """Raise BadPlan unless this is a list of tasks and waits for this cluster."""
    if not isinstance(given, list | tuple) or isinstance(given, Task | Wait):
        raise BadPlan(f"{_HOOK} must give a list, not {shown(given)}")
    for plan in given:
        if not isinstance(plan, Task | Wait):
            raise BadPlan(f"gave {shown(plan)}, which is neither Task nor Wait")
        check_text("a reason", plan.reason)
        if not isinstance(plan.subject, str):
            raise BadPlan(f"gave {shown(plan.subject)} as a subject, not a text")
        if isinstance(plan, Task):
            _check_task(plan, world)


def _check_task(task: Task, world: World) -> None:
    check_text("a step", task.step)
    check_names("node", task.nodes, {node.name for node in world.nodes.values()})
    check_names("instance", task.instances, world.instances)
    if task.command or not task.jobs:
        raise BadPlan("its task needs jobs, and no command")
    check_jobs(task.jobs)
