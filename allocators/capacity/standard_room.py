"""About how many more instances of the policies' standard size fit, found in a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.allocators.capacity.capacity import capacity
from ganeti_steward.allocators.capacity.sizes import (
    STANDARD,
    PolicySizes,
    Sized,
    counted_groups,
    policy_runs,
    usual_template,
)
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.answer import Refusal
from ganeti_steward.core.model.cluster import Disk, Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.model.requests import Allocate, Capacity
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.core.model.cluster import Cluster

#: Whether nodes stay evacuable is not tested: that takes most of the time.
_CONTEXT: Final = Context(parse_options(["--no-capacity-checks"]))


class Room(NamedTuple):
    """Room for instances of one size."""

    template: str
    """disk template"""
    memory: int
    """MiB"""
    disk: int
    """MiB"""
    vcpus: int
    fits: int
    """how many, one after the other; ``gnt-steward capacity`` may find fewer"""


def standard_room(cluster: Cluster) -> tuple[Room, ...]:
    """One for each standard size; empty where no group takes instances, or one has no limit."""
    try:
        groups = counted_groups(cluster, None)
        template = usual_template(groups)
        small = Instance(
            "new", 1, 1, 1, (Disk(1, None),), template, 1, (), (), "up", forthcoming=False, nodes=()
        )
        sized = Sized(Allocate(small, required_nodes=2 if template == "drbd" else 1))
        runs = policy_runs(PolicySizes(only=STANDARD), cluster, groups, sized, _count)
    except StewardError:
        return ()
    counts = [step for run in runs for step in run.filling.steps]
    return tuple(
        Room(template, one.memory, one.disk_space, one.vcpus, len(placements))
        for one, placements, _ in counts
    )


def _count(item: Allocate, cluster: Cluster, _: bool) -> Mapping[str, object]:
    outcome = capacity(Capacity(item), cluster, _CONTEXT)
    if isinstance(outcome, Refusal):
        raise StewardError(outcome.info)
    result: Any = outcome.result
    return dict(result)
