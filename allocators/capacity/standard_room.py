"""How many more instances of the policies' standard size fit, counted quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.capacity.capacity import quick_count
from ganeti_steward.allocators.capacity.sizes import (
    Sized,
    counted_groups,
    standard_items,
    usual_template,
)
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Disk, Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.model.requests import Allocate
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
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
    """One for each standard size with memory; empty where no group takes instances by itself."""
    try:
        groups = counted_groups(cluster, None)
        template = usual_template(groups)
    except StewardError:
        return ()
    small = Instance(
        "new", 1, 1, 1, (Disk(1, None),), template, 1, (), (), "up", forthcoming=False, nodes=()
    )
    sized = Sized(Allocate(small, required_nodes=2 if template == "drbd" else 1))
    items = [item for item in standard_items(groups, sized) if item.instance.memory]
    counts = [(item.instance, quick_count(cluster, item, _CONTEXT)) for item in items]
    return tuple(
        Room(template, one.memory, one.disk_space, one.vcpus, fits)
        for one, fits in counts
        if fits is not None
    )
