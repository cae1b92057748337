"""A running cluster as the same snapshot that Ganeti's own message to an allocator gives.

The answers of luxid or RAPI are turned into the objects of such a message and read as one, so
that there is one set of checks and messages.  Figures are computed as Ganeti computes them for its
message (allocation 2); what the message lacks is put in afterwards.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ganeti_steward.core import builtins
from ganeti_steward.core.errors import BadInput, StewardError
from ganeti_steward.core.ganeti.shapes import returned_by
from ganeti_steward.core.model.cluster import LOCAL_STORAGE, Cluster
from ganeti_steward.core.model.cluster_reader import disk_space, read_cluster
from ganeti_steward.core.model.job_state import SUCCESS, JobState

_Row = dict[str, Any]

_GROUP_FIELDS: Final = ("uuid", "name", "alloc_policy", "ipolicy", "tags")
#: Key of a node in Ganeti's message -> luxid's field; `_node` corrects those of memory and disk.
_NODE: Final = {
    "uuid": "uuid",
    "group": "group.uuid",
    "primary_ip": "pip",
    "secondary_ip": "sip",
    "master": "master",
    "master_candidate": "master_candidate",
    "master_capable": "master_capable",
    "offline": "offline",
    "drained": "drained",
    "vm_capable": "vm_capable",
    "tags": "tags",
    "ndparams": "ndparams",
    "total_memory": "mtotal",
    "reserved_memory": "mnode",
    "free_memory": "mfree",
    "total_disk": "dtotal",
    "free_disk": "dfree",
    "total_spindles": "sptotal",
    "free_spindles": "spfree",
    "total_cpus": "ctotal",
    "reserved_cpus": "cnos",
}
#: Of each interface; Ganeti lists all macs of an instance as ``nic.macs``, and so on.
_NIC_KEYS: Final = ("mac", "ip", "mode", "link", "network")
_INSTANCE_FIELDS: Final = (
    "name",
    "uuid",
    "pnode",
    "snodes",
    "admin_state",
    "status",
    "disk_template",
    "disk.sizes",
    "disk.spindles",
    *(f"nic.{key}s" for key in _NIC_KEYS),
    "beparams",
    "tags",
    "oper_ram",
    "os",
    "hypervisor",
    "forthcoming",
)
_NETWORK_FIELDS: Final = ("uuid", "name", "group_list")

#: Template -> Ganeti's kind of storage, for the kinds nodes report space of.
_STORAGE: Final = {"drbd": "lvm-vg", "plain": "lvm-vg", "file": "file"}
#: Seconds until the nodes have reported their storage, where that is required; otherwise less: a
#: running job may hold it up for hours.
_REQUIRED_WITHIN: Final = 120.0
_WAITED_FOR: Final = 20.0


class Client(Protocol):
    """What a cluster is read through: `luxi.Luxi` or `rapi.Rapi`."""

    @property
    def where(self) -> str:
        """The place, for messages."""

    def info(self) -> _Row:
        """What is known of the cluster as a whole."""

    def rows(self, what: str, fields: Sequence[str]) -> list[_Row]:
        """All objects of one kind; a field without a value is None."""

    def storage_jobs(self, kind: str, fields: Sequence[str], nodes: Sequence[str]) -> list[int]:
        """Start asking nodes for their storage."""

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        """The state of each job."""


class Snapshot(NamedTuple):
    """A cluster as it was a moment ago."""

    cluster: Cluster
    info: Mapping[str, Any]
    """what is known of the cluster as a whole"""
    networks: Mapping[str, str]
    """name -> uuid"""

    @property
    def backend(self) -> Mapping[str, Any]:
        """The backend parameters an instance has without its own values."""
        found: Mapping[str, Any] = self.info["beparams"]["default"]
        return found

    @property
    def templates(self) -> tuple[str, ...]:
        """The enabled disk templates."""
        return tuple(self.info["enabled_disk_templates"])


class PrimariesMemory(NamedTuple):
    """Memory of the primaries of one node, as Ganeti computes it for its message."""

    all: int = 0
    """MiB, stopped and forthcoming ones included"""
    up: int = 0
    """MiB of those that should be up"""
    unused: int = 0
    """MiB that those which should be up do not use yet"""


class NodeSpace(NamedTuple):
    """Storage of one node."""

    total: float
    """MiB"""
    free: float
    """MiB"""


def read_live(
    client: Client,
    template: str | None = None,
    *,
    storage: bool = True,
    required: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """Read a cluster; raises StewardError.

    Ganeti reports disk figures of one kind of storage at a time.  ``template`` is the disk
    template they are wanted for; None takes the local one of the instances, if there is any,
    and otherwise the first that is enabled, as Ganeti does.

    ``storage`` false: no job is submitted, and space that only a job can find out counts as none.
    ``required`` false: a node of which such a job reports nothing in time has no disk figures, and
    nothing else is lost.
    """
    with returned_by(client.where):
        return _read(client, template, storage, required, sleep)


def _read(
    client: Client,
    template: str | None,
    storage: bool,
    required: bool,
    sleep: Callable[[float], None],
) -> Snapshot:
    info = client.info()
    groups = client.rows("group", _GROUP_FIELDS)
    networks = client.rows("network", _NETWORK_FIELDS)
    nodes = client.rows("node", ("name", *_NODE.values()))
    instances = client.rows("instance", _INSTANCE_FIELDS)
    first = info["enabled_disk_templates"][0]
    wanted = template or (_usual_template(first, instances) if storage else first)
    spaces = _spaces(client, wanted, first, nodes, info, required, sleep)
    memory = _primaries_memory(instances)
    message = {
        "cluster_name": info.get("name"),
        "cluster_tags": info["tags"],
        "enabled_hypervisors": info["enabled_hypervisors"],
        "ipolicy": info.get("ipolicy"),
        "nodegroups": {group["uuid"]: _group(group, networks) for group in groups},
        "nodes": {
            node["name"]: _node(node, spaces.get(node["name"]), memory[node["name"]])
            for node in nodes
        },
        "instances": {_name_of(instance): _instance(instance) for instance in instances},
    }
    try:
        cluster = read_cluster(builtins.completed(message, time.time()))
    except BadInput as err:
        raise StewardError(f"{client.where}: {err}") from None
    found = {network["name"]: network["uuid"] for network in networks}
    return Snapshot(_completed(cluster, nodes, instances), info, found)


def _usual_template(first: str, instances: Iterable[_Row]) -> str:
    if first in LOCAL_STORAGE:
        return first
    return next(
        (i["disk_template"] for i in instances if i["disk_template"] in LOCAL_STORAGE), first
    )


def _spaces(
    client: Client,
    wanted: str,
    first: str,
    nodes: Sequence[_Row],
    info: Mapping[str, Any],
    required: bool,
    sleep: Callable[[float], None],
) -> dict[str, NodeSpace]:
    """The storage of each node that reports it, for a template."""
    kind = _STORAGE.get(wanted)
    if kind is None:
        return {node["name"]: NodeSpace(0, 0) for node in nodes}
    if kind == _STORAGE.get(first):
        return {
            node["name"]: NodeSpace(node["dtotal"], node["dfree"])
            for node in nodes
            if node["dtotal"] is not None and node["dfree"] is not None
        }
    if kind not in map(_STORAGE.get, info["enabled_disk_templates"]):
        # Ganeti fails a job that queries storage of which no template is enabled.
        return {}
    # The nodes' plain figures are of another storage.
    live = [
        node["name"]
        for node in nodes
        if not node["offline"] and node["vm_capable"] and node["mtotal"] is not None
    ]
    unit = info["volume_group_name"] if kind == "lvm-vg" else info["file_storage_dir"]
    jobs = client.storage_jobs(kind, ("node", "name", "size", "free"), live) if live else []
    return {
        node: NodeSpace(size, free)
        for result in _results(client, jobs, required, sleep)
        for node, name, size, free in result
        if name == unit
    }


def _results(
    client: Client, jobs: Sequence[int], required: bool, sleep: Callable[[float], None]
) -> list[Any]:
    """What jobs of one operation gave back, once all have ended; ``required``: of each of them."""
    limit = _REQUIRED_WITHIN if required else _WAITED_FOR
    waited, step = 0.0, 0.2
    while True:
        states = client.states(jobs)
        if all(state.ended for state in states) or (waited >= limit and not required):
            break
        if waited >= limit:
            raise StewardError(
                f"{client.where}: the nodes' storage was not reported within {limit:g} s"
            )
        sleep(step)
        waited += step
    for state in states:
        if required and state.status != SUCCESS:
            raise StewardError(
                f"{client.where}: job {state.number}, which queries the nodes' storage, ended "
                f"with {state.status}: {state.error}"
            )
    return [state.results[0] for state in states if state.status == SUCCESS]


def _group(group: _Row, networks: Iterable[_Row]) -> _Row:
    # Groups do not list their networks, but networks list the names of their groups.
    connected = [
        network["uuid"]
        for network in networks
        if any(name == group["name"] for name, *_ in network["group_list"] or ())
    ]
    return {
        "name": group["name"],
        "alloc_policy": group["alloc_policy"],
        "networks": connected,
        "ipolicy": group["ipolicy"],
        "tags": group["tags"],
    }


def _node(node: _Row, space: NodeSpace | None, primaries: PrimariesMemory) -> _Row:
    """A node of the message; what it did not report is None."""
    free = node["mfree"]
    return {key: node[field] for key, field in _NODE.items()} | {
        # The cluster takes null for no tags, but one of them may forbid everything.
        "tags": [*node["tags"]],
        "free_memory": None if free is None else free - primaries.unused,
        "total_disk": space and space.total,
        "free_disk": space and space.free,
        "i_pri_memory": primaries.all,
        "i_pri_up_memory": primaries.up,
    }


def _primaries_memory(instances: Iterable[_Row]) -> Mapping[str, PrimariesMemory]:
    """What the primaries of each node take or may take."""
    found: defaultdict[str, PrimariesMemory] = defaultdict(PrimariesMemory)
    for instance in instances:
        most, before = instance["beparams"]["maxmem"], found[instance["pnode"]]
        up = instance["admin_state"] == "up" and not instance["forthcoming"]
        unused = max(0, most - (instance["oper_ram"] or 0))
        found[instance["pnode"]] = PrimariesMemory(
            before.all + most,
            before.up + (most if up else 0),
            before.unused + (unused if up else 0),
        )
    return found


def _name_of(instance: _Row) -> str:
    """A forthcoming instance may have no name yet."""
    name: str = instance["name"] or instance["uuid"]
    return name


def _instance(instance: _Row) -> _Row:
    be, template, sizes = instance["beparams"], instance["disk_template"], instance["disk.sizes"]
    return {
        "uuid": instance["uuid"],
        "memory": be["maxmem"],
        "vcpus": be["vcpus"],
        "spindle_use": be["spindle_use"],
        "disk_space_total": disk_space(template, sizes),
        "disks": [
            {"size": size, "spindles": spindles}
            for size, spindles in zip(sizes, instance["disk.spindles"], strict=True)
        ],
        "disk_template": template,
        "tags": instance["tags"],
        "nics": _nics(instance),
        "os": instance["os"],
        "hypervisor": instance["hypervisor"],
        "admin_state": instance["admin_state"],
        # Three keys that Ganeti does not send to an allocator.
        "status": instance["status"],
        "running": instance["oper_ram"] is not None,
        "always_failover": be.get("always_failover", False),
        "forthcoming": instance["forthcoming"] is True,
        "nodes": [instance["pnode"], *instance["snodes"]],
    }


def _nics(instance: _Row) -> list[_Row]:
    lists = (instance[f"nic.{key}s"] for key in _NIC_KEYS)
    return [dict(zip(_NIC_KEYS, values, strict=True)) for values in zip(*lists, strict=True)]


def _completed(cluster: Cluster, nodes: Iterable[_Row], instances: Iterable[_Row]) -> Cluster:
    """With what the message of an allocator does not carry."""
    speeds = {node["name"]: _cpu_speed(node["ndparams"]) for node in nodes}
    fixed = {_name_of(i) for i in instances if not i["beparams"]["auto_balance"]}
    return cluster.replace(
        [node._replace(cpu_speed=speeds[node.name]) for node in cluster.nodes],
        [i._replace(auto_balance=False) if i.name in fixed else i for i in cluster.instances],
    )


def _cpu_speed(params: _Row) -> float:
    speed = params.get("cpu_speed")
    return 1.0 if speed is None else float(speed)
