"""Copies of instances that run elsewhere leave the nodes of a round as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.moves.best_move import BestMoveSearch
from ganeti_steward.allocators.moves.leave_tasks import (
    Leaving,
    leave_plan,
    leave_score,
    leave_tasks,
)
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.node_figures import with_disks
from ganeti_steward.core.model.context import Context

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance

#: What Ganeti does with a copy that goes to another node.
REPLACE_DISKS: Final = "replace-disks"


class Copy(NamedTuple):
    """A copy of the disks of an instance that goes to another node."""

    instance: str
    source: str
    target: str
    copied: int
    """MiB"""


class CopiesLeft(NamedTuple):
    """What leaves the nodes of a round, and what cannot."""

    copies: tuple[Copy, ...] = ()
    """by node and name"""
    stuck: tuple[tuple[str, str], ...] = ()
    """node -> an instance whose copy has no other place"""


def copies_leave(
    cluster: Cluster, nodes: Sequence[str], context: Context, kvm_memory: int
) -> CopiesLeft:
    """Where the copies on these nodes go, which are away and on which nothing runs.

    Raises PluginError.
    """
    away = cluster.replace(
        one._replace(drained=True) if one.name in nodes else one for one in cluster.nodes
    )
    copies, stuck = list[Copy](), list[tuple[str, str]]()
    # Loaded once: of a large cluster that takes longer than a plan for one node.
    state = load(away, None, kvm_memory)
    for node in nodes:
        names = [one.name for one in cluster.instances if _is_copy(one, node)]
        if not names:
            continue
        others = {other: "is away" for other in nodes if other != node}
        leaving = Leaving(node, names, others, frozenset(), len(names), may_keep_copies=False)
        tasks, score = leave_tasks(state, leaving, context), leave_score(state, leaving)
        plan = leave_plan(state, tasks, BestMoveSearch(score), score)
        for at, task in enumerate(tasks):
            if at in plan.found:
                target = state.frame.node_names(plan.found[at].nodes)[-1]
                size = task.resident.demand.instance.disk_space
                copies.append(Copy(task.name, node, target, size))
            else:
                stuck.append((node, task.name))
        state = plan.state
    return CopiesLeft(tuple(sorted(copies, key=lambda one: (one.source, one.instance))), (*stuck,))


def _is_copy(instance: Instance, node: str) -> bool:
    """Whether an instance runs on another node and has a copy on this one."""
    return instance.template == "drbd" and instance.up and node in instance.nodes[1:]


def with_copies(cluster: Cluster, copies: Iterable[Copy]) -> Cluster:
    """The cluster once these copies are on their new nodes."""
    targets: Mapping[str, Copy] = {one.instance: one for one in copies}
    nodes = {node.name: node for node in cluster.nodes}
    for one in targets.values():
        for node, sign in ((one.source, 1), (one.target, -1)):
            nodes[node] = with_disks(nodes[node], cluster.instance(one.instance), sign)
    return cluster.replace(
        nodes=nodes.values(),
        instances=(
            one._replace(nodes=(one.nodes[0], targets[one.name].target))
            if one.name in targets
            else one
            for one in cluster.instances
        ),
    )
