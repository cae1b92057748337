"""The cluster in figures, after each round: how full its nodes are, how even, and what is down.

Only what the round has read anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.overview.amounts import Overview
from ganeti_steward.core.model.options import Options
from ganeti_steward.plugins.maintenance.edges.status import Figures
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.standard_room import Room
    from ganeti_steward.allocators.state.state import State

#: Instance -> the nodes it is being moved to, primary first.
Moves = Mapping[str, tuple[str, ...]]

#: Nodes up to which room for instances is counted: of 200 it takes over a second.
_COUNTED: Final = 250


class Drawn(NamedTuple):
    """What the allocators' engine finds out about a cluster; empty where that failed."""

    overview: Overview = ()
    scores: tuple[tuple[str, float], ...] = ()
    """name and score of each group with usable nodes"""


def drawn(world: World, moves: Moves) -> Drawn:
    """Each group and node now, and when these moves are done; the scores now."""
    # They import the engine, which a daemon without work does without until the first round.
    from ganeti_steward.allocators.overview.filled import overview, with_placed
    from ganeti_steward.allocators.state.load import load

    cluster = world.cluster
    now = load(cluster, None, 0)
    placed = [
        (cluster.instance(name), nodes)
        for name, nodes in moves.items()
        if name in cluster.instance_index and {*nodes} <= {*cluster.node_index}
    ]
    even = load(cluster, None, Options().kvm_memory)
    return Drawn(overview(now, with_placed(now, placed)), tuple(_scores(even)))


def _scores(now: State) -> Iterator[tuple[str, float]]:
    """As ``gnt-steward balance`` prints them without options."""
    from ganeti_steward.allocators.score.score import Scorer

    for at, group in enumerate(now.frame.cluster.groups):
        members = now.frame.group == at
        if (members & now.frame.usable).any():
            yield group.name, float(Scorer(now, members).score)


def room(world: World) -> tuple[Room, ...]:
    """How many more instances of the standard sizes fit; empty for very many nodes."""
    from ganeti_steward.allocators.capacity.standard_room import standard_room

    return standard_room(world.cluster) if len(world.cluster.nodes) <= _COUNTED else ()


def figures_of(
    world: World, scores: tuple[tuple[str, float], ...], counted: tuple[Room, ...]
) -> Figures:
    """The figures of a cluster, with the scores that were drawn and the room that was counted."""
    names = [one.name for one in world.cluster.instances]
    checked = {name: found for name in names if (found := world.disk_health(name))}
    return Figures(
        cluster=world.cluster.name,
        down=tuple(one.name for one in world.cluster.instances if one.down),
        checked=len(checked),
        degraded=tuple(name for name, found in checked.items() if found.faults),
        scores=scores,
        room=counted,
    )
