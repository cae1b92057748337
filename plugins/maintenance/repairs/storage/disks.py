"""The disks of one instance leave failing physical volumes: in place, or to another node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ganeti_steward.core.maintenance.incident import OPT_OUT_TAG
from ganeti_steward.core.maintenance.task import REPLACE_DISKS, Failed, Plan, Task, Wait
from ganeti_steward.core.model.cluster import NOT_MIRRORED, Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import Job, replace_in_place
from ganeti_steward.plugins.maintenance.repairs.attempts import retry
from ganeti_steward.plugins.maintenance.repairs.storage.case import StorageCase, counted, listed

#: Instances, each with the reason why nothing is done to it.
_Reasons = tuple[tuple[str, str], ...]


def replace_away(case: StorageCase, context: Context) -> Plan:
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
        if isinstance(found, Task):
            return found
        if found.final:
            lost += ((instance.name, found.reason),)
        else:
            waiting += ((instance.name, found.reason),)
    return _rest(case, waiting, lost)


class _Refusal(NamedTuple):
    """Why nothing is done to an instance now."""

    reason: str
    final: bool = False
    """whether nothing will change that by itself"""


def _rest(case: StorageCase, waiting: _Reasons, lost: _Reasons) -> Plan:
    where = f"on {listed(case.volumes)} of node {case.node.name}"
    if waiting:
        return Wait(f"{counted(len(waiting), 'instance')} {where} wait: {_text(waiting)}")
    if lost:
        what = f"{counted(len(lost), 'instance')} {where} cannot be replaced away: {_text(lost)}"
        return Failed(what, lost)
    orphans = sorted({one.name for one in case.parts()})
    return Wait(f"logical volumes {where} belong to no known instance: {listed(orphans)}")


def _text(reasons: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in reasons)


def _hopeless(case: StorageCase, instance: Instance) -> str:
    if OPT_OUT_TAG in instance.tags:
        return f"it has the tag {OPT_OUT_TAG}"
    return case.copy_fault(instance) if instance.template in NOT_MIRRORED else ""


def _try(case: StorageCase, instance: Instance, context: Context) -> Task | _Refusal:
    world, node = case.world, case.node.name
    if instance.name in world.reserved_instances:
        return _Refusal("another task uses it")
    if again := retry(case.incident, instance.name, world.now, case.settings):
        return _Refusal(again.reason, final=again.final)
    others = [name for name in instance.nodes if name != node]
    for other in others:
        if other in world.reserved_nodes:
            return _Refusal(f"another task uses its node {other}")
        if other in world.avoided_nodes:
            return _Refusal(f"its node {other} {world.avoided_nodes[other]}")
        if (known := world.node(other)) and known.offline:
            return _Refusal(f"its node {other} is offline")
    if fault := case.copy_fault(instance) or case.primary_fault(instance):
        return _Refusal(fault)
    no_room = _no_room(case, instance)
    if not no_room and case.copy_is_synced(instance):
        return _in_place(case, instance)
    if case.is_lost_primary(instance):
        return _Refusal(
            f"its disks on {node} are lost, so it cannot be migrated, and {no_room}: fail it "
            f"over (gnt-instance failover {instance.name}), which stops it for a moment"
        )
    return _to_another_node(case, instance, context)


def _no_room(case: StorageCase, instance: Instance) -> str:
    """Why its disks get no new volumes on this node; empty when they do."""
    if case.open_space() < instance.disk_space:
        return "there is no room for new ones on other volumes of the node"
    return "LVM makes no new ones while a physical volume is missing" if case.has_missing else ""


def _in_place(case: StorageCase, instance: Instance) -> Task:
    job = [replace_in_place(instance.name, primary=instance.primary == case.node.name)]
    how = f"by others of node {case.node.name}"
    return _task(case, instance, frozenset(instance.nodes), job, how)


def _to_another_node(case: StorageCase, instance: Instance, context: Context) -> Task | _Refusal:
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
    return _Refusal(reason, final=not found.blocked)


def _task(case: StorageCase, instance: Instance, nodes: frozenset[str], job: Job, how: str) -> Task:
    on = sorted({one.on for one in case.parts() if one.instance == instance.name})
    where = f"{listed(on)} of node" if on else "node"
    return Task(
        REPLACE_DISKS,
        nodes,
        frozenset({instance.name}),
        f"replace the disks of {instance.name} on {where} {case.node.name} {how}",
        [job],
        each=(instance.name,),
    )
