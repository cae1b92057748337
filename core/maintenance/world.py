"""The world as the maintenance daemon sees it at one moment: nothing here changes or does I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.maintenance.disks import DiskHealth
from ganeti_steward.core.maintenance.incident import OPT_OUT_TAG, STOPPED_TAG, Incident
from ganeti_steward.core.maintenance.kept_object import object_id
from ganeti_steward.core.maintenance.orphan import OrphanJob
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.storage import NodeStorage
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.finding import OK
from ganeti_steward.core.model.job_state import JobState

#: ns for which a node counts as off after its out-of-band program has reported it.
OFF_LIMIT: Final = 600 * 10**9


class Reported(NamedTuple):
    """A node's report, checked and fresh."""

    original: bytes
    """the diagnose object, as canonical JSON"""
    status: str
    """its status: Ok, live-repair, evacuate or evacuate-failover"""
    command: str
    """its repair command; empty when it names none"""
    at: int
    """when it was taken, ns since the epoch"""

    @property
    def object_id(self) -> str:
        """What stands for the diagnose object: equal for equal objects only."""
        return object_id(self.original)

    @property
    def ill(self) -> bool:
        """Whether something is to be done about the node."""
        return self.status != OK


class Silent(NamedTuple):
    """The node gave no report: neither healthy nor ill."""

    since: int
    """ns since the epoch"""
    why: str


class Refused(NamedTuple):
    """The node gave a report that counts for nothing: badly signed, of another node, too old."""

    since: int
    """ns since the epoch"""
    why: str


Observation = Reported | Silent | Refused


class GroupFacts(NamedTuple):
    """A node group."""

    uuid: str
    name: str
    tags: frozenset[str] = frozenset()


class NodeFacts(NamedTuple):
    """A node and its roles, from Ganeti's configuration."""

    uuid: str
    name: str
    group: str
    """uuid of its node group"""
    tags: frozenset[str] = frozenset()
    master: bool = False
    master_candidate: bool = False
    offline: bool = False
    drained: bool = False
    vm_capable: bool = True
    address: str = ""
    """primary IP address"""
    master_capable: bool = True
    """whether Ganeti may make it a master candidate"""


class InstanceFacts(NamedTuple):
    """An instance and where it is, from Ganeti's configuration."""

    name: str
    primary: str
    """name of its primary node"""
    secondaries: tuple[str, ...] = ()
    """names of its secondary nodes"""
    template: str = ""
    """disk template"""
    up: bool = True
    """whether it is meant to run (admin_state)"""
    tags: frozenset[str] = frozenset()
    status: str = ""
    """Ganeti's word for it, such as running, ADMIN_down, ERROR_down or ERROR_nodedown; empty: not
    known"""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of its nodes, the primary first."""
        return (self.primary, *self.secondaries)


class World(NamedTuple):
    """Everything a plugin may look at; what it remembers itself would be lost in a restart."""

    now: int
    """ns since the epoch"""
    cluster: Cluster
    """the cluster as an allocator sees it"""
    nodes: Mapping[str, NodeFacts]
    """uuid -> node"""
    instances: Mapping[str, InstanceFacts]
    """name -> instance"""
    groups: Mapping[str, GroupFacts] = MappingProxyType({})
    """uuid -> node group"""
    cluster_tags: frozenset[str] = frozenset()
    candidate_pool_size: int = 10
    """master candidates Ganeti wants to have"""
    incidents: Mapping[str, Incident] = MappingProxyType({})
    """uuid -> incident"""
    observations: Mapping[str, Observation] = MappingProxyType({})
    """uuid of a node -> its last observation"""
    reserved_nodes: frozenset[str] = frozenset()
    """names of nodes that tasks of this round, or tasks still running, use"""
    reserved_instances: frozenset[str] = frozenset()
    """names of instances that tasks of this round, or tasks still running, use"""
    avoided_nodes: Mapping[str, str] = MappingProxyType({})
    """name of a node nothing may be moved to -> why: ill, under repair, failed"""
    passing_nodes: frozenset[str] = frozenset()
    """names of those of them that are avoided for a short time only: a live-repair is running, or
    a report is younger than the hold time"""
    routine: tuple[RoutineJob, ...] = ()
    """the jobs of routine work: those that have not ended, and those that ended within the last
    hour"""
    orphans: tuple[OrphanJob, ...] = ()
    """jobs of repairs that no record knows and that have not ended"""
    tagged_jobs: Mapping[int, JobState] = MappingProxyType({})
    """number -> state of each job that a tag of an instance names as a repair in progress"""
    disks: Mapping[str, DiskHealth] = MappingProxyType({})
    """name of an instance -> what the last check of its disks found"""
    load_reports: Mapping[str, Any] = MappingProxyType({})
    """name of a node -> its monitoring daemon's report of CPU load, where one is configured to be
    read"""
    load_fault: str = ""
    """why there are no such reports; empty when there are, or when none are wanted"""
    since: Mapping[str, int] = MappingProxyType({})
    """subject -> since when (ns since the epoch) each round had a task or a wait about it from the
    plugin of routine work that is called, and likewise ``subject #mark`` of a wait with a mark; the
    daemon forgets it in a restart"""
    storage: Mapping[str, NodeStorage] = MappingProxyType({})
    """name of a node -> its storage; only of nodes that report failing physical volumes"""

    def is_stopped(self, name: str) -> bool:
        """Whether it is certain that no instance runs on a node any more.

        An admin has confirmed it by a tag with the uuid of an incident of the node or of the node
        itself, or Ganeti's out-of-band program reported within the last ten minutes that it has no
        power.
        """
        node = next((one for one in self.nodes.values() if one.name == name), None)
        if node is None:
            return False
        # Of one that has ended well the node may have been repaired, and used, since.
        incidents = [
            one for one in self.incidents.values() if one.node == node.uuid and one.state.avoided
        ]
        words = {STOPPED_TAG + node.uuid, *(one.stopped_tag for one in incidents)}
        return not words.isdisjoint(node.tags) or any(
            one.off_at and self.now - one.off_at <= OFF_LIMIT for one in incidents
        )

    def excluded_nodes(self) -> frozenset[str]:
        """Names of the nodes that have the tag of exclusion, themselves or by their group."""
        groups = {uuid for uuid, group in self.groups.items() if OPT_OUT_TAG in group.tags}
        return frozenset(
            one.name
            for one in self.nodes.values()
            if OPT_OUT_TAG in one.tags or one.group in groups
        )

    def answers(self, name: str) -> bool:
        """Whether the node daemon of a node has answered."""
        at = self.cluster.node_index.get(name)
        return at is not None and self.cluster.nodes[at].live

    def instances_on(self, name: str) -> Iterator[InstanceFacts]:
        """The instances with that node as primary or secondary, by name."""
        for _, instance in sorted(self.instances.items()):
            if name in instance.nodes:
                yield instance


def diagnose_object(original: bytes) -> dict[str, Any]:
    """The diagnose object of an incident or a report."""
    found: dict[str, Any] = load_json(original)
    return found
