"""The brakes of planned maintenance: no healthy node is taken out while anything else is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

from ganeti_steward.core.errors import few
from ganeti_steward.plugins.maintenance.engine.brake_case import (
    RepairCase,
    braked,
    is_under_repair,
)
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.model.incident import MAINTENANCE_PAUSE_TAG, Incident
from ganeti_steward.plugins.model.task import WORK, Held, Task
from ganeti_steward.plugins.model.works import misses_deadline
from ganeti_steward.plugins.model.world import Reported

#: As many causes are named in a sentence.
_SHOWN: Final = 5


def is_requested(incident: Incident) -> bool:
    """Whether it is a maintenance that has not begun; one that only takes back needs no gate."""
    request = incident.maintenance
    waits = incident.active and not incident.state.begun
    return request is not None and not request.worked and waits


def is_blocked(incident: Incident) -> bool:
    """Whether it is a maintenance that cannot go on before a person does something."""
    return incident.maintenance is not None and incident.maintenance.blocked > 0


def gate(case: RepairCase) -> Held | None:
    """No healthy node is taken out while anything else is wrong."""
    if not is_requested(case.incident):
        return None
    own, world = case.node, case.world
    ill = [
        f"incident {incident.uuid} of {incident.node_name} ({incident.action}) is {incident.status}"
        for incident in sorted(world.incidents.values(), key=lambda one: one.uuid)
        if incident.state.avoided and not (incident.maintenance and incident.state.active)
    ]
    silent = [
        f"{node.name} does not answer"
        for node in world.cluster.nodes
        if not (node.offline or node.live) and node.vm_capable
    ]
    reasons = (*ill, *silent, *world.gates, *(world.unclean or ()))
    if not reasons:
        return None
    sentence = f"the maintenance of {own.name} waits: {few(reasons, _SHOWN, '; ')}"
    return braked(case, "gate", sentence, incidents=len(ill), silent=len(silent))


def apart(case: RepairCase) -> Held | None:
    """Two nodes with an instance in common are not away at the same time."""
    if not is_requested(case.incident):
        return None
    away = {
        incident.node_name
        for incident in case.world.incidents.values()
        if incident.node != case.incident.node and is_under_repair(incident)
    }
    shared = sorted(
        f"{instance.name} of {', '.join(sorted(away.intersection(instance.nodes)))}"
        for instance in case.world.instances_on(case.node.name)
        if away.intersection(instance.nodes)
    )
    if not shared:
        return None
    sentence = f"{case.node.name} has {len(shared)} instances in common with nodes that are away: "
    return braked(case, "apart", sentence + ", ".join(shared[:_SHOWN]), instances=len(shared))


def deadline(case: RepairCase) -> Held | None:
    """No maintenance begins that is expected to end after its deadline; one that has begun goes on.

    This never changes by waiting, so a person has to decide.
    """
    request, node = case.incident.maintenance, case.node.name
    if request is None or not is_requested(case.incident):
        return None
    if not misses_deadline(request, case.world.now):
        return None
    zone = timezone(timedelta(seconds=case.utc_offset))
    at = datetime.fromtimestamp(request.deadline // 10**9, zone)
    minutes = f"{request.expected / 60:.0f}"
    takes = f"takes about {minutes} minutes and " if request.expected else ""
    return braked(
        case,
        "deadline",
        f"the maintenance of {node} {takes}would end after its deadline, "
        f"{at.isoformat(sep=' ', timespec='minutes')}: it does not begin; gnt-steward maintenance "
        f"cancel {node}, then request it again with another --by",
        deadline=request.deadline,
        expected=request.expected,
    )


def not_polled(case: RepairCase) -> Held | None:
    """No work begins on a node whose boot is not known, though its agent may know it.

    A reboot that is faster than a poll would not be noticed.  And an agent that does not report
    runs no command.
    """
    task = case.next
    if not (case.incident.maintenance and isinstance(task, Task)):
        return None
    if not (task.step == WORK or task.command):
        return None
    node = case.world.cluster.node(task.agent) if task.agent else case.node
    found, name = case.world.observations.get(node.uuid), node.name
    if found is None:
        seconds = case.config.poll_interval + case.config.poll_time_limit
        why = (
            f"the agent of {name} was not polled since the daemon began, which takes {seconds:g} s"
        )
    elif task.command and not isinstance(found, Reported):
        why = f"the agent of {name} gives no valid report ({found.why}): it must run the command"
    else:
        return None
    return braked(case, "not-reported", f"{why}; held: {task.reason}")


def maintenance_pause(case: RepairCase) -> Held | None:
    """An admin has paused planned maintenance, or that of the node."""
    if not case.incident.maintenance:
        return None
    own = f"the maintenance of {case.node.name}"
    pauses = (("planned maintenance", case.world.cluster_tags), (own, case.node.tags))
    reasons = [
        f"{what} is paused: {reason}"
        for what, tags in pauses
        if (reason := pause_reason(tags, MAINTENANCE_PAUSE_TAG)) is not None
    ]
    return braked(case, "pause", "; ".join(reasons)) if reasons else None
