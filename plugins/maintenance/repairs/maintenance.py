"""A planned maintenance: empty a healthy node, and wait for the work on it.

It looks at the world only, and at what the record has of the node before.  Nothing is forced: what
fails ends the maintenance as failed, with everything running where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import Operation
from ganeti_steward.plugins.maintenance.config import DRAINED
from ganeti_steward.plugins.maintenance.engine.planned_brakes import successor
from ganeti_steward.plugins.maintenance.engine.work import why_not_back
from ganeti_steward.plugins.maintenance.repairs.case import NodeRepair, no_node
from ganeti_steward.plugins.maintenance.repairs.maintenance_case import (
    MaintenanceCase,
    copies_leave,
    fails,
    for_each,
    leaves_by,
    master_runs,
    runs,
    set_offline,
    taken_back,
    wait_for_sync,
)
from ganeti_steward.plugins.maintenance.repairs.maintenance_return import home, returning
from ganeti_steward.plugins.model import operations, task, works
from ganeti_steward.plugins.model.debts import (
    CANDIDATE_TAG,
    DRAINED_TAG,
    HOME_TAG,
    SHUTDOWN_TAG,
)
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Attempt, Incident
from ganeti_steward.plugins.model.world import World, reported_hypervisors

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
    # What Ganeti broke of the node itself is planned again; the engine counts how often.
    attempts = [attempt for attempt in case.incident.attempts if attempt.instance]
    failed = [attempt for attempt in attempts if attempt.failed and attempt.tried]
    if cut := [one.instance for one in failed if _is_cut(case, one)]:
        jobs = [(name, [operations.clean_up(name)]) for name in cut]
        return for_each(case, task.CLEAN_UP, "clean up migrations that were cut in half at", jobs)
    if failed:
        return fails(case, [(attempt.instance, attempt.reason) for attempt in failed])
    if case.request.worked:
        return returning(case) or home(case)
    if case.request.begun:
        return _working(case)
    if case.node.master:
        return _hand_over(case)
    if not case.world.answers(case.name):
        return _silent(case)
    plan = _emptying(case) or _copying(case) or _ready(case)
    if isinstance(plan, task.Wait) and plan.mark == task.BLOCKED:
        return _blocked(case, plan)
    if case.request.master_before and not case.request.master_before_ended:
        when = f" before the maintenance of {case.name} begins"
        return master_runs(case, task.MASTER_BEFORE, case.request.master_before, when)
    if case.request.before and not case.request.before_ended:
        return runs(case, task.BEFORE, case.request.before, " before anything leaves it")
    if not (case.incident.state.begun and case.node.drained):
        return _drain(case)
    return plan


def _drain(case: MaintenanceCase) -> task.Task:
    """The tags come first: where the job is cut in half, no change is forgotten."""
    job = [operations.set_role(case.name, DRAINED)]
    if not case.node.drained:
        tags = [DRAINED_TAG, *([CANDIDATE_TAG] if case.node.master_candidate else [])]
        job.insert(0, operations.set_tags("node", case.name, [case.own(tag) for tag in tags]))
    reason = f"set {case.name} drained: it must be emptied for maintenance"
    return case.on_node(task.DRAIN, reason, job)


def _hand_over(case: MaintenanceCase) -> task.Plan:
    """Have a candidate made the master, by its own agent; the brakes judge which."""
    found = successor(case.world, case.settings, case.incident)
    if not found.name:
        return task.Wait(f"{case.name} is the master")
    reason = (
        f"have {found.name} made the master by its agent (gnt-cluster master-failover): the "
        f"maintenance of {case.name}, which is the master, can begin then"
    )
    nodes = frozenset({case.name, found.name})
    step = task.MASTER_FAILOVER
    return task.Task(step, nodes, frozenset(), reason, command=step, agent=found.name)


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


def _blocked(case: MaintenanceCase, wait: task.Wait) -> task.Plan:
    """A person has to do something: the node stays, or soon is, in service until then."""
    if not case.incident.state.begun:
        return wait._replace(since=case.request.blocked)
    since, limit = case.request.blocked or case.world.now, case.settings.blocked_limit
    left = limit - (case.world.now - since) / 10**9
    if left > 0:
        then = f"the daemon takes {case.name} back into service"
        then = "other maintenance goes first" if case.request.drained else then
        reason = f"{wait.reason}; in {left:.0f} s {then}, and the request waits"
        return wait._replace(reason=reason, since=since, until=since + int(limit * 10**9))
    if case.node.drained and not case.request.drained:
        return taken_back(case, f"because for {limit:g} s {wait.reason}")
    return wait._replace(mark=task.GIVEN_BACK)


def _silent(case: MaintenanceCase) -> task.Wait:
    """Of a node that does not answer nothing is moved."""
    if case.node.offline:
        return set_offline(case, "nothing is moved off it")
    if case.incident.state.begun and not case.world.running_on(case.name):
        over = f"when the work is over: gnt-steward maintenance done {case.name}"
        mark = task.READY if case.request.ready else ""
        return task.Wait(f"{case.name} is away, and nothing runs on it; {over}", mark=mark)
    return task.Wait(f"{case.name} does not answer: nothing is moved off it")


# Emptying


def _emptying(case: MaintenanceCase) -> task.Plan | None:
    """What makes everything that runs leave; None: nothing runs."""
    running = case.world.running_on(case.name)
    if not running:
        return None
    leaves = _avoided(case, running) or _leaves(case)
    if isinstance(leaves, task.Wait):
        return leaves
    if wait := wait_for_sync(case, "before anything leaves"):
        return wait
    stopping = [
        (one.instance, [_tag(case, one.instance, SHUTDOWN_TAG), operations.stop(one.instance)])
        for one in leaves
        if not one.target
    ]
    moving = [
        (
            one.instance,
            [
                *([_tag(case, one.instance, HOME_TAG)] if case.request.returns else []),
                _leaving(one, case),
            ],
        )
        for one in leaves
        if one.target
    ]
    if moving:
        return for_each(case, task.MOVE, "empty", moving)
    return for_each(case, task.STOP, "shut down what cannot leave", stopping)


def _tag(case: MaintenanceCase, instance: str, tag: str) -> Operation:
    """Remember on an instance what is done to it now."""
    return operations.set_tags("instance", instance, [case.own(tag)])


def _avoided(case: MaintenanceCase, running: Iterable[Instance]) -> task.Wait | None:
    """What keeps an instance here: its tag, or a secondary that is not to be used now."""
    for instance in running:
        if OPT_OUT_TAG in instance.tags:
            return task.Wait(
                f"{instance.name} has the tag {OPT_OUT_TAG}, so it does not leave {case.name}: "
                f"gnt-instance remove-tags {instance.name} {OPT_OUT_TAG} permits it, or move it "
                "by hand",
                mark=task.BLOCKED,
            )
        for node in instance.secondaries:
            if why := case.world.avoided_nodes.get(node):
                reason = f"{instance.name} cannot go to {node}, which {why}"
                return task.Wait(reason, mark=task.BLOCKED)
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
    names = {uuid: node.name for uuid, node in case.world.nodes.items()}
    hypervisors = reported_hypervisors(case.world.observations, names)
    roll = plan_roll(cluster, [case.name], options, case.context.site_rules, hypervisors)
    if roll.rounds:
        return roll.rounds[0].leaves
    one = roll.impossible[0]
    helps = f"; what helps: {one.helps}" if one.helps else ""
    return task.Wait(one.sentence + helps, mark=task.BLOCKED)


def _leaving(leave: Leave, case: MaintenanceCase) -> dict[str, object]:
    paired = bool(case.world.instances[leave.instance].secondaries)
    return leaves_by(leave.how)(leave.instance, None if paired else leave.target)


def _copying(case: MaintenanceCase) -> task.Plan | None:
    """What makes copies leave, with disks that are in sync; None: none is to leave."""
    plan = copies_leave(case)
    if isinstance(plan, task.Wait) and plan.mark == task.BLOCKED:
        return plan
    return plan and (wait_for_sync(case, "before copies leave") or plan)


def _ready(case: MaintenanceCase) -> task.Plan:
    if left := case.world.left_running_on(case.name):
        return task.Wait(
            f"{', '.join(left)} still runs on {case.name} though it is marked down (ERROR_up): "
            "gnt-instance shutdown stops it, gnt-instance startup has it moved first",
            mark=task.BLOCKED,
        )
    if wait := wait_for_sync(case, "before the work begins"):
        return wait
    if case.request.work != works.BY_ADMIN:
        return _work(case)
    copies = len(case.mirrored)
    have = f"{counted(copies, 'instance')} {'has' if copies == 1 else 'have'}"
    one_copy = f"; {have} one copy only while it is away" if copies else ""
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
        return task.Failed(f"{case.request.work!a} is not a known kind of work; {advice}")
    return runs(case, task.WORK, command, f": {why}")


def _working(case: MaintenanceCase) -> task.Wait:
    elapsed = (case.world.now - case.request.begun) // 10**9
    why = why_not_back(case.request, case.world, case.node)
    return task.Wait(
        f"the work on {case.name} ({case.request.work}) began {elapsed} s ago, and the node must "
        f"be back within {case.settings.return_limit:g} s: {why}; where it is over: gnt-steward "
        f"maintenance done {case.name}",
        since=case.request.begun,
        until=case.request.begun + int(case.settings.return_limit * 10**9),
    )
