"""Which sizes are counted: those of the instance policies, or the user's (allocation 12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.capacity.tiered_specs import (
    CountFits,
    FilledCluster,
    fill,
    fill_tiered,
)
from ganeti_steward.allocators.rules.groups import takes_instances
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster, Disk, Group, MinMax, Spec
from ganeti_steward.core.model.names import group_named
from ganeti_steward.core.model.requests import Allocate

STANDARD: Final = "standard"
TIERED: Final = "tiered"
#: The disk templates tried when no option names one.
_USUAL: Final = ("drbd", "plain")


class Run(NamedTuple):
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


def usual_template(groups: Sequence[Group]) -> str:
    """drbd, then plain, then the first by name, of what all policies allow.

    Raises StewardError where they allow none.
    """
    allowed = frozenset[str].intersection(*(group.policy.templates for group in groups))
    for template in (*_USUAL, *sorted(allowed)):
        if template in allowed:
            return template
    raise StewardError("the policies allow no disk template in all groups: name one")


def policy_runs(
    sizes: PolicySizes, cluster: Cluster, groups: Sequence[Group], sized: Sized, count: CountFits
) -> list[Run]:
    """Tiered, then standard, once for each policy that differs from the others."""
    runs = []
    if sizes.only != STANDARD:
        for minmax in dict.fromkeys(group.policy.minmax for group in groups):
            if minmax:
                sizes_down = _sizes_down(minmax, sizes.tiered, sized)
                runs.append(Run(TIERED, fill_tiered(count, cluster, sizes_down)))
    if sizes.only != TIERED:
        own = sizes.standard
        for spec in [own] if own else dict.fromkeys(group.policy.std for group in groups):
            item = sized.item(spec, max(spec.disks, 1))
            runs.append(Run(STANDARD, fill(count, cluster, item)))
    return runs


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
