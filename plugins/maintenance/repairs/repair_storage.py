"""The repair of physical volumes that a node reports as failing.

Close them for new logical volumes, replace the disks of one instance after the other away from
them, take missing ones out of the volume group, rebuild what instances have lost there; after the
operator's word open them again.  Each step is chosen by what LVM and Ganeti show now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import NOT_MIRRORED, Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.attempts import retry
from ganeti_steward.plugins.maintenance.repairs.case import NodeRepair
from ganeti_steward.plugins.maintenance.repairs.storage_case import (
    StorageCase,
    opening_fault,
    repair_fault,
)
from ganeti_steward.plugins.model import task
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Incident
from ganeti_steward.plugins.model.operations import (
    remove_tags,
    repair_storage,
    replace_in_place,
    set_allocatable,
    set_tags,
)
from ganeti_steward.plugins.model.storage import failing_volumes
from ganeti_steward.plugins.model.world import World

#: Instances, each with the reason why nothing is done to it.
_Reasons = tuple[tuple[str, str], ...]


def replace_away(case: StorageCase, context: Context) -> task.Plan:
    """The task for the first instance that can be helped now; else what is in the way.

    Those whose disks are not good on all nodes come last: what fails must not keep others here.
    """
    here = sorted(case.affected(), key=lambda one: not case.is_synced(one))
    lost = tuple((one.name, fault) for one in here if (fault := _hopeless(case, one)))
    waiting: _Reasons = ()
    for instance in here:
        if instance.name in dict(lost):
            continue
        found = _try(case, instance, context)
        if isinstance(found, task.Task):
            return found
        if found.final:
            lost += ((instance.name, found.reason),)
        else:
            waiting += ((instance.name, found.reason),)
    return _rest(case, waiting, lost)


class _NotNow(NamedTuple):
    """Why nothing is done to an instance now."""

    reason: str
    final: bool = False
    """whether nothing will change that by itself"""


def _rest(case: StorageCase, waiting: _Reasons, lost: _Reasons) -> task.Plan:
    where = f"on {', '.join(case.volumes)} of node {case.node.name}"
    if waiting:
        return task.Wait(f"{counted(len(waiting), 'instance')} {where} wait: {_text(waiting)}")
    if lost:
        what = f"{counted(len(lost), 'instance')} {where} cannot be replaced away: {_text(lost)}"
        return task.Failed(what, lost)
    orphans = sorted({volume.name for volume in case.parts()})
    return task.Wait(f"logical volumes {where} belong to no known instance: {', '.join(orphans)}")


def _text(reasons: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in reasons)


def _hopeless(case: StorageCase, instance: Instance) -> str:
    if OPT_OUT_TAG in instance.tags:
        return f"it has the tag {OPT_OUT_TAG}"
    return case.copy_fault(instance) if instance.template in NOT_MIRRORED else ""


def _try(case: StorageCase, instance: Instance, context: Context) -> task.Task | _NotNow:
    world, node = case.world, case.node.name
    if instance.name in world.reserved_instances:
        return _NotNow("another task uses it")
    if again := retry(case.incident, instance.name, world.now, case.settings):
        return _NotNow(again.reason, final=again.final)
    others = [name for name in instance.nodes if name != node]
    for other in others:
        if other in world.reserved_nodes:
            return _NotNow(f"another task uses its node {other}")
        if other in world.avoided_nodes:
            return _NotNow(f"its node {other} {world.avoided_nodes[other]}")
        if (known := world.node(other)) and known.offline:
            return _NotNow(f"its node {other} is offline")
    if fault := case.copy_fault(instance) or case.primary_fault(instance):
        return _NotNow(fault)
    no_room = _no_room(case, instance)
    if not no_room and case.copy_is_synced(instance):
        return _in_place(case, instance)
    if case.is_lost_primary(instance):
        return _NotNow(
            f"its disks on {node} are lost, so it cannot be migrated, and {no_room}: fail it "
            f"over (gnt-instance failover {instance.name}), which stops it for a moment"
        )
    return _to_another_node(case, instance, context)


def _no_room(case: StorageCase, instance: Instance) -> str:
    """Why its disks get no new volumes on this node; empty when they do."""
    if case.open_space() < instance.disk_space:
        return "there is no room for new ones on other volumes of the node"
    return "LVM makes no new ones while a physical volume is missing" if case.has_missing else ""


def _in_place(case: StorageCase, instance: Instance) -> task.Task:
    job = [replace_in_place(instance.name, primary=instance.primary == case.node.name)]
    how = f"by others of node {case.node.name}"
    return _task(case, instance, frozenset(instance.nodes), job, how)


def _to_another_node(
    case: StorageCase, instance: Instance, context: Context
) -> task.Task | _NotNow:
    # It imports the engine, which most rounds do not need.
    from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node

    world = case.world
    found = leave_node(
        Leaving(
            case.node.name,
            [instance.name],
            world.avoided_nodes,
            world.reserved_nodes,
            1,
            may_keep_copies=False,
        ),
        world.cluster,
        context,
    )
    for move in found.moves:
        return _task(case, instance, move.nodes, move.job, "by another node")
    ((_, reason),) = found.blocked or found.impossible or found.stays
    return _NotNow(reason, final=not found.blocked)


def _task(
    case: StorageCase, instance: Instance, nodes: frozenset[str], job: Job, how: str
) -> task.Task:
    on = sorted({volume.on for volume in case.parts() if volume.instance == instance.name})
    where = f"{', '.join(on)} of node" if on else "node"
    return task.Task(
        task.REPLACE_DISKS,
        nodes,
        frozenset({instance.name}),
        f"replace the disks of {instance.name} on {where} {case.node.name} {how}",
        [job],
        each=(instance.name,),
    )


class RepairStorage(NodeRepair):
    """The plugin; it handles only reports that name physical volumes and no command."""

    @hookimpl
    def steward_plan(
        self, incident: Incident, world: World, context: Context
    ) -> list[task.Plan] | None:
        """The next step of the repair, or the opening once it was acknowledged."""
        if not self._settings.repair_storage or incident.action != LIVE_REPAIR:
            return None
        volumes = failing_volumes(incident.original)
        node = world.nodes.get(incident.node)
        if not volumes or node is None:
            return None
        storage = world.storage.get(node.name)
        if storage is None or storage.fault:
            why = storage.fault if storage else "it was not queried yet"
            return [task.Wait(f"the storage of node {node.name} is not known: {why}")]
        case = StorageCase(incident, node, world, volumes, storage, self._settings)
        return [_open(case) if incident.state.reopens else _next(case, context)]


def _next(case: StorageCase, context: Context) -> task.Plan:
    if fault := case.unknown_volumes():
        return task.Wait(fault)
    if case.to_close() or (case.named and not case.is_closed):
        return _close(case)
    if case.parts() or case.affected():
        found = replace_away(case, context)
        is_next = isinstance(found, task.Wait) and case.is_group_next()
        return _repair_group(case, f"{found.reason}; ") if is_next else found
    if not case.has_missing:
        return task.Done(f"no disk is left on {', '.join(case.volumes)} of node {case.node.name}")
    return _repair_group(case)


def _repair_group(case: StorageCase, waiting: str = "") -> task.Plan:
    """``waiting``: what waits for it, before why it cannot be done; empty: nothing is left."""
    if fault := repair_fault(case):
        return task.Wait(f"{waiting}{fault}")
    name = case.node.name
    left = "" if waiting else "no disk is left there, and "
    return task.Task(
        task.REPAIR_STORAGE,
        frozenset({name}),
        frozenset(instance.name for instance in case.world.instances_on(name)),
        f"take {counted(case.missing, 'missing physical volume')} out of volume group "
        f"{case.storage.group} of node {name}: {left}every instance has a good copy elsewhere",
        [[repair_storage(name, case.storage.group)]],
    )


def _close(case: StorageCase) -> task.Task:
    node, volumes = case.node.name, case.to_close()
    job: Job = [set_allocatable(node, one, False) for one in volumes]
    job.append(set_tags("node", node, [case.incident.closed_tag]))
    if old := case.taken_over():
        job.append(remove_tags("node", node, old))
    named = ", ".join(case.named)
    what = f"close {', '.join(volumes)}" if volumes else f"note that {named} is closed or missing"
    reason = f"{what} on node {node}: it is reported as failing"
    return task.Task(task.CLOSE, frozenset({node}), frozenset(), reason, [job])


def _open(case: StorageCase) -> task.Plan:
    if fault := opening_fault(case):
        return task.Wait(fault)
    node = case.node.name
    closed = [volume.name for volume in case.present() if not volume.allocatable]
    job: Job = [set_allocatable(node, one, True) for one in closed]
    job.append(remove_tags("node", node, [case.incident.closed_tag]))
    reason = f"open {', '.join(case.named)} on node {node}: the incident was acknowledged"
    return task.Task(task.OPEN, frozenset({node}), frozenset(), reason, [job])
