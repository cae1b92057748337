"""From a cluster, and what a plan changes of it, to the bars of a picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ganeti_steward.allocators.overview.amounts import (
    FAILS_N1,
    Amount,
    Filled,
    FilledGroup,
    Overview,
    sums,
)
from ganeti_steward.allocators.score.cluster_score import state_after
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.iallocator.request_types import Placed


def overview(now: State, after: State | None = None) -> Overview:
    """Every group with its nodes; ``after``: of the same nodes, when what is planned is done."""
    nodes = [_node(now, after, at) for at in range(now.frame.size)]
    return tuple(
        _group(group.name, [one for one, at in zip(nodes, now.frame.group, strict=True) if at == n])
        for n, group in enumerate(now.frame.cluster.groups)
    )


def with_placed(now: State, placed: Iterable[Placed]) -> State | None:
    """The state when these instances, new or not, are on these nodes; None where there are none.

    Of several places of one instance the last counts.
    """
    final = {instance.name: (instance, nodes) for instance, nodes in placed}
    return state_after(now, final.values()) if final else None


def _group(name: str, nodes: list[Filled]) -> FilledGroup:
    now = sums([one.now for one in nodes])
    after = sums([one.after for one in nodes]) if any(one.after for one in nodes) else ()
    failing = sum(FAILS_N1 in one.notes for one in nodes)
    notes = (f"{failing} of {len(nodes)} nodes fail N+1",) if failing else ()
    return FilledGroup(Filled(name, now, after, notes), tuple(nodes))


def _node(now: State, after: State | None, at: int) -> Filled:
    node = now.frame.cluster.nodes[at]
    notes = [node.condition] if node.condition else []
    if node.usable and now.now[quantity.FAILS, at]:
        notes.append(FAILS_N1)
    later = () if after is None else _amounts(after, at)
    return Filled(node.name, _amounts(now, at), later, tuple(notes))


def _amounts(state: State, at: int) -> tuple[Amount, ...]:
    frame, column = state.frame, state.now[:, at].tolist()
    node = frame.cluster.nodes[at]
    free, reserved = column[quantity.UNALLOCATED], column[quantity.RESERVED]
    memory = Amount(node.total_memory - free, node.total_memory, reserved)
    disk = Amount(node.total_disk - column[quantity.DISK], node.total_disk)
    cpus = float(frame.vcpu_limit[at])
    return (
        memory if node.total_memory else Amount(0, None),
        Amount(0, None) if frame.no_disk[at] or frame.lacks_disk[at] else disk,
        Amount(column[quantity.VCPUS], cpus if 0 < cpus < float("inf") else None),
    )
