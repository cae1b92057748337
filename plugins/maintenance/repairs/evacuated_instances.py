"""What is done about one instance of a node that is evacuated."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.model.cluster import NOT_MIRRORED, Instance
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.attempts import retry
from ganeti_steward.plugins.maintenance.repairs.evacuation_case import (
    Evacuation,
    runs_on,
    unconfirmed,
    unsynced_fault,
)
from ganeti_steward.plugins.model.incident import (
    OPT_OUT_TAG,
    RESTART_FIRST,
    RESTART_LAST,
    RESTART_NEVER,
    Attempt,
)
from ganeti_steward.plugins.model.operations import activate_disks, clean_up, restart
from ganeti_steward.plugins.model.task import ACTIVATE, CLEAN_UP, MOVE, REPLACE_DISKS, START

#: Ganeti's words for an instance that does not run where it should.
_DOWN: Final = "ERROR_down"
_ELSEWHERE: Final = "ERROR_wrongnode"
#: What a clean-up reports when Ganeti has queried both nodes and the instance runs on neither.
_NOWHERE: Final = "not seem to be running at all"


class Stays(NamedTuple):
    """It is not moved, and nothing that is going on changes that."""

    reason: str


class Later(NamedTuple):
    """It is not moved now."""

    reason: str


class Prepare(NamedTuple):
    """Something else is done first."""

    step: str
    job: Job
    """empty for the step ``replace-disks``: the disks on the other node are lost, and another node
    has to be found for them"""
    reason: str


class Ready(NamedTuple):
    """It can be moved."""

    last: bool = False
    """whether all others go first: it was tried before, or the state of its disks is not known"""
    before: Job = []  # noqa: RUF012 - never changed
    """what its job begins with"""


Judgement = Stays | Later | Prepare | Ready


def judged(case: Evacuation, instance: Instance) -> Judgement:
    """What is done about an instance."""
    if fault := _fault(instance):
        return Stays(fault)
    if use := _use(case, instance):
        return Later(use)
    attempt = case.incident.attempt(instance.name)
    if again := retry(case.incident, instance.name, case.world.now, case.settings):
        return Stays(again.reason) if again.final else Later(again.reason)
    if instance.primary != case.name:
        # Of a node that is off: what is down comes first.
        return Ready(last=bool(attempt.tried) or not case.answers)
    if not case.answers:
        return _of_dead_node(case, instance)
    if found := _cleaned_up(case, instance, attempt):
        return found
    if instance.template != "drbd":
        return Ready(last=bool(attempt.tried))
    for node in case.world.passing_nodes.intersection(instance.secondaries):
        # Another node would get a copy while the only other one is on the node that is left.
        return Later(f"its other node {node} {case.world.avoided_nodes[node]}, which passes")
    if not instance.up and all(map(case.world.answers, instance.secondaries)):
        # Ganeti looks at disks that are active only: without this the copy could be an old one.
        return Ready(bool(attempt.tried), [activate_disks(instance.name, wait_for_sync=True)])
    return _with_disks(case, instance, attempt)


def left_down(case: Evacuation) -> dict[str, Judgement]:
    """Instances that have left the node by a failover that was cut in half, and run nowhere.

    Ganeti changes the primary of an instance only after it has stopped it on the old one.
    """
    found: dict[str, Judgement] = {}
    for attempt in case.incident.attempts:
        one = case.world.instances.get(attempt.instance)
        if one is None or case.name in one.nodes or not (attempt.failed and attempt.interrupted):
            continue
        if not one.up or one.status != _DOWN:
            continue
        again = retry(case.incident, one.name, case.world.now, case.settings)
        if use := _use(case, one):
            found[one.name] = Later(use)
        elif again:
            found[one.name] = Stays(again.reason) if again.final else Later(again.reason)
        else:
            why = f"start {one.name} on {one.primary}: its failover was cut in half"
            found[one.name] = Prepare(START, restart(one.name), why)
    return found


def _fault(instance: Instance) -> str:
    """Why no target helps."""
    if OPT_OUT_TAG in instance.tags:
        return f"it has the tag {OPT_OUT_TAG}"
    if instance.template in NOT_MIRRORED:
        return f"its disks are on this node only (template {instance.template})"
    return ""


def _use(case: Evacuation, instance: Instance) -> str:
    """Which other task is in the way."""
    world = case.world
    if instance.name in world.reserved_instances:
        return "another task uses it"
    used = world.reserved_nodes.intersection(instance.nodes) - {case.name}
    return f"another task uses its node {', '.join(sorted(used))}" if used else ""


def turn(case: Evacuation, name: str) -> int:
    """When an instance of a node that is off is started elsewhere: 0 first, 2 last."""
    tags = case.world.instances[name].tags
    return 0 if RESTART_FIRST in tags else 2 if RESTART_LAST in tags else 1


def _of_dead_node(case: Evacuation, instance: Instance) -> Judgement:
    if RESTART_NEVER in instance.tags:
        return Stays(f"it has the tag {RESTART_NEVER}")
    lost = unsynced_fault(case, instance)
    # One that is stopped is not started anywhere.
    if (instance.up or not case.node.offline) and (wait := unconfirmed(case, instance)):
        return Later(f"{wait}; even then: {lost}" if lost else wait)
    return Stays(lost) if lost else Ready()


def _cleaned_up(case: Evacuation, instance: Instance, attempt: Attempt) -> Judgement | None:
    """Clean up after a migration that was cut in half."""
    name = instance.name
    down = attempt.tried > 0 and runs_on(instance, case.name) and instance.status == _DOWN
    if attempt.prepared >= case.settings.move_attempts:
        return None
    if down and attempt.step == CLEAN_UP and _NOWHERE in attempt.reason:
        return _started(case, instance)
    if down or instance.status == _ELSEWHERE or (attempt.interrupted and attempt.step == MOVE):
        why = "its migration was cut in half"
        return Prepare(CLEAN_UP, [clean_up(name)], f"clean up {name}: {why}")
    return None


def _started(case: Evacuation, instance: Instance) -> Judgement:
    """Start it where it is; another copy of its disks may be the newer one."""
    name, job, health = instance.name, restart(instance.name), case.disk_health(instance.name)
    if instance.template == "drbd" and not (health and health.in_sync):
        (other,) = instance.secondaries
        node = case.world.node(other)
        if node is None or node.offline:
            return Stays(f"it runs nowhere, and {other}, which may have the newer copy, is offline")
        if not case.world.answers(other):
            return Later(f"it runs nowhere, and {other}, which may have the newer copy, is silent")
        job = [activate_disks(name, wait_for_sync=True), *job]
    return Prepare(START, job, f"start {name} on {case.name}: it runs nowhere")


def _with_disks(case: Evacuation, instance: Instance, attempt: Attempt) -> Judgement:
    """By the state of both copies; Ganeti looks at them again when it moves the instance."""
    name, (other, *_) = instance.name, instance.secondaries
    health = case.disk_health(name)
    if health is None or not case.world.answers(other):
        return Ready(last=True)
    if health.syncing:
        return Later(health.progress)
    if health.in_sync:
        return Ready(last=bool(attempt.tried))
    faults = ", ".join(health.faults)
    if {case.name, other} <= {*health.lost_on}:
        return Stays(f"no copy of its disks is good: {faults}")
    if case.name in health.lost_on:
        return _lost_here(case, instance)
    if attempt.prepared >= case.settings.move_attempts:
        return Stays(f"its disks stay degraded: {faults}")
    if other in health.lost_on:
        return Prepare(REPLACE_DISKS, [], f"copy the disks of {name} again: {faults}")
    job = [activate_disks(name)]
    return Prepare(ACTIVATE, job, f"activate the disks of {name}: {faults}")


def _lost_here(case: Evacuation, instance: Instance) -> Judgement:
    """All that it writes goes to the other node, but Ganeti migrates no such instance."""
    if case.incident.action == EVACUATE_FAILOVER:
        return Ready()
    return Stays(
        f"its disks on {case.name} are lost, so it cannot be migrated: gnt-instance failover "
        f"{instance.name} stops it for a moment and starts it on {instance.secondaries[0]}"
    )
