"""What the repair of physical volumes looks at: one incident, and the storage of its node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ganeti_steward.core.model.cluster import LOCAL_STORAGE, NOT_MIRRORED, Instance, Node
from ganeti_steward.core.model.finding import MISSING
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.incident import CLOSED_TAG, OPT_OUT_TAG, Incident
from ganeti_steward.plugins.model.storage import (
    DEGRADED,
    FAULTY,
    GOOD,
    UNKNOWN,
    LogicalVolume,
    NodeStorage,
    PhysicalVolume,
    failing_volumes,
)
from ganeti_steward.plugins.model.world import Reported, World


class StorageCase(NamedTuple):
    """An incident whose report names failing physical volumes."""

    incident: Incident
    node: Node
    world: World
    volumes: tuple[str, ...]
    """names of the failing physical volumes"""
    storage: NodeStorage
    """of the node, as it is now"""
    settings: Maintd = Maintd()

    @property
    def named(self) -> list[str]:
        """The failing volumes the report has a name for."""
        return [one for one in self.volumes if one != MISSING]

    def present(self) -> list[PhysicalVolume]:
        """The failing volumes that LVM still finds."""
        return [volume for volume in self.storage.physical if self._is_named(volume)]

    def _is_named(self, volume: PhysicalVolume) -> bool:
        return volume.name in self.named

    @property
    def missing(self) -> int:
        """How many physical volumes of the node LVM misses."""
        return sum(volume.name == MISSING for volume in self.storage.physical)

    @property
    def has_missing(self) -> bool:
        """Whether LVM misses any; it changes nothing in the volume group then."""
        return self.missing > 0

    @property
    def is_closed(self) -> bool:
        """Whether the node has the tag of the closing."""
        return self.incident.closed_tag in self.node.tags

    def taken_over(self) -> list[str]:
        """Tags of closings that this one takes over from incidents that are forgotten.

        None while anything else is closed, which such a tag may be about.
        """
        closed = {volume.name for volume in self.storage.physical if not volume.allocatable}
        if closed - {*self.named, MISSING}:
            return []
        known = {incident.closed_tag for incident in self.world.incidents.values()}
        return sorted(
            tag
            for tag in {*self.node.tags} - known - {self.incident.closed_tag}
            if tag.startswith(CLOSED_TAG)
        )

    def to_close(self) -> list[str]:
        """Failing volumes that are still open; LVM closes none while one is missing."""
        return (
            []
            if self.has_missing
            else [volume.name for volume in self.present() if volume.allocatable]
        )

    def unknown_volumes(self) -> str:
        """What is wrong with the names of the report; empty when they can be right.

        A volume that was closed may be gone: it is missing now, or was taken out of the group.
        """
        known = {volume.name for volume in self.storage.physical}
        unknown = [one for one in self.named if one not in known]
        if not unknown or self.is_closed or self.has_missing:
            return ""
        return (
            f"nothing is closed: {', '.join(unknown)} is none of the physical volumes of node "
            f"{self.node.name} ({', '.join(sorted(known)) or 'none'})"
        )

    def open_space(self) -> float:
        """Free MiB on the volumes of the node that are there, open and not named as failing."""
        return sum(
            volume.free
            for volume in self.storage.physical
            if volume.allocatable and volume.name != MISSING and not self._is_named(volume)
        )

    def parts(self) -> list[LogicalVolume]:
        """Logical volumes on failing or missing physical volumes."""
        good = {volume.name for volume in self.storage.physical if not self._is_named(volume)} - {
            MISSING
        }
        return [volume for volume in self.storage.logical if volume.on not in good]

    def copy_is_synced(self, instance: Instance) -> bool:
        """Whether all copies on other nodes are good and complete, as Ganeti requires in place."""
        others = [one for one in instance.nodes if one != self.node.name]
        return all(self._state(instance, one) == GOOD for one in others)

    def is_synced(self, instance: Instance) -> bool:
        """Whether the disks are good on all nodes of the instance."""
        return self._state(instance, self.node.name) == GOOD and self.copy_is_synced(instance)

    def is_lost_primary(self, instance: Instance) -> bool:
        """Whether it runs with the disks of another node only: Ganeti does not migrate it."""
        here = self.node.name
        return instance.primary == here and self._state(instance, here) == FAULTY

    def can_be_rebuilt(self, instance: Instance) -> bool:
        """Whether its lost disks can be copied back to this node while it runs here."""
        if OPT_OUT_TAG in instance.tags:
            return False
        return self.is_lost_primary(instance) and self.copy_is_synced(instance)

    def affected(self) -> list[Instance]:
        """Instances on failing or missing volumes, and those whose volumes were taken away."""
        names = {volume.instance for volume in self.parts()}
        return [
            instance
            for instance in self.world.instances_on(self.node.name)
            if instance.name in names
            or (self.is_lost_primary(instance) and self._lacks_volumes(instance))
        ]

    def _lacks_volumes(self, instance: Instance) -> bool:
        """Whether some of its volumes are gone, as after the repair of the volume group."""
        found = {volume.name for volume in self.storage.logical if volume.instance == instance.name}
        # Each disk has two volumes, for data and metadata.
        return len(found) < 2 * len(instance.disks)

    def is_group_next(self) -> bool:
        """Whether the volume group has to be repaired before what is left can be rebuilt here."""
        left = self.affected()
        if not self.has_missing or not all(map(self.can_be_rebuilt, left)):
            return False
        if not {one.instance for one in self.parts()} <= {one.name for one in left}:
            return False
        return sum(instance.disk_space for instance in left) <= self.open_space()

    def primary_fault(self, instance: Instance) -> str:
        """Why nothing can be done to an instance that runs here; empty when something can be.

        Ganeti migrates what is good on both sides, and rebuilds disks that are lost.
        """
        state = self._state(instance, self.node.name)
        if instance.primary != self.node.name or state in (GOOD, FAULTY):
            return ""
        return _state_fault(state, self.node.name)

    def _state(self, instance: Instance, node: str) -> str:
        return self.storage.sides.get(instance.name, {}).get(node, UNKNOWN)

    def copy_fault(self, instance: Instance) -> str:
        """Why the instance has no good copy of its disks on another node; empty when it has."""
        others = [name for name in instance.nodes if name != self.node.name]
        if instance.template in NOT_MIRRORED or not others:
            return f"its disks are on this node only (template {instance.template})"
        faults = (self._side_fault(instance, name) for name in others)
        return "; ".join(filter(None, faults))

    def _side_fault(self, instance: Instance, other: str) -> str:
        node, state = self.node.name, self._state(instance, other)
        if state == GOOD:
            return ""
        if state == DEGRADED and self._state(instance, node) == FAULTY:
            # The sides are not connected.  The primary's is the one that is written.
            return "" if instance.primary == other else _lost_alone(node, other)
        return _state_fault(state, other)


def _state_fault(state: str, node: str) -> str:
    if state == UNKNOWN:
        return f"the state of its disks on {node} is not known (gnt-instance activate-disks)"
    return f"its disks on {node} are {state}"


def _lost_alone(node: str, other: str) -> str:
    """A failover may lose what was written last."""
    return (
        f"its disks on {node} are lost, so it cannot be migrated: if those on {other} are "
        "complete, fail it over (gnt-instance failover --ignore-consistency)"
    )


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
    others = {node for instance in world.instances_on(name) for node in instance.nodes} - {name}
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
    closed = f"{', '.join(case.volumes)} of node {node} stays closed"
    report = case.world.observations.get(case.node.uuid)
    if not isinstance(report, Reported):
        return f"{closed}: node {node} gives no valid report"
    still = {*failing_volumes(report.original)} & {*case.volumes}
    if still or report.object_id == case.incident.object_id:
        return f"{closed}: node {node} still reports {', '.join(sorted(still)) or 'the same'}"
    if case.has_missing:
        return f"{closed}: a physical volume of the node is missing, LVM changes nothing then"
    if other := _other_incident(case):
        return f"{closed}: incident {other.uuid} ({other.status}) names it, too"
    absent = sorted({*case.named} - {volume.name for volume in case.present()})
    if absent:
        return (
            f"{closed}: the node has no physical volume {', '.join(absent)}; add it to the volume "
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
