"""Planned maintenance keeps hard tags steward:spread while nodes are away."""

from __future__ import annotations

import orjson
import pytest
from clusters import generate
from rolled import shape
from spreading import crowds, spread_out
from thorough import seeds
from worlds import instance, node, world

from ganeti_steward.allocators.rolling.fleet import MOVE
from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
from ganeti_steward.core.iallocator.message import read_message

HARD = "steward:spread:rack:hard+service:*"
RACKS = {"node1": "a", "node2": "b", "node3": "b", "node4": "c"}


def test_no_instance_goes_to_the_rack_of_another_one() -> None:
    nodes = [node(name, tags=[f"rack:{rack}"]) for name, rack in RACKS.items()]
    pair = [
        instance("dns1", "node1", "node2", tags=["service:dns"]),
        instance("dns2", "node3", template="rbd", tags=["service:dns"]),
    ]
    roll = plan_roll(world(nodes, pair, cluster_tags=[HARD]).cluster, ["node1", "node3"])
    (obstacle,) = roll.impossible
    assert (obstacle.node, obstacle.sentence) == (
        "node1",
        "dns1 cannot go to node2: too many of its service would run there",
    )
    assert HARD in obstacle.helps
    (one,) = roll.rounds
    assert [(leave.instance, leave.target) for leave in one.leaves] in (
        [[("dns2", "node2")], [("dns2", "node4")]]
    )


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_no_round_puts_more_of_a_service_together(seed: int) -> None:
    """However many nodes are away at once; what was together before may stay so."""
    made = generate(*shape(seed), "--request=none") | {"request": {"type": "balance"}}
    message, rules = spread_out(made, seed)
    cluster, _ = read_message(orjson.dumps(message))
    names = [one.name for one in cluster.nodes]
    tags = {name: one["tags"] for name, one in message["instances"].items()}
    home = {name: one["nodes"][0] for name, one in message["instances"].items()}
    worse = [
        (one.nodes, key, number)
        for one in plan_roll(cluster, names, RollOptions(MOVE)).rounds
        for away in [home | {leave.instance: leave.target for leave in one.leaves}]
        for rule in rules
        if rule.hard
        for before in [crowds(message, rule, tags, home)]
        for key, number in crowds(message, rule, tags, away).items()
        if number > max(rule.most, before[key])
    ]
    assert worse == []
