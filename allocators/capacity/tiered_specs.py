"""Counting how many instances fit: one size alone, or smaller and smaller ones (allocation 12).

Every count is a request of type ``capacity`` to the configured allocator; this module only
decides on the next request and keeps the cluster as it fills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ganeti_steward.allocators.capacity.added_instances import copies_of, with_instances
from ganeti_steward.allocators.capacity.smaller_specs import amount, lowered, steps_to
from ganeti_steward.core.model.cluster import Cluster, Instance, Spec
from ganeti_steward.core.model.requests import Allocate

#: How many copies fit on a cluster: the result of a ``capacity`` request.
CountFits = Callable[[Allocate, Cluster], Mapping[str, object]]


class SizeCount(NamedTuple):
    """One size of instance, and how many of it fit."""

    instance: Instance
    placements: tuple[tuple[str, ...], ...]
    limited_by: str


class FilledCluster(NamedTuple):
    """What came of filling a cluster."""

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
    """What is taken of memory (by instances), of disk, and of the CPUs times the vcpu-ratio."""
    policies = {group.uuid: group.policy for group in cluster.groups}
    instances = [instance for instance in cluster.instances if not instance.forthcoming]
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
    step, cluster, _ = _fill(count, cluster, item, 1)
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
            step, cluster, hints = _fill(count, cluster, item, placed + 1)
            steps.append(step)
            item = _smaller(item, hints, least)
    # The first size is shown even if none fits.
    return FilledCluster(tuple(s for s in steps if s.placements or s is steps[0]), cluster)


def _fill(
    count: CountFits, cluster: Cluster, item: Allocate, number: int
) -> tuple[SizeCount, Cluster, Mapping[str, int]]:
    result = count(item, cluster)
    placements: list[list[str]] = result["placements"]  # type: ignore[assignment]
    hints: Mapping[str, int] = result.get("fits_with", {})  # type: ignore[assignment]
    placed = tuple(tuple(nodes) for nodes in placements)
    step = SizeCount(item.instance, placed, str(result["limited_by"]))
    return step, with_instances(cluster, copies_of(item.instance, placed, number)), hints


def _smaller(item: Allocate, hints: Mapping[str, int], least: Spec) -> Allocate | None:
    """With the hinted amounts; None when that is nothing new or below the least."""
    instance = item.instance
    for resource, wanted in hints.items():
        if wanted < getattr(least, resource):
            return None
        instance = lowered(instance, resource, steps_to(instance, resource, wanted))
    shrunk = any(amount(instance, each) < amount(item.instance, each) for each in hints)
    return item._replace(instance=instance) if shrunk else None
