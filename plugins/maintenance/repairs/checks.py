"""Checks of what the hook ``steward_plan`` returns: nothing reaches Ganeti that collides.

That all values are of their types was checked when they left the process of the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import OPEN, TAG, UNTAG, Failed, Plan, Task
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.core.model.opcodes import Job

#: A failure of these fails no repair, so no repair is called so.
_OWN_STEPS: Final = (TAG, UNTAG)


class BadPlan(Exception):
    """Something a plugin may not plan; the text says what, without the plugin's name."""


def check_plans(given: Sequence[Plan], incident: Incident, world: World) -> None:
    """Raise BadPlan unless these are tasks, or one of Done, Failed and Wait."""
    if not given:
        raise BadPlan("steward_plan gave an empty list")
    for plan in given:
        check_text("a reason", plan.reason)
        if isinstance(plan, Task):
            _check_task(plan, incident, world)
        elif len(given) > 1:
            raise BadPlan(f"gave {type(plan).__name__} together with something else")
        if isinstance(plan, Failed):
            for name, reason in plan.unmovable:
                check_text("the name of an unmovable instance", name)
                check_text("the reason of an unmovable instance", reason)
    if len(given) > 1:
        _check_shared([plan for plan in given if isinstance(plan, Task)], world, incident)


def check_text(what: str, text: str) -> None:
    """Raise BadPlan unless there is something in a text; ``what``: what it is."""
    if not text:
        raise BadPlan(f"gave '' as {what}, not a text")


def _check_task(task: Task, incident: Incident, world: World) -> None:
    check_text("a step", task.step)
    if task.step in _OWN_STEPS or (task.step == OPEN and not incident.state.reopens):
        raise BadPlan(f"the step {task.step} is the daemon's own, after a repair")
    own = _own(incident, world)
    check_names("node", task.nodes, {node.name for node in world.cluster.nodes})
    check_names("instance", task.instances, world.instances)
    if own not in task.nodes:
        raise BadPlan(f"its task leaves out {own}, the node of the incident")
    used = (task.nodes - {own}) & world.reserved_nodes | task.instances & world.reserved_instances
    if used:
        raise BadPlan(f"its task uses what another task uses: {', '.join(sorted(used))}")
    if bool(task.jobs) == bool(task.command):
        raise BadPlan("its task needs either jobs or a command")
    if task.command and not is_name(task.command):
        raise BadPlan(f"its command {shown(task.command)} is no name of a command")
    check_jobs(task.jobs)
    if task.each and (len(task.each) != len(task.jobs) or not task.instances >= set(task.each)):
        raise BadPlan("its task does not name one of its instances for each of its jobs")


def _own(incident: Incident, world: World) -> str:
    node = world.nodes.get(incident.node)
    return node.name if node else incident.node_name


def check_names(what: str, names: frozenset[str], known: Iterable[str]) -> None:
    """Raise BadPlan unless all these names are known; ``what``: what they name."""
    unknown = sorted(map(shown, names - set(known)))
    if unknown:
        raise BadPlan(f"its task names {what}s that do not exist: {', '.join(unknown)}")


def check_jobs(jobs: Sequence[Job]) -> None:
    """Raise BadPlan unless these are jobs that can be handed over."""
    for job in jobs:
        if not job:
            raise BadPlan(f"gave {shown(job)} as a job, not a list of operations")
        for one in job:
            if not isinstance(one.get("OP_ID"), str):
                raise BadPlan(f"gave {shown(one)} as an operation, not an object with OP_ID")


def _check_shared(tasks: Sequence[Task], world: World, incident: Incident) -> None:
    seen: set[str] = set()
    for task in tasks:
        used = (task.nodes - {_own(incident, world)}) | task.instances
        shared = seen & used
        if shared:
            raise BadPlan(f"two of its tasks share {', '.join(sorted(shared))}")
        seen |= used
