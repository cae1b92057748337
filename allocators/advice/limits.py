"""Which limit of a node group, or which drained node, stands in the way of a request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from ganeti_steward.allocators.advice.case import Case, Trier, instances_of, with_group
from ganeti_steward.allocators.advice.suggestion import (
    NETWORK,
    NODE_STATE,
    POLICY,
    Suggestion,
)
from ganeti_steward.core.model.cluster import Cluster, Group, Instance, MinMax, Spec
from ganeti_steward.core.model.requests import ChangeGroup

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
    policy = group.policy
    for at, pair in enumerate(policy.minmax):
        exclusive = _exclusive(case.cluster, group)
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


def _exclusive(cluster: Cluster, group: Group) -> bool:
    return any(node.exclusive_storage for node in cluster.nodes if node.group == group.uuid)


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
