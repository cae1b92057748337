"""All instances leave one node: which moves can be made at the same time."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from thorough import seeds
from worlds import instance, node, world

from ganeti_steward.allocators.moves.leave_node import Leaving, NodeMoves, leave_node
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.context import Context


def _leave(cluster: Cluster, avoided: dict[str, str]) -> NodeMoves:
    names = [one.name for one in cluster.instances if "n0" in one.nodes]
    return leave_node(Leaving("n0", names, avoided, frozenset(), 99), cluster, Context())


def test_two_instances_that_leave_the_same_secondary_move_one_after_the_other() -> None:
    """Their disks are copied off the old secondary first, because it is under repair itself."""
    nodes = [node("n0", drained=True), *(node(f"n{i}") for i in range(1, 8))]
    cluster = world(nodes, [instance(name, "n0", "n1") for name in "ab"]).cluster
    (move,) = _leave(cluster, {"n1": "reports evacuate"}).moves
    assert {"n0", "n1"} < move.nodes


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_moves_at_the_same_time_share_only_the_node_that_is_left(seed: int) -> None:
    """Nodes an instance leaves are used as well as those it goes to."""
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(1, 9)]
    nodes = [node("n0", drained=True), *(node(name) for name in names)]
    instances = [
        instance(f"i{at}", *chance.sample(["n0", chance.choice(names)], 2)) for at in range(8)
    ]
    avoided = dict.fromkeys(chance.sample(names, 2), "reports evacuate")
    moves = _leave(world(nodes, instances).cluster, avoided).moves
    assert moves
    for one, other in combinations(moves, 2):
        assert one.nodes & other.nodes == {"n0"}, (one, other)
