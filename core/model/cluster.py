"""The cluster as one immutable snapshot.

Built from an iallocator message (or any other source) and never changed; engines derive
their own figures from it.  Units everywhere: memory and disk in MiB, CPUs in virtual CPUs.

Groups, nodes and instances are kept in the order of their names, so that no decision
depends on the order in which a source happened to list them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ganeti_steward.core.model.sent import Sent
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.core.model.instance_details import DiskDetails, Nic

DISKLESS = "diskless"
#: Templates in the words of Ganeti, by what matters for placement (allocation 2.5).
INTERNALLY_MIRRORED = frozenset({"drbd"})
EXTERNALLY_MIRRORED = frozenset({DISKLESS, "sharedfile", "blockdev", "rbd", "ext", "gluster"})
FILE = "file"
NOT_MIRRORED = frozenset({"plain", FILE})
#: The only templates that take disk space and spindles of a node.
LOCAL_STORAGE = frozenset({"drbd", "plain"})
#: Metadata of one drbd disk, MiB.
DRBD_METADATA = 128
DISK_TEMPLATES = INTERNALLY_MIRRORED | EXTERNALLY_MIRRORED | NOT_MIRRORED

ALLOC_POLICIES = ("preferred", "last_resort", "unallocable")

#: Figures of a node without which it takes no instance, and those without which it takes none
#: with local storage (allocation 2.4); those of spindles count with exclusive storage only.
HYPERVISOR_FIGURES = (
    "total_memory",
    "reserved_memory",
    "free_memory",
    "total_cpus",
    "reserved_cpus",
)
SPINDLE_FIGURES = ("total_spindles", "free_spindles")
DISK_FIGURES = ("total_disk", "free_disk", *SPINDLE_FIGURES)


#: The condition of a node without figures that every instance needs.
SILENT = "silent"
#: Ganeti's statuses of instances that do not run; only some of them should.
NOT_RUNNING = ("ERROR_down", "ERROR_nodedown", "ERROR_nodeoffline")
#: Only of those that should run.
_DOWN = NOT_RUNNING[0]


class Spec(NamedTuple):
    """One bound of an instance policy."""

    memory: int
    """MiB"""
    vcpus: int
    """virtual CPUs"""
    disk: int
    """MiB of each disk"""
    disks: int
    """number of disks"""
    nics: int
    """number of network interfaces"""
    spindles: int
    """spindles used"""


class MinMax(NamedTuple):
    """One allowed range of an instance policy, both ends included."""

    min: Spec
    max: Spec


class Policy(NamedTuple):
    """An instance policy (allocation 2.3)."""

    minmax: tuple[MinMax, ...]
    """ranges; an instance must be in one of them"""
    std: Spec
    """default size of an instance"""
    templates: frozenset[str]
    """allowed disk templates"""
    vcpu_ratio: float
    """most virtual CPUs of instances for each physical CPU of their node"""
    spindle_ratio: float
    """most spindles of instances for each spindle of their node"""


class Group(NamedTuple):
    """A node group."""

    uuid: str
    name: str
    alloc_policy: str
    """preferred, last_resort or unallocable"""
    networks: frozenset[str]
    """uuids of connected networks"""
    policy: Policy
    """instance policy, including what it inherits from the cluster"""
    tags: tuple[str, ...]


class VolumeGroup(NamedTuple):
    """A volume group of a node, apart from the cluster's."""

    total: int
    """MiB"""
    free: int
    """MiB"""


class Node(NamedTuple):
    """A node; run-time figures are 0 unless it is live (allocation 2.4)."""

    name: str
    group: str
    """uuid of its node group"""
    offline: bool
    """Ganeti does not connect to it"""
    drained: bool
    """Ganeti places nothing on it"""
    vm_capable: bool
    """it may have instances"""
    tags: tuple[str, ...]
    exclusive_storage: bool
    """each of its physical volumes belongs to one instance at most"""
    total_memory: float
    """MiB"""
    reserved_memory: int
    """MiB of its own system"""
    free_memory: int
    """MiB"""
    total_disk: float
    """MiB"""
    free_disk: int
    """MiB"""
    total_cpus: float
    """physical CPUs"""
    reserved_cpus: int
    """physical CPUs of its own system"""
    spindles: int
    """spindle_count; with exclusive storage total_spindles"""
    free_spindles: int
    """with exclusive storage only"""
    cpu_speed: float = 1.0
    """relative to other nodes; always 1 in iallocator messages (allocation 2.4)"""
    own_load: float = 0.0
    """measured CPU load without that of its instances, in CPUs (allocation 3.4)"""
    missing: tuple[str, ...] = ()
    """keys in Ganeti's message of figures that it should report but does not"""
    volume_groups: Mapping[str, VolumeGroup] | None = None
    """by name, without the cluster's"""
    suspect: str = ""
    """why other nodes are used first: "reports suspect: ..."; or empty"""
    sent: Sent = Sent()
    """all that was sent"""

    @property
    def uuid(self) -> str:
        """Ganeti's uuid; not in Ganeti's messages to an allocator."""
        return self.sent.text("uuid")

    @property
    def primary_ip(self) -> str:
        """Address in the primary network."""
        return self.sent.text("primary_ip")

    @property
    def secondary_ip(self) -> str:
        """Address in the network for disks."""
        return self.sent.text("secondary_ip")

    @property
    def master(self) -> bool:
        """It is the master; known from a live cluster only."""
        return self.sent.flag("master") is True

    @property
    def master_candidate(self) -> bool | None:
        """It has a copy of the configuration."""
        return self.sent.flag("master_candidate")

    @property
    def master_capable(self) -> bool | None:
        """It may become a master candidate."""
        return self.sent.flag("master_capable")

    @property
    def primaries_memory(self) -> float | None:
        """MiB of all its primary instances, including stopped ones."""
        return self.sent.number("i_pri_memory")

    @property
    def primaries_up_memory(self) -> float | None:
        """MiB of its primary instances that should be up."""
        return self.sent.number("i_pri_up_memory")

    @property
    def silent(self) -> bool:
        """Figures of memory or CPUs are missing: it takes no instance."""
        return bool(self.missing) and any(key in HYPERVISOR_FIGURES for key in self.missing)

    @property
    def lacks_disk_figures(self) -> bool:
        """Disk figures are missing: it takes no local storage."""
        return bool(self.missing) and any(key in DISK_FIGURES for key in self.missing)

    @property
    def lack(self) -> str:
        """Missing figures: "does not report its free disk"."""
        if self.missing[: len(HYPERVISOR_FIGURES)] == HYPERVISOR_FIGURES:
            return "does not report its figures"
        return f"does not report its {', '.join(key.replace('_', ' ') for key in self.missing)}"

    @property
    def live(self) -> bool:
        """It reports figures of its own."""
        return not self.offline and self.vm_capable and not self.silent

    @property
    def usable(self) -> bool:
        """It may receive instances."""
        return self.live and not self.drained

    @property
    def condition(self) -> str:
        """Why it is unusable, in one or two words; empty: usable."""
        if self.offline:
            return "offline"
        if not self.vm_capable:
            return "not vm_capable"
        if self.silent:
            return SILENT
        return "drained" if self.drained else ""


class Disk(NamedTuple):
    """One disk of an instance."""

    size: int
    """MiB"""
    spindles: int | None
    """number"""
    volume_group: str = ""
    """with local storage; empty: the cluster's"""
    metadata_group: str = ""
    """of its metadata with drbd; empty: the cluster's"""


class Instance(NamedTuple):
    """An instance, existing or new."""

    name: str
    memory: int
    """MiB"""
    vcpus: int
    """virtual CPUs"""
    disk_space: int
    """MiB on each of its nodes, including metadata"""
    disks: tuple[Disk, ...]
    template: str
    """disk template"""
    spindle_use: int
    """spindles it uses"""
    tags: tuple[str, ...]
    networks: tuple[str, ...]
    """uuids of its networks"""
    state: str
    """wanted state: up, down or offline"""
    forthcoming: bool
    """only its place is reserved: no disks or memory yet"""
    nodes: tuple[str, ...]
    """names: primary, then secondary; empty for a new instance"""
    auto_balance: bool = True
    """balancing may move it, and its secondary reserves memory for it"""
    cpu_load: float = 1.0
    """CPU load on its primary, in CPUs; 1: not measured (allocation 3.4)"""
    other_loads: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """load of memory, disk and network; 1: not given (allocation 3.4)"""
    sent: Sent = Sent()
    """all that was sent"""

    @property
    def uuid(self) -> str:
        """Ganeti's uuid; not in Ganeti's messages to an allocator."""
        return self.sent.text("uuid")

    @property
    def primary(self) -> str:
        """Name of its primary node."""
        return self.nodes[0]

    @property
    def secondaries(self) -> tuple[str, ...]:
        """Names of its secondary nodes."""
        return self.nodes[1:]

    @property
    def up(self) -> bool:
        """It should run."""
        return self.state == "up"

    @property
    def status(self) -> str:
        """Ganeti's word, such as running, ADMIN_down or ERROR_nodedown."""
        return self.sent.text("status")

    @property
    def down(self) -> bool:
        """It should run, but does not, as Ganeti reports it.

        On a node that is offline or does not answer, this includes stopped instances.
        """
        return self.status == _DOWN or (self.up and self.status in NOT_RUNNING)

    @property
    def os(self) -> str:
        """Its operating system."""
        return self.sent.text("os")

    @property
    def hypervisor(self) -> str:
        """One of the cluster's hypervisors."""
        return self.sent.text("hypervisor")

    @property
    def nics(self) -> tuple[Nic, ...]:
        """Its network interfaces."""
        from ganeti_steward.core.model.instance_details import nics_of  # few requests need it

        return nics_of(self.sent)

    @property
    def disk_details(self) -> tuple[DiskDetails, ...]:
        """What was sent of its disks apart from sizes and spindles."""
        from ganeti_steward.core.model.instance_details import disk_details_of

        return disk_details_of(self.sent)

    @property
    def fails_over(self) -> bool:
        """A migration with ``allow_failover`` becomes a failover in Ganeti.

        It does where nothing runs that could migrate, and where its backend parameter
        ``always_failover`` is set; a live cluster only sends the latter and whether it runs.
        """
        stopped = self.state != "up" or self.forthcoming or self.sent.flag("running") is False
        return stopped or self.sent.flag("always_failover") is True

    @property
    def uses_memory(self) -> bool:
        """It takes memory on its primary (allocation 3.1)."""
        return self.state == "up" and not self.forthcoming

    @property
    def counts_vcpus(self) -> bool:
        """It takes CPUs on its primary."""
        return self.state != "offline"

    @property
    def reserved(self) -> int:
        """MiB that its secondary reserves for it."""
        return 0 if self.state == "offline" or not self.auto_balance else self.memory

    @property
    def local(self) -> bool:
        """It takes disk space of its nodes."""
        return self.template in LOCAL_STORAGE

    @property
    def elsewhere(self) -> dict[str, int]:
        """Volume group -> MiB on each of its nodes, without the cluster's.

        It is a part of ``disk_space``.
        """
        found: dict[str, int] = {}
        for disk in self.disks if self.local else ():
            metadata = DRBD_METADATA if self.template == "drbd" else 0
            for group, size in (disk.volume_group, disk.size), (disk.metadata_group, metadata):
                if group and size:
                    found[group] = found.get(group, 0) + size
        return found

    @property
    def spindles(self) -> int | None:
        """Sum of its disks' spindles."""
        total = 0
        for disk in self.disks:
            if disk.spindles is None:
                return None
            total += disk.spindles
        return total


class Cluster:
    """All groups, nodes and instances."""

    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...]
    tags: tuple[str, ...]
    """of the cluster itself"""
    hypervisors: tuple[str, ...]
    """enabled ones, the default first"""
    name: str
    policy: Policy | None
    """for information; each group has its own"""
    volume_group: str
    """the one of the nodes' disk figures"""
    group_index: dict[str, int]
    """uuid -> position in ``groups``"""
    node_index: dict[str, int]
    """name -> position in ``nodes``"""
    instance_index: dict[str, int]
    """name -> position in ``instances``"""

    def __init__(
        self,
        groups: Iterable[Group],
        nodes: Iterable[Node],
        instances: Iterable[Instance],
        tags: Iterable[str] = (),
        hypervisors: Iterable[str] = (),
        name: str = "",
        policy: Policy | None = None,
        volume_group: str = "",
    ) -> None:
        put = super().__setattr__
        put("groups", tuple(sorted(groups, key=lambda group: (group.name, group.uuid))))
        put("nodes", tuple(sorted(nodes, key=_by_name)))
        put("instances", tuple(sorted(instances, key=_by_name)))
        put("tags", tuple(tags))
        put("hypervisors", tuple(hypervisors))
        put("name", name)
        put("policy", policy)
        put("volume_group", volume_group)
        put("group_index", {group.uuid: i for i, group in enumerate(self.groups)})
        put("node_index", {node.name: i for i, node in enumerate(self.nodes)})
        put("instance_index", {inst.name: i for i, inst in enumerate(self.instances)})

    def __reduce__(self) -> tuple[Any, ...]:
        return Cluster, (self.groups, self.nodes, self.instances, *self._own)

    @property
    def _own(self) -> tuple[Any, ...]:
        return self.tags, self.hypervisors, self.name, self.policy, self.volume_group

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a cluster snapshot cannot be changed ({name})")

    def replace(
        self,
        nodes: Iterable[Node] | None = None,
        instances: Iterable[Instance] | None = None,
        groups: Iterable[Group] | None = None,
        tags: Iterable[str] | None = None,
    ) -> Cluster:
        """The same cluster with these changes."""
        return Cluster(
            self.groups if groups is None else groups,
            self.nodes if nodes is None else nodes,
            self.instances if instances is None else instances,
            self.tags if tags is None else tags,
            *self._own[1:],
        )

    def is_tagged(self, prefix: str | tuple[str, ...]) -> bool:
        """It, a group or a node has a tag with such a prefix."""
        places = [self.tags, *(one.tags for one in self.groups), *(one.tags for one in self.nodes)]
        return any(tag.startswith(prefix) for tags in places for tag in tags)

    @cached_property
    def nodes_by_uuid(self) -> Mapping[str, Node]:
        """Uuid -> node, if uuids were sent."""
        return {node.uuid: node for node in self.nodes}

    @cached_property
    def instances_by_name(self) -> Mapping[str, Instance]:
        """Name -> instance."""
        return {one.name: one for one in self.instances}

    @cached_property
    def groups_by_uuid(self) -> Mapping[str, Group]:
        """Uuid -> node group."""
        return {group.uuid: group for group in self.groups}

    def instance(self, name: str) -> Instance:
        """Raises KeyError."""
        return self.instances[self.instance_index[name]]

    def node(self, name: str) -> Node:
        """Raises KeyError."""
        return self.nodes[self.node_index[name]]

    def group(self, uuid: str) -> Group:
        """Raises KeyError."""
        return self.groups[self.group_index[uuid]]

    def groups_named(self, name: str) -> list[int]:
        """Positions of the groups with this name or uuid."""
        return [i for i, group in enumerate(self.groups) if name in (group.name, group.uuid)]


_Named = TypeVar("_Named", Node, Instance)


def _by_name(item: _Named) -> str:
    return item.name
