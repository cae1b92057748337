"""Which limit of a node group, or which drained node, stands in the way of a request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from ganeti_steward.allocators.advice.case import (
    NETWORK,
    NODE,
    NODE_GROUP,
    NODE_STATE,
    POLICY,
    Case,
    Suggestion,
    Trier,
    instances_of,
    with_group,
)
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster, Group, Instance, MinMax, Node, Spec
from ganeti_steward.core.model.requests import Allocate, ChangeGroup, MultiAllocate
from ganeti_steward.core.model.sent import Sent

#: How many drained nodes are tried.
_MOST: Final = 20
#: Ratios are raised to a multiple of 1 / this.
_PART: Final = 100


def other_limits(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """The limits of each node group that alone refuse the request, and drained nodes."""
    for group in case.cluster.groups:
        for text, changed in _changes(case, group):
            suggestion = Suggestion(POLICY, text, with_group(case, changed))
            if trier.succeeds(suggestion.case):
                yield suggestion
        for name in ("vcpu_ratio", "spindle_ratio"):
            yield from _ratio(case, group, name, trier)
        yield from _networks(case, group, trier)
    yield from _undrained(case, trier)


def _changes(case: Case, group: Group) -> Iterator[tuple[str, Group]]:
    """The group with a policy that allows the instances, and as its target."""
    instances = instances_of(case)
    policy, nodes = group.policy, case.cluster.nodes
    exclusive = any(node.exclusive_storage for node in nodes if node.group == group.uuid)
    for at, pair in enumerate(policy.minmax):
        wider, parts = _widened(pair, instances, exclusive)
        if parts:
            pairs = (*policy.minmax[:at], wider, *policy.minmax[at + 1 :])
            text = f"with an instance policy of group {group.name} that allows {', '.join(parts)}"
            yield text, group._replace(policy=policy._replace(minmax=pairs))
    missing = sorted({one.template for one in instances} - policy.templates)
    if missing:
        templates = policy.templates | {*missing}
        text = f"with {', '.join(missing)} among the disk templates of group {group.name}"
        yield text, group._replace(policy=policy._replace(templates=templates))
    if isinstance(case.request, ChangeGroup) and group.alloc_policy == "unallocable":
        text = f"with another alloc_policy of group {group.name} than unallocable"
        yield text, group._replace(alloc_policy="last_resort")


class _Bound(NamedTuple):
    """One size of an instance that a policy limits."""

    field: str
    """of `Spec`"""
    name: str
    unit: str
    values: tuple[int, ...]


def _bounds(instance: Instance, exclusive: bool) -> tuple[_Bound, ...]:
    spindles = instance.spindles if exclusive else instance.spindle_use
    disks = (len(instance.disks),) if instance.template != "diskless" else ()
    return (
        _Bound("memory", "memory", " MiB", (instance.memory,)),
        _Bound("disk", "disks", " MiB", tuple(disk.size for disk in instance.disks)),
        _Bound("vcpus", "vcpus", "", (instance.vcpus,)),
        _Bound("spindles", "spindles", "", () if spindles is None else (spindles,)),
        _Bound("disks", "number of disks", "", disks),
    )


def _widened(
    pair: MinMax, instances: list[Instance], exclusive: bool
) -> tuple[MinMax, dict[str, None]]:
    """The pair that allows all these instances, and what of it is new."""
    low, high = pair.min._asdict(), pair.max._asdict()
    for instance in instances:
        for bound in _bounds(instance, exclusive):
            for value in bound.values:
                low[bound.field] = min(low[bound.field], value)
                high[bound.field] = max(high[bound.field], value)
    wider = MinMax(Spec(**low), Spec(**high))
    parts = dict[str, None]()
    for bound in _bounds(instances[0], exclusive) if instances else ():
        for word, old, new in (("down to", pair.min, wider.min), ("up to", pair.max, wider.max)):
            was, now = getattr(old, bound.field), getattr(new, bound.field)
            if was != now:
                parts[f"{bound.name} {word} {now}{bound.unit} instead of {was}{bound.unit}"] = None
    return wider, parts


def _ratio(case: Case, group: Group, name: str, trier: Trier) -> Iterator[Suggestion]:
    """The smallest larger ratio of vcpus, or spindle use, with which the request succeeds."""
    now: float = getattr(group.policy, name)
    if now < 0:
        return

    def changed(parts: int) -> Case:
        ratio, policy = parts / _PART, group.policy
        if name == "vcpu_ratio":
            policy = policy._replace(vcpu_ratio=ratio)
        else:
            policy = policy._replace(spindle_ratio=ratio)
        return with_group(case, group._replace(policy=policy))

    low, high = math.floor(now * _PART) + 1, _most(case, group, name)
    if high < low or not trier.succeeds(changed(high)):
        return
    while low < high:
        middle = (low + high) // 2
        if trier.succeeds(changed(middle)):
            high = middle
        else:
            low = middle + 1
    word = name.replace("_", "-")
    text = f"with a {word} of {high / _PART:g} instead of {now:g} in group {group.name}"
    yield Suggestion(POLICY, text, changed(high))


def _most(case: Case, group: Group, name: str) -> int:
    """A ratio that allows everything of the cluster on one node of the group, in parts."""
    instances = [*case.cluster.instances, *instances_of(case)]
    nodes = [node for node in case.cluster.nodes if node.group == group.uuid and node.usable]
    if name == "vcpu_ratio":
        total = sum(one.vcpus for one in instances) + max(
            (node.reserved_cpus for node in nodes), default=0
        )
        sizes = [node.total_cpus for node in nodes if node.total_cpus > 0]
    else:
        total = sum(one.spindle_use for one in instances)
        sizes = [float(node.spindles) for node in nodes if node.spindles > 0]
    return math.ceil(total / min(sizes) * _PART) if sizes else 0


def _networks(case: Case, group: Group, trier: Trier) -> Iterator[Suggestion]:
    wanted = {network for one in instances_of(case) for network in one.networks}
    missing = sorted(wanted - group.networks)
    if missing:
        changed = with_group(case, group._replace(networks=group.networks | wanted))
        if trier.succeeds(changed):
            text = f"with group {group.name} connected to network {', '.join(missing)}"
            yield Suggestion(NETWORK, text, changed)


def _undrained(case: Case, trier: Trier) -> Iterator[Suggestion]:
    drained = [node for node in case.cluster.nodes if node.condition == "drained"]
    for node in drained[:_MOST]:
        nodes = [
            other._replace(drained=False) if other is node else other
            for other in case.cluster.nodes
        ]
        changed = case._replace(cluster=case.cluster.replace(nodes=nodes))
        if trier.succeeds(changed):
            yield Suggestion(NODE_STATE, f"with {node.name} no longer drained", changed)


def more_nodes(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """The first group in which another node like its best one is enough; else another group."""
    cluster = case.cluster
    for group in cluster.groups:
        nodes = _usable(cluster, group)
        if not nodes:
            continue
        best = nodes[-1]
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
        changed = _with_group_like(case, group, nodes)
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


def _with_group_like(case: Case, group: Group, nodes: list[Node]) -> Case:
    name = f"new-{group.name}"
    while case.cluster.groups_named(name):
        name = f"new-{name}"
    new = group._replace(uuid=name, name=name)
    cluster, request = case.cluster.replace(groups=[*case.cluster.groups, new]), case.request
    for node in nodes:
        empty = _empty(node, cluster)._replace(group=new.uuid)
        cluster = cluster.replace(nodes=[*cluster.nodes, empty])
    if isinstance(request, ChangeGroup) and request.target_groups:
        request = request._replace(target_groups=(*request.target_groups, new.uuid))
    return case._replace(request=request, cluster=cluster)
