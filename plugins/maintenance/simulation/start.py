"""The cluster at the start of a simulation, as the daemon would see it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Cluster, Instance, Node
from ganeti_steward.plugins.maintenance.simulation.made_cluster import made_cluster, uuid_of

#: ns since the epoch: a Monday, 00:00 UTC.
BEGIN: Final = 1_767_571_200 * 10**9
#: Nodes of a made node group.
_GROUP_SIZE: Final = 50
#: Master candidates Ganeti wants to have unless configured.
_POOL: Final = 10


def made_world(nodes: int, instances: int, seed: int) -> World:
    """A cluster of so many nodes and DRBD instances; raises StewardError."""
    if nodes < 2:
        raise StewardError(f"--nodes {nodes}: a made cluster has at least 2 nodes")
    if instances < 0:
        raise StewardError(f"--instances {instances}: 0 or more is expected")
    cluster = made_cluster(nodes, instances, max(1, nodes // _GROUP_SIZE), seed)
    return world_of(cluster.replace(_with_free(cluster)))


def _with_free(cluster: Cluster) -> list[Node]:
    memory, disk = Counter[str](), Counter[str]()
    for one in cluster.instances:
        memory[one.nodes[0]] += one.memory
        disk.update(dict.fromkeys(one.nodes, one.disk_space))
    return [
        node._replace(
            free_memory=node.free_memory - memory[node.name],
            free_disk=node.free_disk - disk[node.name],
        )
        for node in cluster.nodes
    ]


def world_of(cluster: Cluster) -> World:
    """A cluster that was read; raises StewardError when no node can be the master.

    What a file does not have is as in a new cluster: the first usable node is the master, and the
    first ten are master candidates.
    """
    usable = [node.name for node in cluster.nodes if node.usable]
    if not usable:
        raise StewardError("the cluster has no usable node")
    nodes = [_node(node, usable) for node in cluster.nodes]
    return World(BEGIN, cluster.replace(nodes, map(_instance, cluster.instances)), _POOL)


def _node(node: Node, usable: list[str]) -> Node:
    candidate = node.master_candidate
    sent = node.sent.having(
        uuid=node.uuid or uuid_of(node.name),
        master=node.name == usable[0],
        master_candidate=node.name in usable[:_POOL] if candidate is None else candidate,
        master_capable=True,
    )
    return node._replace(sent=sent)


def _instance(one: Instance) -> Instance:
    """One that is not there yet does not run."""
    return one._replace(state="down") if one.forthcoming and one.up else one
