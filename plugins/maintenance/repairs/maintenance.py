"""A planned maintenance: empty a healthy node, wait for the work on it, and have all go home.

It looks at the world only, and at what the record has of the node before.  Nothing is forced: what
fails ends the maintenance as failed, with everything running where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ganeti_steward.allocators.jobs.operations import failover, migrate
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.config import DRAINED
from ganeti_steward.plugins.maintenance.engine.work import why_not_back
from ganeti_steward.plugins.maintenance.repairs.case import NodeRepair, no_node
from ganeti_steward.plugins.maintenance.repairs.evacuation_case import counted, listed
from ganeti_steward.plugins.maintenance.repairs.maintenance_case import (
    MaintenanceCase,
    copies_leave,
)
from ganeti_steward.plugins.model import operations, task, works
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Attempt, Incident
from ganeti_steward.plugins.model.world import Reported, World

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.roll import Leave


class PlannedMaintenance(NodeRepair):
    """The plugin of the action ``maintenance``."""

    @hookimpl
    def steward_plan(
        self, incident: Incident, world: World, context: Context
    ) -> list[task.Plan] | None:
        """The next step of the maintenance."""
        if incident.maintenance is None:
            return None
        node = world.nodes.get(incident.node)
        if node is None:
            return no_node(incident)
        return [_next(MaintenanceCase(incident, node, world, context, self._settings))]


def _next(case: MaintenanceCase) -> task.Plan:
    failed = [attempt for attempt in case.incident.attempts if attempt.failed and attempt.tried]
    if cut := [one.instance for one in failed if _is_cut(case, one)]:
        jobs = [(name, [operations.clean_up(name)]) for name in cut]
        return _each(case, task.CLEAN_UP, "clean up migrations that were cut in half at", jobs)
    if failed:
        return _failed(case, [(attempt.instance, attempt.reason) for attempt in failed])
    if case.request.worked:
        return _returning(case) or _home(case)
    if case.request.begun:
        return _working(case)
    if not case.world.answers(case.name):
        return _silent(case)
    if not (case.incident.state.begun and case.node.drained):
        reason = f"set {case.name} drained: it is to be emptied for maintenance"
        return case.on_node(task.DRAIN, reason, [operations.set_role(case.name, DRAINED)])
    return _emptying(case) or _copying(case) or _ready(case)


def _is_cut(case: MaintenanceCase, attempt: Attempt) -> bool:
    """Whether Ganeti itself broke a migration of an instance, or the clean-up after one.

    It may run on either node, and Ganeti may call it down.  After the clean-up Ganeti knows where
    it runs, and its disks are connected as before; of one that runs nowhere the clean-up fails.
    """
    one = case.world.instances.get(attempt.instance)
    if one is None or not one.secondaries or OPT_OUT_TAG in one.tags or not attempt.interrupted:
        return False
    limit = case.settings.move_attempts
    again = attempt.prepared < limit and attempt.tried <= limit
    migrated = attempt.step in (task.MOVE, task.HOME, task.CLEAN_UP)
    return again and migrated and attempt.instance in case.request.ran


def _silent(case: MaintenanceCase) -> task.Wait:
    """Of a node that does not answer nothing is moved."""
    if case.incident.state.begun and not case.world.running_on(case.name):
        over = f"when the work is over: gnt-steward maintenance done {case.name}"
        mark = task.READY if case.request.ready else ""
        return task.Wait(f"{case.name} is away, and nothing runs on it; {over}", mark=mark)
    return task.Wait(f"{case.name} does not answer, or is offline: nothing is moved off it")


def _failed(case: MaintenanceCase, reasons: Sequence[tuple[str, str]]) -> task.Failed:
    return task.Failed(f"{listed(reasons)}; {works.take_back_by_hand(case.name)}")


def _each(
    case: MaintenanceCase, step: str, what: str, jobs: Iterable[tuple[str, Job]], *targets: str
) -> task.Task | task.Wait:
    """One job for each instance, of those that no other task is in the way of."""
    world, chosen = case.world, list[tuple[str, Job]]()
    for name, job in jobs:
        nodes = {*world.instances[name].nodes, *targets} - {case.name}
        if name not in world.reserved_instances and not nodes & world.reserved_nodes:
            chosen.append((name, job))
    if not chosen:
        return task.Wait("other tasks use the nodes of all instances that are to be moved")
    chosen = chosen[: case.settings.moves_at_once]
    names = [name for name, _ in chosen]
    nodes = {case.name, *targets}.union(*(world.instances[name].nodes for name in names))
    nodes |= {str(one["target_node"]) for _, job in chosen for one in job if one.get("target_node")}
    return task.Task(
        step,
        frozenset(nodes),
        frozenset(names),
        f"{what} {case.name}: {counted(names)}",
        [job for _, job in chosen],
        each=tuple(names),
    )


# Emptying


def _emptying(case: MaintenanceCase) -> task.Plan | None:
    """What makes everything that runs leave; None: nothing runs."""
    running = case.world.running_on(case.name)
    if not running:
        return None
    if wait := _unsynced(case, "before anything leaves") or _avoided(case, running):
        return wait
    leaves = _leaves(case)
    if isinstance(leaves, task.Wait):
        return leaves
    stopping = [
        (leave.instance, [operations.stop(leave.instance)]) for leave in leaves if not leave.target
    ]
    moving = [(leave.instance, [_leaving(leave, case)]) for leave in leaves if leave.target]
    if moving:
        return _each(case, task.MOVE, "empty", moving)
    return _each(case, task.STOP, "shut down what cannot leave", stopping)


def _avoided(case: MaintenanceCase, running: Iterable[Instance]) -> task.Wait | None:
    """Where a secondary is not to be used now."""
    for instance in running:
        for node in instance.secondaries:
            if why := case.world.avoided_nodes.get(node):
                return task.Wait(f"{instance.name} cannot go to {node}, which {why}")
    return None


def _leaves(case: MaintenanceCase) -> tuple[Leave, ...] | task.Wait:
    # It imports the engine, which most rounds do not need.
    from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll

    unusable = {*case.world.avoided_nodes} - {case.name}
    nodes = [
        node._replace(drained=node.drained or node.name in unusable)
        for node in case.world.cluster.nodes
    ]
    cluster = case.world.cluster.replace(nodes)
    options = RollOptions(case.request.choice)
    roll = plan_roll(cluster, [case.name], options, case.context.site_rules)
    if roll.rounds:
        return roll.rounds[0].leaves
    one = roll.impossible[0]
    return task.Wait(f"{one.sentence}; what helps: {one.helps}" if one.helps else one.sentence)


def _leaving(leave: Leave, case: MaintenanceCase) -> dict[str, object]:
    paired = bool(case.world.instances[leave.instance].secondaries)
    return _moving(leave.how)(leave.instance, None if paired else leave.target)


def _moving(how: str) -> Callable[[str, str | None], dict[str, object]]:
    """The operation of a way to leave; a live migration never becomes a failover."""
    if how == "failover":
        return failover
    if how == "move":
        return lambda name, node: operations.copy_to(name, str(node))
    return lambda name, node: {**migrate(name, node), "allow_failover": False}


def _copying(case: MaintenanceCase) -> task.Plan | None:
    """What makes copies leave, with disks that are in sync; None: none is to leave."""
    return (case.copies and (_unsynced(case, "before copies leave") or copies_leave(case))) or None


def _ready(case: MaintenanceCase) -> task.Plan:
    if left := case.world.left_running_on(case.name):
        return task.Wait(
            f"{', '.join(left)} still runs on {case.name} though it is marked down (ERROR_up): "
            "gnt-instance shutdown stops it, gnt-instance startup has it moved first"
        )
    if wait := _unsynced(case, "before the work begins"):
        return wait
    if case.request.work != works.BY_ADMIN:
        return _work(case)
    copies = len(case.mirrored)
    one_copy = f"; {copies} instances have one copy only while it is away" if copies else ""
    return task.Wait(
        f"{case.name} is ready: nothing runs on it{one_copy}; when the work is over: gnt-steward "
        f"maintenance done {case.name}",
        mark=task.READY,
    )


# Working


def _work(case: MaintenanceCase) -> task.Plan:
    """Have the node rebooted; it is begun once."""
    why = f"nothing runs on {case.name}, and all copies are in sync"
    if case.request.work == works.POWER:
        job = [operations.out_of_band(case.name, "power-cycle")]
        return case.on_node(task.WORK, f"switch {case.name} off and on: {why}", job)
    command = works.command_of(case.request.work)
    if not command:
        advice = works.take_back_by_hand(case.name)
        return task.Failed(f"{case.request.work!a} is no work; {advice}")
    nodes, reason = frozenset({case.name}), f"run {command} on {case.name}: {why}"
    return task.Task(task.WORK, nodes, frozenset(), reason, command=command)


def _working(case: MaintenanceCase) -> task.Wait:
    elapsed = (case.world.now - case.request.begun) // 10**9
    why = why_not_back(case.request, case.world, case.node)
    return task.Wait(
        f"the work on {case.name} ({case.request.work}) was begun {elapsed} s ago, and it has to "
        f"come back within {case.settings.return_limit:g} s: {why}; where it is over: gnt-steward "
        f"maintenance done {case.name}"
    )


# Returning


def _returning(case: MaintenanceCase) -> task.Plan | None:
    """What comes before instances go home; None: nothing more."""
    report = case.world.observations.get(case.node.uuid)
    if not case.world.answers(case.name):
        return task.Wait(f"{case.name} does not answer yet")
    if isinstance(report, Reported) and report.needs_repair:
        return task.Wait(f"{case.name} reports {report.status}")
    if found := _connected(case):
        return found
    if case.node.drained and not case.request.drained:
        reason = f"take {case.name} back: it answers, and all copies are in sync"
        return case.on_node(task.UNDRAIN, reason, [operations.take_back(case.name)])
    return None


def _connected(case: MaintenanceCase) -> task.Plan | None:
    """The copies on the node are complete again before anything else is done; None: they are."""
    degraded = []
    for instance in case.mirrored:
        health = case.disk_health(instance.name)
        excluded = OPT_OUT_TAG in instance.tags
        if health and health.faults and not (health.syncing or excluded):
            if case.incident.attempt(instance.name).prepared >= case.settings.move_attempts:
                reason = f"its disks stay degraded: {', '.join(health.faults)}"
                return _failed(case, [(instance.name, reason)])
            degraded.append((instance.name, [operations.activate_disks(instance.name)]))
    if degraded:
        return _each(case, task.ACTIVATE, "activate disks of instances with a copy on", degraded)
    return _unsynced(case, "before anything else")


def _unsynced(case: MaintenanceCase, when: str) -> task.Wait | None:
    """Wait for disks that are not, or not known to be, in sync."""
    reasons = []
    for instance in case.mirrored:
        health = case.disk_health(instance.name)
        if health is None:
            reasons.append((instance.name, "the state of its disks is not known"))
        elif not health.in_sync:
            faults = ", ".join(health.faults) or "its disks are being synchronized"
            faults += f"; it has the tag {OPT_OUT_TAG}" if OPT_OUT_TAG in instance.tags else ""
            reasons.append((instance.name, faults))
    if not reasons:
        return None
    of = f"{len(reasons)} of {len(case.mirrored)} instances"
    return task.Wait(f"the disks of {of} have to be in sync {when}: {listed(reasons)}")


def _home(case: MaintenanceCase) -> task.Plan:
    """What ran here comes back, as far as it may; then it is over."""
    away = [
        instance
        for name in case.request.ran
        if (instance := case.world.instances.get(name)) is not None
    ]
    excluded = [instance for instance in away if OPT_OUT_TAG in instance.tags]
    away = [instance for instance in away if instance not in excluded]
    down = [instance for instance in away if _stopped_by_us(case, instance)]
    if down:
        jobs = [(instance.name, [operations.start(instance.name)]) for instance in down]
        return _each(case, task.START, "start what was shut down for the maintenance of", jobs)
    wanted = [
        instance
        for instance in away
        if instance.up and instance.primary != case.name and not _left(case, instance)
    ]
    may, stays = _fitting(case, wanted) if case.request.returns else ([], [])
    if not may:
        return _over(case, excluded, stays)
    jobs = [(instance.name, [_coming(case, instance)]) for instance in may]
    return _each(case, task.HOME, "bring back to", jobs, case.name)


def _over(
    case: MaintenanceCase, excluded: Iterable[Instance], stays: list[tuple[str, str]]
) -> task.Done:
    """The end, with what is not as it was before."""
    tagged = f"it has the tag {OPT_OUT_TAG}"
    down = [(one.name, tagged) for one in excluded if _stopped_by_us(case, one)]
    moved = [one for one in excluded if one.up and one.primary != case.name]
    if case.request.returns:
        stays = [*stays, *((one.name, tagged) for one in moved)]
    sentence = f"the maintenance of {case.name} is over"
    sentence += f"; not back on it: {listed(stays)}" if stays else ""
    sentence += f"; not started again: {listed(down)}" if down else ""
    return task.Done(sentence)


def _left(case: MaintenanceCase, instance: Instance) -> bool:
    """Whether its copy has left the node as requested: its disks are not copied once more."""
    return case.request.full and instance.template == "drbd" and case.name not in instance.nodes


def _stopped_by_us(case: MaintenanceCase, instance: Instance) -> bool:
    """Whether it was shut down here: what can migrate was not."""
    from ganeti_steward.allocators.rolling.fleet import obstacle_to_migration

    stopping = case.request.choice == "stop" and instance.state == "down"
    return stopping and instance.primary == case.name and bool(obstacle_to_migration(instance))


def _coming(case: MaintenanceCase, instance: Instance) -> dict[str, object]:
    from ganeti_steward.allocators.rolling.fleet import COPY, FAIL_OVER, MIGRATE
    from ganeti_steward.allocators.rolling.fleet import obstacle_to_migration as obstacle

    copied = instance.template in ("plain", "file")
    how = COPY if copied else FAIL_OVER if obstacle(instance) else MIGRATE
    return _moving(how)(instance.name, None if instance.secondaries else case.name)


def _fitting(
    case: MaintenanceCase, wanted: Iterable[Instance]
) -> tuple[list[Instance], list[tuple[str, str]]]:
    """Those that may run on the node again, all of them together, and why others may not."""
    from ganeti_steward.allocators.rolling.coming import coming_back

    site_rules = case.context.site_rules
    found = coming_back(
        case.world.cluster, case.name, [instance.name for instance in wanted], site_rules
    )
    may = [instance for instance in wanted if instance.name in found.may]
    return may, [(name, why) for name, why in found.stays if name not in found.may]
