"""Whether one node more, or one node group more, would make a request succeed."""

from __future__ import annotations

from collections.abc import Iterator

from ganeti_steward.allocators.advice.case import Case, Trier, with_groups
from ganeti_steward.allocators.advice.suggestion import NODE, NODE_GROUP, Suggestion
from ganeti_steward.core.model.cluster import Cluster, Group, Node
from ganeti_steward.core.model.requests import Allocate, ChangeGroup, MultiAllocate
from ganeti_steward.core.model.sent import Sent
from ganeti_steward.core.units import counted


def more_nodes(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """The first group in which another node like its best one is enough; else another group."""
    cluster = case.cluster
    for group in cluster.groups:
        best = _best_node(cluster, group)
        if best is None:
            continue
        changed = _with_node(case, _empty(best, cluster))
        if trier.succeeds(changed):
            what = f"one node more in group {group.name} like {best.name} ({_size(best)})"
            yield Suggestion(NODE, f"with {what}", changed)
            return
    if not _takes_more_groups(case):
        return
    for group in cluster.groups:
        nodes = _usable(cluster, group)
        if not nodes:
            continue
        changed = _with_group(case, group, nodes)
        if trier.succeeds(changed):
            number = counted(len(nodes), "node")
            what = f"one node group more like {group.name} ({number}, {_size(nodes[-1])} each)"
            yield Suggestion(NODE_GROUP, f"with {what}", changed)
            return


def _size(node: Node) -> str:
    return (
        f"{node.total_memory:.0f} MiB memory, {node.total_disk:.0f} MiB disk, "
        f"{node.total_cpus:g} CPUs"
    )


def _usable(cluster: Cluster, group: Group) -> list[Node]:
    """The usable nodes of a group that report all figures, the best last."""
    found = [
        node
        for node in cluster.nodes
        if node.group == group.uuid and node.usable and not node.missing
    ]
    return sorted(found, key=lambda node: (node.total_memory, node.total_disk, node.total_cpus))


def _best_node(cluster: Cluster, group: Group) -> Node | None:
    usable = _usable(cluster, group)
    return usable[-1] if usable else None


def _empty(node: Node, cluster: Cluster) -> Node:
    """A node like this one without instances, under a new name."""
    name = f"new-{node.name}"
    while name in cluster.node_index:
        name = f"new-{name}"
    return node._replace(
        name=name,
        free_memory=int(node.total_memory) - node.reserved_memory,
        free_disk=int(node.total_disk),
        free_spindles=node.spindles if node.exclusive_storage else node.free_spindles,
        own_load=0.0,
        sent=Sent(),
    )


def _with_node(case: Case, node: Node) -> Case:
    """With one node more, which may be used wherever a request or an option names nodes."""
    options, request = case.options, case.request
    if options.restrict_to is not None:
        options = options._replace(restrict_to=(*options.restrict_to, node.name))
    if isinstance(request, Allocate) and request.restrict_to is not None:
        request = request._replace(restrict_to=(*request.restrict_to, node.name))
    cluster = case.cluster.replace(nodes=[*case.cluster.nodes, node])
    return case._replace(request=request, cluster=cluster, options=options)


def _takes_more_groups(case: Case) -> bool:
    """Whether the request can be answered with a group that does not exist yet."""
    request, options = case.request, case.options
    if options.restrict_to is not None or case.only is not None:
        return False
    if isinstance(request, Allocate):
        known = request.instance.name in case.cluster.instance_index
        return not known and request.group_name is None and request.restrict_to is None
    if isinstance(request, MultiAllocate):
        return request.group_name is None
    return isinstance(request, ChangeGroup)


def _with_group(case: Case, group: Group, nodes: list[Node]) -> Case:
    name = f"new-{group.name}"
    while case.cluster.groups_named(name):
        name = f"new-{name}"
    new = group._replace(uuid=name, name=name)
    cluster, request = with_groups(case.cluster, [*case.cluster.groups, new]), case.request
    for node in nodes:
        empty = _empty(node, cluster)._replace(group=new.uuid)
        cluster = cluster.replace(nodes=[*cluster.nodes, empty])
    if isinstance(request, ChangeGroup) and request.target_groups:
        request = request._replace(target_groups=(*request.target_groups, new.uuid))
    return case._replace(request=request, cluster=cluster)
