"""Checks of results that several request types share (allocation 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import MOVES

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed


def are_nodes(names: Any, number: int, cluster: Cluster) -> bool:
    """Whether these are the names of so many different nodes."""
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) and name in cluster.node_index for name in names)
        and len(set(names)) == len(names) == number
    )


def are_moves(result: Any, cluster: Cluster) -> bool:
    """Whether a result is ``[moved, failed, jobs]``, each moved instance with jobs.

    Raises AttributeError, KeyError, TypeError or ValueError for other shapes.
    """
    moved, failed, jobs = result
    groups = {group.name for group in cluster.groups}
    for name, group, nodes in moved:
        known = name in cluster.instance_index and group in groups
        if not known or not are_nodes(nodes, len(nodes), cluster):
            return False
    if not all(reason is None or isinstance(reason, str) for _, reason in failed):
        return False
    operated = [operation["instance_name"] for job in jobs for operation in job]
    if not all(operation["OP_ID"] in MOVES for job in jobs for operation in job):
        return False
    return {name for name, _, _ in moved} == set(operated)


def moves_all(result: Any, instances: Sequence[str], cluster: Cluster) -> bool:
    """Whether each of the instances is moved or named as failed, once."""
    if not are_moves(result, cluster):
        return False
    moved, failed, _ = result
    names = [*(name for name, _, _ in moved), *(name for name, _ in failed)]
    return sorted(names) == sorted(instances)


def moves_placed(result: Any, request: object, cluster: Cluster) -> list[Placed]:
    """The moved instances, each where its last move puts it."""
    from ganeti_steward.core.iallocator.placed import Placed  # only comparisons need it

    moved = {name: tuple(nodes) for name, _, nodes in result[0]}
    return [Placed(cluster.instance(name), nodes) for name, nodes in moved.items()]


def moves_summary(result: Any, request: object, cluster: Cluster) -> str:
    """How many instances are moved, and how many are not."""
    return f"moved:{len(result[0])},failed:{len(result[1])}"
