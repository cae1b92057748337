"""What a plan for balancing leaves on nodes that are unusable, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.model.cluster import NOT_MIRRORED

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node
    from ganeti_steward.core.model.explanation import GroupBalance
    from ganeti_steward.core.model.requests import Balance


class Left(NamedTuple):
    """An instance that stays on an unusable node when a plan is done."""

    node: str
    condition: str
    """why the node is unusable"""
    role: str
    """primary or secondary"""
    instance: str
    why: str


def left_by(group: GroupBalance, cluster: Cluster, request: Balance) -> tuple[Left, ...]:
    """Everything that is left in a node group, by node and reason."""
    health = group.health_after
    if health is None:
        return ()
    moved = {move.instance: move.after for move in group.moves}
    left = [
        *_left(health.primaries, 0, moved, cluster, request),
        *_left(health.secondaries, 1, moved, cluster, request),
    ]
    return tuple(sorted(left, key=lambda one: (one.node, one.role, one.why, one.instance)))


def has_usable_node(group: GroupBalance, cluster: Cluster) -> bool:
    """Whether anything can be moved in a node group at all."""
    return any(node.usable for node in _nodes(group, cluster))


def _nodes(group: GroupBalance, cluster: Cluster) -> Iterator[Node]:
    found = cluster.groups_named(group.group)
    uuid = cluster.groups[found[0]].uuid if found else ""
    return (node for node in cluster.nodes if node.group == uuid)


def _left(
    names: tuple[str, ...],
    role: int,
    moved: dict[str, tuple[str, ...]],
    cluster: Cluster,
    request: Balance,
) -> Iterator[Left]:
    for name in names:
        instance = cluster.instance(name)
        node = cluster.node(moved.get(name, instance.nodes)[role])
        why = _why(instance, cluster, request, secondary=bool(role))
        yield Left(node.name, node.condition, ("primary", "secondary")[role], name, why)


def _why(instance: Instance, cluster: Cluster, request: Balance, *, secondary: bool) -> str:
    """The first reason that can be known without the search."""
    if instance.template in NOT_MIRRORED:
        return f"{instance.template}, its only disks are there"
    if not instance.auto_balance:
        return "its auto_balance is off"
    if request.select is not None and instance.name not in request.select:
        return "it is not among --select-instances"
    if instance.name in request.exclude:
        return "--exclude-instances names it"
    nodes = [cluster.node(name) for name in instance.nodes]
    silent = [
        node.name for node in nodes if node.silent or (instance.local and node.lacks_disk_figures)
    ]
    if silent:
        return f"{silent[0]} does not report its figures"
    if secondary and not request.disk_moves:
        return "--no-disk-moves forbids to copy its disks"
    if not secondary and not request.instance_moves:
        return "--no-instance-moves forbids it"
    if not any(node.usable for node in nodes) and instance.template == "drbd":
        return "both its nodes are unusable"
    return "no move is allowed that helps, or a limit of the plan is reached"
