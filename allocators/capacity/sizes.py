"""Which sizes of instances are counted, one after the other, and the cluster as it fills.

Every count is a request of type ``capacity`` to the configured allocator; this module only
decides on the next request (allocation 12).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.rules.groups import takes_instances
from ganeti_steward.allocators.state.names import group_named
from ganeti_steward.allocators.state.node_figures import with_disks
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster, Disk, Group, Instance, MinMax, Node, Spec
from ganeti_steward.core.model.requests import Allocate

MEMORY: Final = "memory"
DISK: Final = "disk"
VCPUS: Final = "vcpus"
SPINDLES: Final = "spindles"
#: What can be made smaller, and by how much at a time (MiB; disk: of each disk).
STEPS: Final = {MEMORY: 64, DISK: 256, VCPUS: 1, SPINDLES: 1}


def amount(instance: Instance, resource: str) -> int:
    """How much it has; of each disk the smallest counts, 0 without one."""
    if resource == MEMORY:
        return instance.memory
    if resource == VCPUS:
        return instance.vcpus
    if resource == SPINDLES:
        return instance.spindle_use
    return min((disk.size for disk in instance.disks), default=0)


def smallest(specs: Iterable[Spec], resource: str) -> int:
    """The smallest amount among the bounds."""
    return min((int(getattr(spec, resource)) for spec in specs), default=0)


def steps_to(instance: Instance, resource: str, least: int) -> int:
    """How many steps down it stays at or above ``least``."""
    return max((amount(instance, resource) - least) // STEPS[resource], 0)


def lowered(instance: Instance, resource: str, steps: int) -> Instance:
    """The instance with so many steps less."""
    less = steps * STEPS[resource]
    if resource == MEMORY:
        return instance._replace(memory=instance.memory - less)
    if resource == VCPUS:
        return instance._replace(vcpus=instance.vcpus - less)
    if resource == SPINDLES:
        disks = tuple(_with_spindles(disk, less) for disk in instance.disks)
        return instance._replace(spindle_use=instance.spindle_use - less, disks=disks)
    disks = tuple(disk._replace(size=disk.size - less) for disk in instance.disks)
    return instance._replace(disks=disks, disk_space=instance.disk_space - less * len(disks))


def _with_spindles(disk: Disk, less: int) -> Disk:
    return disk if disk.spindles is None else disk._replace(spindles=disk.spindles - less)


def with_instances(cluster: Cluster, added: Iterable[Instance]) -> Cluster:
    """The cluster with these instances, which name their nodes; free figures shrink with them."""
    new = tuple(added)
    nodes = {node.name: node for node in cluster.nodes}
    for instance in new:
        for at, name in enumerate(() if instance.forthcoming else instance.nodes):
            nodes[name] = changed(nodes[name], instance, -1, primary=at == 0)
    return cluster.replace(nodes=nodes.values(), instances=(*cluster.instances, *new))


def changed(node: Node, instance: Instance, sign: int, *, primary: bool) -> Node:
    """The node as it reports when what an instance takes is given back (-1: taken).

    Allocation 3.1; nodes that are not live report nothing.
    """
    if not node.live:
        return node
    if primary and instance.uses_memory:
        node = node._replace(free_memory=node.free_memory + sign * instance.memory)
    return with_disks(node, instance, sign)


def copies_of(instance: Instance, placements: Iterable[tuple[str, ...]], at: int) -> list[Instance]:
    """The instance once per placement, named apart by numbers from ``at`` on."""
    return [
        instance._replace(name=f"{instance.name}-{number}", nodes=nodes)
        for number, nodes in enumerate(placements, at)
    ]


#: How many copies fit on a cluster: the result of a ``capacity`` request.  The last argument:
#: whether it is wanted with what amounts one more would fit, which takes a while.
CountFits = Callable[[Allocate, Cluster, bool], Mapping[str, object]]


class SizeCount(NamedTuple):
    """One size of instance, and how many of it fit."""

    instance: Instance
    placements: tuple[tuple[str, ...], ...]
    limited_by: str


class FilledCluster(NamedTuple):
    """The result of filling a cluster."""

    steps: tuple[SizeCount, ...]
    cluster: Cluster
    """with all copies in place"""

    @property
    def total(self) -> int:
        """All copies of all sizes."""
        return sum(len(step.placements) for step in self.steps)


class Usage(NamedTuple):
    """Which share of a cluster is in use, from 0 to 1 (hspace's efficiency)."""

    memory: float
    disk: float
    vcpus: float


def usage(cluster: Cluster) -> Usage:
    """What is taken of memory (by instances), of disk, and of the CPUs times the vcpu-ratio.

    Nothing is taken of an offline node, which has no figures.
    """
    policies = {group.uuid: group.policy for group in cluster.groups}
    offline = {node.name for node in cluster.nodes if node.offline}
    instances = [
        one for one in cluster.instances if not one.forthcoming and one.primary not in offline
    ]
    disk = sum(node.total_disk for node in cluster.nodes)
    return Usage(
        memory=_share(
            sum(instance.memory for instance in instances if instance.uses_memory),
            sum(node.total_memory for node in cluster.nodes),
        ),
        disk=_share(disk - sum(node.free_disk for node in cluster.nodes), disk),
        vcpus=_share(
            sum(instance.vcpus for instance in instances if instance.counts_vcpus)
            + sum(node.reserved_cpus for node in cluster.nodes),
            sum(node.total_cpus * policies[node.group].vcpu_ratio for node in cluster.nodes),
        ),
    )


def _share(used: float, total: float) -> float:
    return used / total if total > 0 else 0.0


def fill(count: CountFits, cluster: Cluster, item: Allocate) -> FilledCluster:
    """One size alone."""
    step, cluster = _fill(count(item, cluster, False), cluster, item, 1)
    return FilledCluster((step,), cluster)


def fill_tiered(
    count: CountFits, cluster: Cluster, sizes: Sequence[tuple[Allocate, Spec]]
) -> FilledCluster:
    """Ever smaller ones: each size is made smaller down to its least while any fits.

    The allocator reports with what amounts one more would fit (``fits_with``); with one that
    does not, only the first size is counted.
    """
    steps: list[SizeCount] = []
    for start, least in sizes:
        item: Allocate | None = start
        while item is not None:
            placed = sum(len(step.placements) for step in steps)
            result = count(item, cluster, True)
            step, cluster = _fill(result, cluster, item, placed + 1)
            steps.append(step)
            item = _smaller(item, result, least)
    # The first size is shown even if none fits.
    return FilledCluster(tuple(s for s in steps if s.placements or s is steps[0]), cluster)


def _fill(
    result: Mapping[str, object], cluster: Cluster, item: Allocate, number: int
) -> tuple[SizeCount, Cluster]:
    placements: list[list[str]] = result["placements"]  # type: ignore[assignment]
    placed = tuple(tuple(nodes) for nodes in placements)
    step = SizeCount(item.instance, placed, str(result["limited_by"]))
    return step, with_instances(cluster, copies_of(item.instance, placed, number))


def _smaller(item: Allocate, result: Mapping[str, object], least: Spec) -> Allocate | None:
    """With the hinted amounts; None when that is nothing new or below the least."""
    hints: Mapping[str, int] = result.get("fits_with", {})  # type: ignore[assignment]
    instance = item.instance
    for resource, wanted in hints.items():
        if wanted < getattr(least, resource):
            return None
        instance = lowered(instance, resource, steps_to(instance, resource, wanted))
    shrunk = any(amount(instance, each) < amount(item.instance, each) for each in hints)
    return item._replace(instance=instance) if shrunk else None


STANDARD: Final = "standard"
TIERED: Final = "tiered"
#: The disk templates tried when no option names one.
_USUAL: Final = ("drbd", "plain")


class Filling(NamedTuple):
    """One way of filling the cluster, always from what it is now."""

    mode: str
    filling: FilledCluster


class PolicySizes(NamedTuple):
    """Which counts to make, and the user's sizes for them."""

    only: str | None = None
    """`STANDARD` or `TIERED`; None: both"""
    standard: Spec | None = None
    """None: the policies' standard sizes"""
    tiered: Spec | None = None
    """None: the policies' largest sizes"""


class Sized:
    """One request for all sizes of a run: the same template and part of the cluster."""

    def __init__(self, item: Allocate) -> None:
        """``item``: of any size; each size replaces its memory, vcpus and disks."""
        self._item = item

    def item(self, spec: Spec, disks: int) -> Allocate:
        """One size, the disk being what it takes on each node, as in hspace."""
        instance = self._item.instance
        count = 0 if instance.template == "diskless" else disks
        disk = Disk(spec.disk, max(spec.spindles // max(count, 1), 1))
        instance = instance._replace(
            memory=spec.memory,
            vcpus=spec.vcpus,
            disk_space=spec.disk * count,
            disks=(disk,) * count,
            spindle_use=spec.spindles,
        )
        return self._item._replace(instance=instance)


def counted_groups(cluster: Cluster, name: str | None) -> list[Group]:
    """The groups whose policies count: the one named, or all that take instances.

    Raises StewardError where there is none.
    """
    if name is not None:
        return [group_named(cluster, name)]
    found = [group for group in cluster.groups if takes_instances(group)]
    if not found:
        raise StewardError("no node group takes new instances by itself: name one (--node-group)")
    return found


def usual_template(groups: Sequence[Group], enabled: Collection[str] | None = None) -> str:
    """drbd, then plain, then the first by name, of what all policies allow.

    ``enabled``: the cluster's; None where they are not known.  Raises StewardError where the
    policies allow none of them.
    """
    allowed = frozenset[str].intersection(*(group.policy.templates for group in groups))
    if enabled is not None:
        allowed = allowed.intersection(enabled)
    for template in (*_USUAL, *sorted(allowed)):
        if template in allowed:
            return template
    raise StewardError("the policies allow no disk template in all groups: name one")


def policy_runs(
    sizes: PolicySizes, cluster: Cluster, groups: Sequence[Group], sized: Sized, count: CountFits
) -> list[Filling]:
    """Tiered, then standard, once for each policy that differs from the others."""
    runs = []
    if sizes.only != STANDARD:
        for minmax in dict.fromkeys(group.policy.minmax for group in groups):
            if minmax:
                sizes_down = _sizes_down(minmax, sizes.tiered, sized)
                runs.append(Filling(TIERED, fill_tiered(count, cluster, sizes_down)))
    if sizes.only != TIERED:
        items = standard_items(groups, sized, sizes.standard)
        runs += [Filling(STANDARD, fill(count, cluster, item)) for item in items]
    return runs


def standard_items(
    groups: Sequence[Group], sized: Sized, own: Spec | None = None
) -> list[Allocate]:
    """One for each standard size of the policies; ``own``: instead of these."""
    specs = [own] if own else dict.fromkeys(group.policy.std for group in groups)
    return [sized.item(spec, max(spec.disks, 1)) for spec in specs]


def _sizes_down(
    minmax: Sequence[MinMax], own: Spec | None, sized: Sized
) -> list[tuple[Allocate, Spec]]:
    """The sizes to start from, the largest first, each with its minimum."""
    pairs = sorted(minmax, key=lambda pair: pair.max, reverse=True)
    starts = [own] if own else [pair.max for pair in pairs]
    return [
        (sized.item(start, max(pair.min.disks, 1)), pair.min)
        for start, pair in zip(starts, pairs, strict=False)
    ]
