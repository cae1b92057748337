"""A cluster after moves of instances, as its nodes will report it."""

from __future__ import annotations

from collections.abc import Iterator

from ganeti_steward.core.model.cluster import Cluster, Instance, Node


def moved(cluster: Cluster, name: str, nodes: tuple[str, ...]) -> Cluster:
    """The cluster with an instance on other nodes, primary first.

    The reported figures of live nodes change by what the instance takes (allocation 3.1).
    """
    instance = cluster.instance(name)
    figures = dict[str, Node]()
    for sign, names in ((1, instance.nodes), (-1, nodes)):
        for role, node_name in enumerate(names):
            node = figures.get(node_name) or cluster.nodes[cluster.node_index[node_name]]
            figures[node_name] = _freed(node, instance, sign, primary=role == 0)
    return cluster.replace(
        (figures.get(node.name, node) for node in cluster.nodes),
        _with_nodes(cluster, instance, nodes),
    )


def _freed(node: Node, instance: Instance, sign: int, *, primary: bool) -> Node:
    """The node with what an instance takes of it given back (-1: taken)."""
    if not node.live:
        return node
    if primary and instance.uses_memory:
        node = node._replace(free_memory=node.free_memory + sign * instance.memory)
    if not instance.local or node.lacks_disk_figures:
        return node
    node = node._replace(free_disk=node.free_disk + sign * instance.disk_space)
    if node.exclusive_storage and instance.spindles is not None:
        spindles = node.free_spindles + sign * instance.spindles
        node = node._replace(free_spindles=spindles)
    return node


def _with_nodes(cluster: Cluster, instance: Instance, nodes: tuple[str, ...]) -> Iterator[Instance]:
    for other in cluster.instances:
        yield other._replace(nodes=nodes) if other is instance else other
