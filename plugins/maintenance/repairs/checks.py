"""Checks of what the hook ``steward_plan`` returns: nothing reaches Ganeti that collides."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from ganeti_steward.core.hooks.timed_call import sentence, shown
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import OPEN, TAG, UNTAG, Done, Failed, Task, Wait
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.finding import is_name

_HOOK: Final = "steward_plan"

#: A failure of these fails no repair, so no repair is called so.
_OWN_STEPS: Final = (TAG, UNTAG)


class BadPlan(Exception):
    """Something a plugin may not plan; the text says what, without the plugin's name."""


def check_plans(given: object, incident: Incident, world: World) -> None:
    """Raise BadPlan unless this is a list of tasks, or one of Done, Failed and Wait."""
    if not isinstance(given, list | tuple) or isinstance(given, Task | Done | Failed | Wait):
        raise BadPlan(f"{_HOOK} must give a list, not {shown(given)}")
    if not given:
        raise BadPlan(f"{_HOOK} gave an empty list")
    for plan in given:
        if not isinstance(plan, Task | Done | Failed | Wait):
            raise BadPlan(f"gave {shown(plan)}, which is none of Task, Done, Failed and Wait")
        check_text("a reason", plan.reason)
        if isinstance(plan, Task):
            _check_task(plan, incident, world)
        elif len(given) > 1:
            raise BadPlan(f"gave {type(plan).__name__} together with something else")
        if isinstance(plan, Failed):
            _check_unmovable(plan.unmovable)
    if len(given) > 1:
        _check_shared([plan for plan in given if isinstance(plan, Task)], world, incident)


def check_text(what: str, text: object) -> None:
    """Raise BadPlan unless this is a text with something in it; ``what``: what it is."""
    if not isinstance(text, str) or not text:
        raise BadPlan(f"gave {shown(text)} as {what}, not a text")


def _check_unmovable(unmovable: object) -> None:
    if not isinstance(unmovable, list | tuple):
        raise BadPlan(f"gave {shown(unmovable)} as unmovable instances, not a tuple")
    for one in unmovable:
        if not isinstance(one, list | tuple) or len(one) != 2:
            raise BadPlan(f"gave {shown(one)} as an unmovable instance, not its name and a reason")
        check_text("the name of an unmovable instance", one[0])
        check_text("the reason of an unmovable instance", one[1])


def _check_task(task: Task, incident: Incident, world: World) -> None:
    check_text("a step", task.step)
    if task.step in _OWN_STEPS or (task.step == OPEN and not incident.state.reopens):
        raise BadPlan(f"the step {task.step} is the daemon's own, after a repair")
    own = _own(incident, world)
    check_names("node", task.nodes, {node.name for node in world.nodes.values()})
    check_names("instance", task.instances, world.instances)
    if own not in task.nodes:
        raise BadPlan(f"its task leaves out {own}, the node of the incident")
    used = (task.nodes - {own}) & world.reserved_nodes | task.instances & world.reserved_instances
    if used:
        raise BadPlan(f"its task uses what another task uses: {', '.join(sorted(used))}")
    if bool(task.jobs) == bool(task.command):
        raise BadPlan("its task needs either jobs or a command")
    if task.command and not (isinstance(task.command, str) and is_name(task.command)):
        raise BadPlan(f"its command {shown(task.command)} is no name of a command")
    check_jobs(task.jobs)
    if task.each and (len(task.each) != len(task.jobs) or not task.instances >= set(task.each)):
        raise BadPlan("its task does not name one of its instances for each of its jobs")


def _own(incident: Incident, world: World) -> str:
    node = world.nodes.get(incident.node)
    return node.name if node else incident.node_name


def check_names(what: str, names: object, known: Iterable[str]) -> None:
    """Raise BadPlan unless this is a set of known names; ``what``: what they name."""
    if not isinstance(names, frozenset | set):
        raise BadPlan(f"gave {shown(names)} as the {what}s of a task, not a frozenset")
    unknown = sorted(map(shown, names - set(known)))
    if unknown:
        raise BadPlan(f"its task names {what}s that do not exist: {', '.join(unknown)}")


def check_jobs(jobs: object) -> None:
    """Raise BadPlan unless these are jobs that can be handed over."""
    if not isinstance(jobs, list | tuple):
        raise BadPlan(f"gave {shown(jobs)} as jobs, not a list")
    for job in jobs:
        if not isinstance(job, list | tuple) or not job:
            raise BadPlan(f"gave {shown(job)} as a job, not a list of operations")
        for one in job:
            if not isinstance(one, dict) or not isinstance(one.get("OP_ID"), str):
                raise BadPlan(f"gave {shown(one)} as an operation, not an object with OP_ID")
    try:
        json.dumps(jobs, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as err:
        raise BadPlan(f"gave jobs that are not JSON: {sentence(err)}") from None


def _check_shared(tasks: Sequence[Task], world: World, incident: Incident) -> None:
    seen: set[str] = set()
    for task in tasks:
        used = (task.nodes - {_own(incident, world)}) | task.instances
        shared = seen & used
        if shared:
            raise BadPlan(f"two of its tasks share {', '.join(sorted(shared))}")
        seen |= used
