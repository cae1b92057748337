"""Nodes and node groups with less free than their reserve, and tags of reserves without meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.health.troubles import Item, Trouble
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.reserves import host_room, tag_faults
from ganeti_steward.core.json_reader import counted

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster


def reserve_troubles(state: State, groups: set[int]) -> Iterator[Trouble]:
    """What is below its reserve; ``groups``: the node groups to look at, by index."""
    frame, reserves = state.frame, state.frame.reserves
    if reserves is None:
        return
    amounts = [("memory", quantity.UNALLOCATED), ("disk", quantity.DISK)]
    amounts += [
        (f"volume group {name}", quantity.pool_rows(pool)[0])
        for pool, name in enumerate(frame.pools)
    ]
    items = []
    looked_at = frame.usable & np.isin(frame.group, [*groups])
    for node in np.flatnonzero(looked_at).tolist():
        for what, row in amounts:
            free, kept = int(state.now[row, node]), int(reserves.kept[row, node])
            # Unknown figures, and volume groups that a node does not have, are left out.
            if -quantity.UNKNOWN < free < kept:
                text = f"{what}: {free} MiB free, {kept} MiB in reserve"
                items.append(Item(frame.cluster.nodes[node].name, detail=text))
    yield Trouble("reserve", tuple(items))
    left = state.now[quantity.UNALLOCATED] - reserves.for_n1
    over = looked_at & (reserves.beyond > 0) & (left < 0)
    yield Trouble(
        "memory-ratio",
        tuple(
            Item(frame.cluster.nodes[at].name, detail=f"{-left[at]} MiB beyond it")
            for at in np.flatnonzero(over).tolist()
        ),
    )
    room = host_room(state)
    yield Trouble(
        "host-reserve",
        tuple(
            Item(frame.cluster.groups[at].name, detail=_group_text(state, at, int(room[at])))
            for at in sorted(groups)
            if room[at] < 0
        ),
    )


def _group_text(state: State, group: int, room: int) -> str:
    reserves = state.frame.reserves
    assert reserves is not None
    kept = int(reserves.host_memory[group])
    number = counted(reserves.hosts[group], "node")
    return f"{room + kept} MiB unallocated, {kept} MiB in reserve for {number}"


def tag_troubles(cluster: Cluster) -> Trouble:
    """The tags of reserves that cannot be read."""
    return Trouble(
        "reserve-tags",
        tuple(Item(one.name, detail=f"{one.tag!a}: {one.text}") for one in tag_faults(cluster)),
    )
