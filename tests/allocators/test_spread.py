"""Tags steward:spread: no engine breaks a hard one, and soft ones are kept where possible."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import orjson
import pytest
from ask import steward
from clusters import KINDS, cluster
from messages import message as small
from spreading import crowds, places, spread_out, worse
from thorough import seeds

from ganeti_steward.allocators.health.conflicts import tag_conflicts
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.iallocator.message import read_message

Message = dict[str, Any]


def usual(kind: str, seed: int) -> Message:
    """A request of a kind."""
    if kind != "balance":
        return cluster(seed, kind)
    return cluster(seed, "all", nodes=6) | {"request": {"type": "balance"}}


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", [*KINDS, "balance"])
def test_no_engine_breaks_a_hard_spread(kind: str, seed: int) -> None:
    message, rules = spread_out(usual(kind, seed), seed)
    answer = steward(message)
    assert worse(message, rules, answer) == [], answer["info"]


@pytest.mark.parametrize("seed", seeds(30, 200))
def test_a_hard_spread_forbids_nothing_else(seed: int) -> None:
    """There is a place exactly where one is left that the tags leave open."""
    message, rules = spread_out(usual("allocate-one", seed), seed)
    request, primaries = message["request"], primaries_of(message)
    tags = tags_of(message) | {request["name"]: request["tags"]}
    open_nodes = [
        node
        for node in message["nodes"]
        if not any(
            rule.hard and number > rule.most and place in places(message, rule, node)
            for rule in rules
            for (tag, place), number in crowds(
                message, rule, tags, primaries | {request["name"]: node}
            ).items()
            if tag in request["tags"]
        )
    ]
    without = deepcopy(message)
    without["cluster_tags"] = [tag for tag in message["cluster_tags"] if "spread" not in tag]
    expected = steward(without, f"--restrict-allocation-to={','.join(open_nodes) or 'none'}")
    assert steward(message)["success"] == expected["success"]


@pytest.mark.parametrize("seed", seeds(30, 200))
def test_check_names_what_is_crowded(seed: int) -> None:
    """What is only announced is counted, and not named."""
    message, rules = spread_out(usual("balance", seed), seed)
    tags, primaries = tags_of(message), primaries_of(message)
    expected = set()
    for rule in rules:
        for (tag, place), number in crowds(message, rule, tags, primaries).items():
            if number > rule.most:
                expected |= {
                    name
                    for name, node in primaries.items()
                    if tag in tags[name] and place in places(message, rule, node)
                    if not message["instances"][name].get("forthcoming")
                }
    state = load(read_message(orjson.dumps(message))[0], None, 0)
    found = [
        item.name
        for group in range(len(state.frame.cluster.groups))
        for trouble in tag_conflicts(state, group)
        if trouble.kind == "spread"
        for item in trouble.items
    ]
    assert sorted(found) == sorted(expected)


def test_a_soft_spread_is_kept_where_it_can_be() -> None:
    """Six instances over three racks of equal nodes: two in each; a seventh has its place, too."""
    message = small("multi-allocate")
    template = message["request"]["instances"][0]
    message["cluster_tags"] = ["htools:iextags:service", "steward:spread:rack:max:2"]
    one = next(iter(message["nodes"].values()))
    message["nodes"] = {
        f"node{at}": {**deepcopy(one), "tags": [f"rack:{'abc'[at % 3]}"]} for at in range(9)
    }
    message["instances"] = {}
    message["request"]["instances"] = [
        {**template, "name": f"web{at}", "tags": ["service:web"]} for at in range(7)
    ]
    answer = steward(message)
    assert answer["success"], answer["info"]
    racks = Counter("abc"[int(nodes[0][-1]) % 3] for _, nodes in answer["result"][0])
    assert sorted(racks.values()) == [2, 2, 3]


@pytest.mark.parametrize(("spare", "moved"), [("node1", 1), ("node2", 0)])
def test_a_place_with_too_many_need_not_be_left(spare: str, moved: int) -> None:
    """Within it nothing gets worse; another place with too many stays closed."""
    message = small()
    message["cluster_tags"] = ["steward:spread:rack:hard+service:*"]
    one = next(iter(message["nodes"].values()))
    instance = next(iter(message["instances"].values()))
    racks = {"node0": "a", "node1": "a", "node2": "b"}
    message["nodes"] = {
        name: {**deepcopy(one), "tags": [f"rack:{rack}"], "offline": False}
        for name, rack in racks.items()
    }
    message["nodes"]["node2" if spare == "node1" else "node1"]["free_memory"] = 0
    homes = {"web0": "node0", "web1": "node1", "web2": "node2", "web3": "node2"}
    message["instances"] = {
        name: {
            **deepcopy(instance),
            "disk_template": "ext",
            "nodes": [home],
            "tags": ["service:web"],
        }
        for name, home in homes.items()
    }
    message["request"] = {
        "type": "node-evacuate",
        "instances": ["web0"],
        "evac_mode": "primary-only",
    }
    answer = steward(message)
    assert len(answer["result"][0]) == moved, answer["info"]


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("steward:spread:", "the name of the places is missing"),
        ("steward:spread:rack:hrad", "'hrad' is neither hard nor max"),
        ("steward:spread:rack:max:0", "max must be a number above 0, found '0'"),
        ("steward:spread:rack:max:x:soft+", "the service after + is missing; max must be a number"),
    ],
)
def test_a_tag_that_cannot_be_read_places_nothing(tag: str, text: str) -> None:
    """As with all tags below steward: a slip must not open what was to be closed."""
    message = small()
    message["cluster_tags"] = [tag]
    answer = steward(message)
    assert not answer["success"]
    assert f"the cluster: tag '{tag}': {text}" in answer["info"]


def tags_of(message: Message) -> dict[str, list[str]]:
    """Instance -> its tags."""
    return {name: one["tags"] for name, one in message["instances"].items()}


def primaries_of(message: Message) -> dict[str, str]:
    """Instance -> its primary."""
    return {name: one["nodes"][0] for name, one in message["instances"].items()}
