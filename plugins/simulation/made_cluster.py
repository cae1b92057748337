"""The cluster at the start of a simulation, as the daemon would see it: made, or read.

A made one has DRBD instances, spread evenly.
"""

from __future__ import annotations

import math
from collections import Counter
from ipaddress import IPv4Address
from random import Random
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import (
    DISK_TEMPLATES,
    Cluster,
    Disk,
    Group,
    Instance,
    MinMax,
    Node,
    Policy,
    Spec,
)
from ganeti_steward.plugins.model.world import World

#: ns since the epoch: a Monday, 00:00 UTC.
BEGIN: Final = 1_767_571_200 * 10**9
#: Nodes of a made node group.
_GROUP_SIZE: Final = 50
#: Master candidates Ganeti wants to have unless configured.
_POOL: Final = 10
#: Share of a node's memory and disk that the instances take on average.
_FILLED: Final = 0.55
#: MiB of memory, MiB of disk and virtual CPUs of the instances, the small ones more often.
_SIZES: Final = (
    *[(2048, 20480, 1)] * 4,
    *[(4096, 40960, 2)] * 3,
    *[(8192, 102400, 4)] * 2,
    (16384, 204800, 8),
)
_METADATA: Final = 128
#: The address of the first node, where the nodes have none; such are in no real network.
_FIRST: Final = IPv4Address("198.18.0.1")
#: MiB of a node's memory that its own system takes.
_RESERVED: Final = 1024
_LEAST: Final = Spec(0, 1, 0, 0, 0, 1)
_MOST: Final = Spec(65536, 64, 1048576, 16, 8, 16)


def made_world(nodes: int, instances: int, seed: int) -> World:
    """A cluster of so many nodes and DRBD instances; raises StewardError."""
    if nodes < 2:
        raise StewardError(f"--nodes {nodes}: a made cluster has at least 2 nodes")
    if instances < 0:
        raise StewardError(f"--instances {instances}: 0 or more is expected")
    return world_of(_made_cluster(nodes, instances, max(1, nodes // _GROUP_SIZE), seed))


def _made_cluster(nodes: int, instances: int, groups: int, seed: int) -> Cluster:
    """Node groups of equal size; nodes of equal size, which the instances fill by about half.

    Every group needs at least two nodes.
    """
    random = Random(f"cluster {seed}")
    made = [_instance(f"instance{number:05}", random.choice(_SIZES)) for number in range(instances)]
    names = [f"node{number:04}" for number in range(nodes)]
    members = {f"group{number:02}": names[number::groups] for number in range(groups)}
    memory, disk = Counter[str](), Counter[str]()
    placed = []
    for number, one in enumerate(made):
        # In the next group, on its node with the least memory and another with little disk.
        group = members[f"group{number % groups:02}"]
        primary = min(group, key=lambda name: (memory[name], name))
        others = [name for name in random.sample(group, min(4, len(group))) if name != primary]
        secondary = min(others, key=lambda name: (disk[name], name))
        memory[primary] += one.memory
        disk.update({primary: one.disk_space, secondary: one.disk_space})
        placed.append(one._replace(nodes=(primary, secondary)))
    empty = _empty_node(made, nodes)
    return Cluster(
        [_group(name) for name in members],
        [
            empty._replace(
                name=name,
                group=_uuid_of(group),
                free_memory=empty.free_memory - memory[name],
                free_disk=empty.free_disk - disk[name],
            )
            for group in members
            for name in members[group]
        ],
        placed,
        hypervisors=("kvm",),
    )


def _uuid_of(name: str) -> str:
    """The uuid of an object that has none, by its name."""
    return str(uuid5(NAMESPACE_DNS, name))


def _instance(name: str, size: tuple[int, int, int]) -> Instance:
    memory, disk, vcpus = size
    return Instance(
        name=name,
        memory=memory,
        vcpus=vcpus,
        disk_space=disk + _METADATA,
        disks=(Disk(disk, None),),
        template="drbd",
        spindle_use=1,
        tags=(),
        networks=(),
        state="up",
        forthcoming=False,
        nodes=(),
    )


def _empty_node(made: list[Instance], nodes: int) -> Node:
    """One of so many equal nodes; never with less room than for two large instances."""

    def filled(amount: float) -> int:
        return math.ceil(amount / nodes / _FILLED / 1024) * 1024

    memory = filled(max(sum(one.memory for one in made), 4 * 16384 * nodes * _FILLED))
    disk = filled(max(2 * sum(one.disk_space for one in made), 4 * 204800 * nodes * _FILLED))
    return Node(
        name="",
        group="",
        offline=False,
        drained=False,
        vm_capable=True,
        tags=(),
        exclusive_storage=False,
        total_memory=memory,
        reserved_memory=_RESERVED,
        free_memory=memory - _RESERVED,
        total_disk=disk,
        free_disk=disk,
        total_cpus=max(8, math.ceil(sum(one.vcpus for one in made) / nodes)),
        reserved_cpus=0,
        spindles=16,
        free_spindles=0,
    )


def _group(name: str) -> Group:
    policy = Policy((MinMax(_LEAST, _MOST),), _LEAST, DISK_TEMPLATES, 8.0, 64.0)
    return Group(_uuid_of(name), name, "preferred", frozenset(), policy, ())


def world_of(cluster: Cluster) -> World:
    """A cluster that was read; raises StewardError when no node can be the master.

    What a file does not have is as in a new cluster: the first usable node is the master, and the
    first ten are master candidates.
    """
    usable = [node.name for node in cluster.nodes if node.usable]
    if not usable:
        raise StewardError("the cluster has no usable node")
    master = next((node.name for node in cluster.nodes if node.master), usable[0])
    nodes = [_in_cluster(node, master, usable, at) for at, node in enumerate(cluster.nodes)]
    return World(BEGIN, cluster.replace(nodes, map(_existing, cluster.instances)), _POOL)


def _in_cluster(node: Node, master: str, usable: list[str], at: int) -> Node:
    """``at``: its place among the nodes; no two have one address."""
    candidate = node.master_candidate
    sent = node.sent.having(
        uuid=node.uuid or _uuid_of(node.name),
        master=node.name == master,
        master_candidate=node.name in usable[:_POOL] if candidate is None else candidate,
        master_capable=True,
        primary_ip=node.primary_ip or str(_FIRST + at),
    )
    return node._replace(sent=sent)


def _existing(one: Instance) -> Instance:
    """One that is not there yet does not run."""
    return one._replace(state="down") if one.forthcoming and one.up else one
