"""The brakes of planned maintenance: no healthy node is taken out while anything else is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

from ganeti_steward.core.errors import few
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.brake_case import (
    BrakeCase,
    RepairCase,
    braked,
    held_task,
    is_under_repair,
)
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.model.incident import (
    MAINTENANCE_PAUSE_TAG,
    OPT_OUT_TAG,
    Incident,
    Maintenance,
)
from ganeti_steward.plugins.model.task import MASTER_FAILOVER, WORK, Held, Task
from ganeti_steward.plugins.model.works import misses_deadline, runs_on
from ganeti_steward.plugins.model.world import Reported, World

#: As many causes are named in a sentence.
_SHOWN: Final = 5

#: Seconds for which nothing is begun or recorded while another node becomes the master.
HANDOVER_LIMIT: Final = 300

#: Seconds a clock may differ where ``clock-limit`` has none.
_CLOCK_LIMIT: Final = 30

_SECOND: Final = 10**9


def is_requested(incident: Incident) -> bool:
    """Whether it is a maintenance that has not begun; one that only takes back needs no gate."""
    request = incident.maintenance
    waits = incident.active and not incident.state.begun
    return request is not None and not request.worked and waits


def is_blocked(incident: Incident) -> bool:
    """Whether it is a maintenance that cannot go on before a person does something."""
    return incident.maintenance is not None and incident.maintenance.blocked > 0


def wants_handover(world: World) -> bool:
    """Whether a maintenance waits that may have another node made the master."""
    return any(
        node.master and incident.maintenance and incident.maintenance.with_master
        for incident in world.incidents.values()
        if is_requested(incident) and (node := world.nodes.get(incident.node))
    )


def handed_over_to(world: World) -> str:
    """The name of the node that is becoming the master, by a request of this daemon; or empty.

    After `HANDOVER_LIMIT` the daemon does not wait for the answer any more.
    """
    found = (
        runs_on(incident, submission)
        for incident in world.incidents.values()
        for submission in incident.open
        if submission.step == MASTER_FAILOVER
        and 0 <= world.now - submission.at < HANDOVER_LIMIT * _SECOND
    )
    return next(found, "")


def handing_over(case: BrakeCase) -> Held | None:
    """Nothing is begun while another node becomes the master: it would be cut in half."""
    name = handed_over_to(case.world)
    sentence = f"{name} was requested to become the master, and has not answered yet"
    return braked(case, "master", f"{sentence}; {held_task(case)}") if name else None


class Successor(NamedTuple):
    """The node that is made the master, or why none is."""

    name: str = ""
    why: str = ""
    """one sentence; empty where one is, or none may be"""


def successor(world: World, config: Maintd, incident: Incident) -> Successor:
    """Which candidate is made the master for the maintenance of the master."""
    request = incident.maintenance
    if request is None or not request.with_master:
        return Successor()
    if request.handover:
        return Successor(why=request.handover)
    candidates = [
        (node, found)
        for node in world.cluster.nodes
        if node.master_candidate
        and not node.master
        and isinstance(found := world.observations.get(node.uuid), Reported)
        and found.takes_over
    ]
    if not candidates:
        return Successor()
    if busy := _unfinished(world):
        return Successor(why=f"no node is made the master before all jobs have ended: {busy}")
    faults = {node.name: _unfit(world, config, request, node, seen) for node, seen in candidates}
    fit = min((name for name, fault in faults.items() if not fault), default="")
    return Successor(fit, "" if fit else "; ".join(f"{name} {faults[name]}" for name in faults))


def _unfinished(world: World) -> str:
    """What a failover would cut in half; empty where nothing would be."""
    if world.succession is None:
        return "which jobs there are is not known"
    found = [f"job {number}" for number in world.succession.jobs]
    found += [f"job {job.number}" for job in world.routine if job.open]
    found += [f"job {orphan.number} of incident {orphan.incident}" for orphan in world.orphans]
    found += [
        f"{submission.step} of {incident.node_name}"
        for incident in world.incidents.values()
        for submission in incident.open
    ]
    return few(list(dict.fromkeys(found)), _SHOWN) if found else ""


def _unfit(world: World, config: Maintd, request: Maintenance, node: Node, found: Reported) -> str:
    """Why a candidate is not made the master, in words; empty where it may be."""
    if node.name in request.declined:
        return "was not made the master when that was requested"
    if node.offline or node.drained or not node.live:
        return "is not in service" if node.offline or node.drained else "does not answer"
    if node.master_capable is False:
        return "is not master_capable"
    if node.name in world.excluded_nodes():
        return f"has the tag {OPT_OUT_TAG}"
    for one in world.incidents.values():
        if one.node == node.uuid and (one.active or one.state.avoided or one.open):
            return f"has incident {one.uuid} ({one.action}), which is {one.status}"
    if found.needs_repair:
        return f"reports {found.status}"
    if world.now - found.at > config.report_max_age * _SECOND:
        return "has not reported recently"
    limit = config.clock_limit or _CLOCK_LIMIT
    if found.ahead is None or abs(found.ahead) > limit:
        by = "by an unknown time" if found.ahead is None else f"by {abs(found.ahead)} s"
        return f"has a clock that differs {by}"
    if world.succession is None or node.primary_ip not in world.succession.current:
        return "is not known to have the latest configuration"
    return ""


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
