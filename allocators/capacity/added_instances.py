"""A cluster as it would be with more instances on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ganeti_steward.core.model.cluster import Cluster, Instance, Node


def with_instances(cluster: Cluster, added: Iterable[Instance]) -> Cluster:
    """The cluster with these instances, which name their nodes; free figures shrink with them."""
    new = tuple(added)
    memory: dict[str, int] = defaultdict(int)
    disk: dict[str, int] = defaultdict(int)
    spindles: dict[str, int] = defaultdict(int)
    for instance in new:
        if instance.forthcoming:
            continue
        memory[instance.nodes[0]] += instance.memory if instance.uses_memory else 0
        for name in instance.nodes if instance.local else ():
            disk[name] += instance.disk_space
            spindles[name] += instance.spindles or 0

    def shrunk(node: Node) -> Node:
        used = spindles[node.name] if node.exclusive_storage else 0
        return node._replace(
            free_memory=node.free_memory - memory[node.name],
            free_disk=node.free_disk - disk[node.name],
            free_spindles=node.free_spindles - used,
        )

    touched = {name for instance in new for name in instance.nodes}
    nodes = (shrunk(node) if node.name in touched else node for node in cluster.nodes)
    return cluster.replace(nodes=nodes, instances=(*cluster.instances, *new))


def copies_of(instance: Instance, placements: Iterable[tuple[str, ...]], at: int) -> list[Instance]:
    """The instance once per placement, named apart by numbers from ``at`` on."""
    return [
        instance._replace(name=f"{instance.name}-{number}", nodes=nodes)
        for number, nodes in enumerate(placements, at)
    ]
