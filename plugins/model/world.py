"""The world as the maintenance daemon sees it at one moment: nothing here changes or does I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.allocators.loads.agent_loads import NodeLoad
from ganeti_steward.allocators.rolling.hypervisors import Hypervisor, Hypervisors
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.model.cluster import Cluster, Group, Instance, Node
from ganeti_steward.core.model.finding import OK, SUSPECT, object_id
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.model.cause import suspicion
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, STOPPED_TAG, Incident
from ganeti_steward.plugins.model.orphan import OrphanJob
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.storage import NodeStorage

#: ns for which a node counts as off after its out-of-band program has reported it.
OFF_LIMIT: Final = 600 * 10**9


#: Seconds after its last try in which Ganeti's watcher knows its tries (RETRY_EXPIRATION).
WATCHER_MEMORY: Final = 8 * 3600

#: ns for which the state of disks counts.
_DISKS_LIMIT: Final = 120 * 10**9


class Reboot(NamedTuple):
    """Since when a node runs, and whether it has to be started again."""

    required: tuple[str, ...] | None
    """why a reboot is required, a text each; empty: it is not, None: not known"""
    booted: int | None
    """s since the epoch; None: not known"""


class Reported(NamedTuple):
    """A node's report, checked and fresh."""

    original: bytes
    """the diagnose object, as canonical JSON"""
    status: str
    """its status: Ok, suspect, live-repair, evacuate or evacuate-failover"""
    command: str
    """its repair command; empty when it names none"""
    at: int
    """when it was taken, ns since the epoch"""
    boot: str = ""
    """the boot id of the node when it was taken; empty where the agent does not report it"""
    linked: tuple[str, ...] | None = None
    """addresses of nodes with which it had a DRBD connection then, sorted; None: not reported"""
    unreached: tuple[str, ...] | None = None
    """addresses of nodes whose machines did not answer it then, sorted; None: it did not look, as
    only master candidates do"""
    volume_groups: Mapping[str, tuple[int, int]] | None = None
    """name -> total and free MiB; None: not reported"""
    ahead: int | None = None
    """seconds by which its clock was ahead of the master's at the poll; None: not known"""
    load: NodeLoad | None = None
    """how busy it was; None: not known"""
    reboot: Reboot = Reboot(None, None)
    hypervisor: Hypervisor | None = None
    """QEMU, the CPU and how instances run; None: not reported"""
    takes_over: bool = False
    """whether its agent may make it the master"""

    @property
    def object_id(self) -> str:
        """What stands for the diagnose object: equal for equal objects only."""
        return object_id(self.original)

    @property
    def needs_repair(self) -> bool:
        """Whether something is to be done about the node; not where it is suspect only."""
        return self.status not in (OK, SUSPECT)

    @property
    def suspicion(self) -> str:
        """Why other nodes are used before this one; see `ganeti_steward.plugins.model.cause`."""
        return suspicion(diagnose_object(self.original))


class Silent(NamedTuple):
    """The node gave no report: neither healthy nor ill."""

    since: int
    """ns since the epoch"""
    why: str
    gone: bool = False
    """whether not even the kernel of its machine has answered at the last poll"""


class Refused(NamedTuple):
    """The node gave a report that is ignored: badly signed, of another node, too old."""

    since: int
    """ns since the epoch"""
    why: str


Observation = Reported | Silent | Refused


class Starts(NamedTuple):
    """How often Ganeti's watcher has started an instance within the time that it remembers."""

    number: int
    """jobs"""
    first: int
    """when it submitted the first of them, ns since the epoch"""
    last: int
    """when it submitted the last one"""
    job: int
    """Ganeti's number of the last one"""
    error: str = ""
    """why that one failed; empty when it did not, or has not ended"""


class Watcher(NamedTuple):
    """What Ganeti's watcher does; read while an instance is down though its node is up."""

    starts: Mapping[str, Starts] = MappingProxyType({})
    """name of such an instance -> its starts; missing: none"""
    paused: int = 0
    """until when it is paused, ns since the epoch; 0: it is not"""


class Succession(NamedTuple):
    """What has to be known before another node is made the master."""

    current: frozenset[str] = frozenset()
    """primary addresses of the master candidates that have the latest configuration known"""
    jobs: tuple[int, ...] = ()
    """numbers of all jobs of the queue that have not ended, those of other users as well"""


class World(NamedTuple):
    """Everything a plugin may look at; what it remembers itself would be lost in a restart."""

    now: int
    """ns since the epoch"""
    cluster: Cluster
    """nodes, instances and node groups with all that Ganeti's configuration has of them"""
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
    old_copies: Mapping[str, str] = MappingProxyType({})
    """name of a drbd instance whose primary does not answer -> why its other copy may lack what was
    written last; empty: it was in sync.  One that is missing here was not judged."""
    load_reports: Mapping[str, Any] = MappingProxyType({})
    """name of a node -> its monitoring daemon's report of CPU load, where one is configured to be
    read"""
    load_fault: str = ""
    """why there are no such reports; empty when there are, or when none are wanted"""
    since: Mapping[str, int] = MappingProxyType({})
    """subject -> since when (ns since the epoch) each round had a task or a wait about it from the
    plugin of routine work that is called; the daemon forgets it in a restart"""
    marked: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """subject -> mark -> since when each round had a wait about it with that mark, as ``since``"""
    storage: Mapping[str, NodeStorage] = MappingProxyType({})
    """name of a node -> its storage; only of nodes that report failing physical volumes"""

    watcher: Watcher = Watcher()
    """of instances that are down though their node is up"""
    gates: tuple[str, ...] = ()
    """why no maintenance may begin now, a sentence of each plugin that has a reason; only while
    one is requested that has not begun"""
    unclean: tuple[str, ...] | None = ()
    """what ``gnt-cluster verify-disks`` found in this round, a sentence each; None: it was not run,
    though a maintenance is requested that has not begun"""

    succession: Succession | None = None
    """read only while the master's maintenance may make another node the master; None: not known"""

    def with_suspicions(self) -> World:
        """The same, its nodes with what they report; of one that does not, nothing changes."""
        suspicions = {
            uuid: seen.suspicion
            for uuid, seen in self.observations.items()
            if isinstance(seen, Reported) and uuid in self.nodes
        }
        if all(self.nodes[uuid].suspect == why for uuid, why in suspicions.items()):
            return self
        nodes = (
            node._replace(suspect=suspicions.get(node.uuid, node.suspect))
            for node in self.cluster.nodes
        )
        return self._replace(cluster=self.cluster.replace(nodes))

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Uuid -> node."""
        return self.cluster.nodes_by_uuid

    @property
    def instances(self) -> Mapping[str, Instance]:
        """Name -> instance."""
        return self.cluster.instances_by_name

    @property
    def groups(self) -> Mapping[str, Group]:
        """Uuid -> node group."""
        return self.cluster.groups_by_uuid

    @property
    def cluster_tags(self) -> frozenset[str]:
        """The tags of the cluster itself."""
        return frozenset(self.cluster.tags)

    def node(self, name: str) -> Node | None:
        """The node of this name; None when there is none."""
        index = self.cluster.node_index.get(name)
        return None if index is None else self.cluster.nodes[index]

    def is_stopped(self, name: str) -> bool:
        """Whether it is certain that no instance runs on a node any more.

        An admin has confirmed it by a tag with the uuid of an incident of the node or of the node
        itself, and Ganeti has not reached the node since, or Ganeti's out-of-band program reported
        within the last ten minutes that it has no power.
        """
        node = self.node(name)
        if node is None:
            return False
        # Of one that has ended well the node may have been repaired, and used, since.
        incidents = [
            one for one in self.incidents.values() if one.node == node.uuid and one.state.avoided
        ]
        words = {STOPPED_TAG + node.uuid}.union(*(one.stopped_tags for one in incidents))
        confirmed = not (words.isdisjoint(node.tags) or any(one.answered for one in incidents))
        return confirmed or any(
            one.off_at and self.now - one.off_at <= OFF_LIMIT for one in incidents
        )

    def excluded_nodes(self) -> frozenset[str]:
        """Names of the nodes that have the tag of exclusion, themselves or by their group."""
        groups = {uuid for uuid, group in self.groups.items() if OPT_OUT_TAG in group.tags}
        return frozenset(
            one.name for one in self.cluster.nodes if OPT_OUT_TAG in one.tags or one.group in groups
        )

    def answers(self, name: str) -> bool:
        """Whether the node daemon of a node has answered."""
        node = self.node(name)
        return node is not None and node.live

    def disk_health(self, name: str) -> DiskHealth | None:
        """The state of an instance's disks; None where it was not read lately."""
        found = self.disks.get(name)
        fresh = found is not None and self.now - found.at <= _DISKS_LIMIT
        return found if fresh else None

    def running_on(self, name: str) -> list[Instance]:
        """The instances that are meant to run on the node of this name, by name."""
        return [one for one in self.instances_on(name) if one.uses_memory and one.primary == name]

    def down_on_live_nodes(self) -> list[Instance]:
        """The instances that are meant to run, and do not, though their node answers; by name."""
        return [
            one
            for one in self.cluster.instances
            if one.uses_memory and one.status == "ERROR_down" and self.answers(one.primary)
        ]

    def left_running_on(self, name: str) -> list[str]:
        """Names of the instances that run there though they are marked down (ERROR_up)."""
        own = (one for one in self.instances_on(name) if one.primary == name)
        return [one.name for one in own if one.status == "ERROR_up"]

    def instances_on(self, name: str) -> Iterator[Instance]:
        """The instances with that node as primary or secondary, by name."""
        return (instance for instance in self.cluster.instances if name in instance.nodes)


def reported_hypervisors(
    observations: Mapping[str, Observation], names: Mapping[str, str]
) -> Hypervisors:
    """What nodes report of QEMU and their CPUs, by their last reports.

    ``observations``: uuid of a node -> what it shows; ``names``: uuid -> name.
    """
    return Hypervisors(
        {
            names[uuid]: seen.hypervisor
            for uuid, seen in observations.items()
            if uuid in names and isinstance(seen, Reported) and seen.hypervisor
        }
    )


def diagnose_object(original: bytes) -> dict[str, Any]:
    """The diagnose object of an incident or a report."""
    found: dict[str, Any] = load_json(original)
    return found
