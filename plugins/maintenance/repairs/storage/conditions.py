"""What has to be true before a volume group is repaired, and before a volume is opened again."""

from __future__ import annotations

from collections.abc import Iterator

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.storage import failing_volumes
from ganeti_steward.core.maintenance.world import Reported
from ganeti_steward.core.model.cluster import LOCAL_STORAGE, Node
from ganeti_steward.plugins.maintenance.repairs.storage.case import StorageCase, listed


def repair_fault(case: StorageCase) -> str:
    """Why the volume group is not repaired; empty when nothing speaks against it.

    Ganeti itself only looks at instances that run.
    """
    faults = [*_node_faults(case), *_instance_faults(case)]
    if not faults:
        return ""
    group, node = case.storage.group, case.node.name
    return f"volume group {group} of node {node} is not repaired: {'; '.join(faults)}"


def _node_faults(case: StorageCase) -> Iterator[str]:
    """Why a node that is involved is not known to be fine."""
    name, world = case.node.name, case.world
    report = world.observations.get(case.node.uuid)
    if not isinstance(report, Reported):
        yield f"node {name} gives no valid report"
    others = {node for one in world.instances_on(name) for node in one.nodes} - {name}
    for node in world.cluster.nodes:
        if node.name in others and (fault := _node_fault(case, node)):
            yield f"node {node.name} {fault}"


def _node_fault(case: StorageCase, node: Node) -> str:
    """Silence is not health."""
    if node.offline:
        return "is offline"
    if node.name in case.world.avoided_nodes:
        return case.world.avoided_nodes[node.name]
    if node.name in case.world.reserved_nodes:
        return "is used by another task"
    if not isinstance(case.world.observations.get(node.uuid), Reported):
        return "gives no valid report"
    return ""


def _instance_faults(case: StorageCase) -> Iterator[str]:
    for instance in case.world.instances_on(case.node.name):
        if instance.template not in LOCAL_STORAGE:
            continue
        if instance.name in case.world.reserved_instances:
            yield f"another task uses instance {instance.name}"
        elif fault := case.copy_fault(instance):
            yield f"instance {instance.name}: {fault}"


def opening_fault(case: StorageCase) -> str:
    """Why the volumes stay closed after the operator's word; empty when they can be opened."""
    node = case.node.name
    closed = f"{listed(case.volumes)} of node {node} stays closed"
    report = case.world.observations.get(case.node.uuid)
    if not isinstance(report, Reported):
        return f"{closed}: node {node} gives no valid report"
    still = {*failing_volumes(report.original)} & {*case.volumes}
    if still or report.object_id == case.incident.object_id:
        return f"{closed}: node {node} still reports {listed(sorted(still)) or 'the same'}"
    if case.has_missing:
        return f"{closed}: a physical volume of the node is missing, LVM changes nothing then"
    if other := _other_incident(case):
        return f"{closed}: incident {other.uuid} ({other.status}) names it, too"
    absent = sorted({*case.named} - {one.name for one in case.present()})
    if absent:
        return (
            f"{closed}: the node has no physical volume {listed(absent)}; add it to the volume "
            f"group, or remove the tag {case.incident.closed_tag}"
        )
    return ""


def _other_incident(case: StorageCase) -> Incident | None:
    """Another incident of the node that has not been dealt with and names one of the volumes."""
    for _, other in sorted(case.world.incidents.items()):
        if other.node != case.incident.node or other.uuid == case.incident.uuid:
            continue
        if not other.state.handled and {*failing_volumes(other.original)} & {*case.volumes}:
            return other
    return None
