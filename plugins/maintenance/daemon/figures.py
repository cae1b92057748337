"""The cluster in figures, after each round: how full its nodes are, how even, and what is down.

Only what the round has read anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.overview.amounts import Amount, Filled, FilledGroup, Overview, sums
from ganeti_steward.core.model.options import Options
from ganeti_steward.plugins.maintenance.edges.status import Figures
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.standard_room import Room
    from ganeti_steward.allocators.state.state import State

#: Instance -> the nodes it is being moved to, primary first.
Moves = Mapping[str, tuple[str, ...]]

#: Ganeti's statuses of instances that should run and do not.
_DOWN: Final = ("ERROR_down", "ERROR_nodedown", "ERROR_nodeoffline")

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


def steadied(now: Overview, before: Overview, moved: Collection[str]) -> Overview:
    """The picture of a round, with figures of the picture before where a move disturbs it.

    Nodes and instances are read one after the other.  Where a job ends in between, the disk of a
    node does not fit to its instances and counts as unknown for this round.

    ``moved``: names of the nodes that moves use.
    """
    known = {node.name: node.now for group in before for node in group.nodes}
    return tuple(_steady_group(group, known, moved) for group in now)


def _steady_group(
    group: FilledGroup, known: Mapping[str, tuple[Amount, ...]], moved: Collection[str]
) -> FilledGroup:
    nodes = tuple(
        _steady(node, known[node.name]) if node.name in moved and node.name in known else node
        for node in group.nodes
    )
    if nodes == group.nodes:
        return group
    whole = group.whole._replace(now=sums(node.now for node in nodes))
    if whole.after:
        whole = whole._replace(after=sums(node.after for node in nodes))
    return FilledGroup(whole, nodes)


def _steady(node: Filled, before: tuple[Amount, ...]) -> Filled:
    """With the disk as it was, where the node reports its memory and its disk is not known."""
    memory, disk, cpu = node.now
    _, last, _ = before
    if memory.total is None or disk.total is not None or last.total is None:
        return node
    node = node._replace(now=(memory, last, cpu))
    return node._replace(after=(node.after[0], last, node.after[2])) if node.after else node


def nodes_of(world: World, moves: Moves) -> set[str]:
    """Names of the nodes that moves lead from and to."""
    instances = world.instances
    now = {name for one in moves if one in instances for name in instances[one].nodes}
    return now.union(*moves.values())


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
        down=tuple(one.name for one in world.cluster.instances if one.status in _DOWN),
        checked=len(checked),
        degraded=tuple(name for name, found in checked.items() if found.faults),
        scores=scores,
        room=counted,
    )
