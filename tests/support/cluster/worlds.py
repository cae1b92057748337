"""Small worlds of the maintenance daemon, and what has become of one after jobs of Ganeti."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import (
    DISK_TEMPLATES,
    LOCAL_STORAGE,
    Cluster,
    Disk,
    Group,
    Instance,
    MinMax,
    Node,
    Policy,
    Spec,
)
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.sent import Sent
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.world import Observation, World
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.effects import Effects

#: ns since the epoch; a Wednesday, 12:00 UTC.
NOW: Final = 1_767_787_200 * 10**9
SECOND: Final = 10**9

GROUP: Final = "g1"

#: MiB that one drbd or plain instance takes on each of its nodes for metadata.
_METADATA: Final = 128


#: Uuid -> name of each node group that `node` was given.
_GROUPS: Final[dict[str, str]] = {}

_Object = TypeVar("_Object", Node, Instance)


def uuid_of(name: str) -> str:
    """The uuid of the node or group of this name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def group(uuid: str, name: str, tags: Iterable[str] = ()) -> Group:
    """A node group that allows everything."""
    low, high = Spec(0, 1, 0, 0, 0, 1), Spec(65536, 64, 1048576, 16, 8, 16)
    policy = Policy((MinMax(low, high),), low, DISK_TEMPLATES, 16.0, 64.0)
    return Group(uuid, name, "preferred", frozenset(), policy, tuple(sorted(tags)))


def changed(one: _Object, **values: Any) -> _Object:
    """With other values of fields, or of what was sent, such as ``master`` and ``status``."""
    fields = {name: value for name, value in values.items() if name in one._fields}
    sent = {name: value for name, value in values.items() if name not in fields}
    return one._replace(**fields, sent=one.sent.having(**sent))


def with_node(before: World, name: str, **values: Any) -> World:
    """A world in which a node is `changed`."""
    nodes = [changed(one, **values) if one.name == name else one for one in before.cluster.nodes]
    return before._replace(cluster=before.cluster.replace(nodes))


def with_instance(before: World, name: str, **values: Any) -> World:
    """A world in which an instance is `changed`."""
    cluster = before.cluster
    instances = [changed(one, **values) if one.name == name else one for one in cluster.instances]
    return before._replace(cluster=cluster.replace(instances=instances))


def with_cluster_tags(before: World, tags: Iterable[str]) -> World:
    """A world in which the cluster has these tags."""
    old = before.cluster
    new = Cluster(old.groups, old.nodes, old.instances, sorted(tags), old.hypervisors)
    return before._replace(cluster=new)


def node(
    name: str,
    *,
    group: str = GROUP,
    memory: int = 16384,
    disk: int = 102400,
    cpus: int = 8,
    tags: Iterable[str] = (),
    **roles: Any,
) -> Node:
    """A node of 16 GiB and 100 GiB; ``roles``: as in `changed`.  ``memory``, ``disk``: MiB.

    Its free memory and disk are set by `world`.
    """
    _GROUPS[uuid_of(group)] = group
    made = Node(
        name=name,
        group=uuid_of(group),
        offline=False,
        drained=False,
        vm_capable=True,
        tags=tuple(sorted(tags)),
        exclusive_storage=False,
        total_memory=memory,
        reserved_memory=0,
        free_memory=memory,
        total_disk=disk,
        free_disk=disk,
        total_cpus=cpus,
        reserved_cpus=0,
        spindles=4,
        free_spindles=0,
    )
    return changed(made, **{"uuid": uuid_of(name), **roles})


def instance(
    name: str,
    *nodes: str,
    template: str = "",
    memory: int = 1024,
    disk: int = 10240,
    up: bool = True,
    tags: Iterable[str] = (),
    status: str = "",
) -> Instance:
    """An instance; on two nodes drbd, else diskless unless ``template`` is another.

    ``memory``, ``disk``: MiB.
    """
    template = template or ("drbd" if len(nodes) > 1 else "diskless")
    disks = () if template == "diskless" else (Disk(disk, None),)
    return Instance(
        name=name,
        memory=memory,
        vcpus=1,
        disk_space=disk + _METADATA if template in LOCAL_STORAGE else 0,
        disks=disks,
        template=template,
        spindle_use=1,
        tags=tuple(sorted(tags)),
        networks=(),
        state="up" if up else "down",
        forthcoming=False,
        nodes=nodes,
        sent=Sent({"status": status}),
    )


def incident(
    on: str, action: str = "evacuate", *, number: int = 1, command: str = "", **fields: Any
) -> Incident:
    """An incident of the node named ``on``; ``number`` makes it different from others."""
    original = {"status": action, "number": number} | ({"command": command} if command else {})
    made = Incident(
        uuid=uuid_of(f"{on} {action} {number}"),
        node=uuid_of(on),
        node_name=on,
        original=canonical(original),
        action=action,
        first_seen=NOW - 3600 * SECOND,
        observed_since=NOW - 3600 * SECOND,
        changed=NOW - 3600 * SECOND,
        progressed=NOW - 3600 * SECOND,
    )
    made = made._replace(tag=made.ready_tag)
    return made._replace(**fields)


def world(
    nodes: Iterable[Node],
    instances: Iterable[Instance] = (),
    incidents: Iterable[Incident] = (),
    observations: Mapping[str, Observation] | None = None,
    *,
    group_tags: Mapping[str, Iterable[str]] | None = None,
    cluster_tags: Iterable[str] = (),
    **fields: Any,
) -> World:
    """A world; ``observations``: by name of the node, ``fields``: other fields of World."""
    made, on_them = tuple(nodes), tuple(instances)
    names = {uuid: _GROUPS[uuid] for uuid in dict.fromkeys(one.group for one in made)}
    cluster = Cluster(
        [group(uuid, name, (group_tags or {}).get(name, ())) for uuid, name in names.items()],
        [_with_free(one, on_them) for one in made],
        on_them,
        sorted(cluster_tags),
        hypervisors=("xen-pvm",),
    )
    return World(
        **{"now": NOW, **fields},
        cluster=cluster,
        incidents={one.uuid: one for one in incidents},
        observations={uuid_of(name): seen for name, seen in (observations or {}).items()},
    )


def _with_free(figures: Node, instances: Iterable[Instance]) -> Node:
    here = [one for one in instances if figures.name in one.nodes]
    memory = sum(one.memory for one in here if one.nodes[0] == figures.name and one.uses_memory)
    disk = sum(one.disk_space for one in here)
    return figures._replace(
        free_memory=int(figures.total_memory) - memory, free_disk=int(figures.total_disk) - disk
    )


def after(before: World, jobs: Iterable[Job]) -> World:
    """The world after these jobs; raises JobFailed where Ganeti refuses one."""
    cluster = SimulatedCluster(before, lambda: before.now)
    cluster.dead |= {one.name for one in before.cluster.nodes if one.missing and not one.offline}
    effects = Effects(cluster)
    for operation in (one for job in jobs for one in job):
        effects.run(operation)
    nodes, instances = cluster.nodes.values(), cluster.instances.values()
    return before._replace(cluster=before.cluster.replace(nodes, instances))
