"""Reserves: what gets something new keeps them, on every engine, and nothing else is refused."""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations
from typing import Any, Final

import pytest
from ask import outcome, places, steward
from asserting import some
from clusters import KINDS, MOVING, cluster
from reserves import TAG, reserving, usable, violations
from thorough import seeds
from volume_groups import divided

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import Config

Message = dict[str, Any]

ALL: Final = (*KINDS, "balance")


def usual(kind: str, seed: int) -> Message:
    """A request of a kind, on every other cluster with several volume groups."""
    if kind == "balance":
        message = cluster(seed, "all", nodes=6) | {"request": {"type": "balance"}}
    else:
        message = cluster(seed, kind)
    return divided(message, seed) if seed % 2 else message


def one_instance(message: Message) -> Message:
    """The same request about its first instance only."""
    if message["request"].get("instances"):
        message["request"]["instances"] = message["request"]["instances"][:1]
    return message


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_what_gets_something_new_keeps_its_reserve(kind: str, seed: int) -> None:
    message = reserving(usual(kind, seed), seed)
    answer = steward(message)
    assert violations(message, answer) == [], answer["info"]


@pytest.mark.parametrize("kind", ALL)
def test_the_check_sees_what_takes_a_reserve(kind: str) -> None:
    """Without reserves answers take them; all nodes are below theirs here."""
    for seed in range(200):
        plain = usual(kind, seed)
        greedy = deepcopy(plain)
        for node in greedy["nodes"].values():
            node["tags"] += [f"{TAG}memory:9000g", f"{TAG}disk:900000g"]
        if violations(greedy, steward(plain)):
            assert not violations(greedy, steward(greedy))
            return
    pytest.fail("no answer takes anything of a reserve")


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_capacity_keeps_the_reserves(kind: str, seed: int) -> None:
    """All copies together, placed one after the other."""
    message = reserving(usual(kind, seed), seed)
    wanted = message["request"]
    message["request"] = {**wanted, "type": "capacity"}
    found = outcome(message)
    result: Any = getattr(found, "result", {"placements": []})
    copies = [{**wanted, "name": f"copy{at}"} for at in range(len(result["placements"]))]
    placed = [[one["name"], nodes] for one, nodes in zip(copies, result["placements"], strict=True)]
    message["request"] = {"type": "multi-allocate", "instances": copies}
    assert violations(message, {"success": True, "result": [placed, []]}) == [], found.info


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", KINDS)
def test_what_keeps_all_reserves_is_not_refused(kind: str, seed: int) -> None:
    """What has a place without reserves that keeps them has one with them, too."""
    plain = one_instance(usual(kind, seed))
    message = reserving(plain, seed)
    answer = steward(plain)
    if not violations(message, answer):
        assert placed(steward(message)) == placed(answer)


def placed(answer: Message) -> bool:
    """Whether the one instance of a request has a place."""
    result = answer["result"]
    return bool(answer["success"] and (result if isinstance(result[0], str) else result[0]))


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_each_place_is_legal_that_keeps_its_reserve(kind: str, seed: int) -> None:
    """Every node, or pair of nodes, is tried alone; nothing else decides."""
    plain = usual(kind, seed)
    message, number = reserving(plain, seed), plain["request"]["required_nodes"]
    names = [name for name, node in plain["nodes"].items() if usable(node)][:6]
    for nodes in some(combinations(names, number)):
        options = (f"--restrict-allocation-to={','.join(nodes)}", "--no-capacity-checks")
        legal = places(plain, *options)
        keeping = {
            place
            for place in legal
            if not violations(message, {"success": True, "result": list(place)})
        }
        assert places(message, *options) == keeping


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_a_reserve_of_nothing_changes_nothing(kind: str, seed: int) -> None:
    message = usual(kind, seed)
    nothing = deepcopy(message)
    nothing["cluster_tags"] += [f"{TAG}{key}:0" for key in ("memory", "disk", "hosts")]
    assert steward(nothing) == steward(message)


def configured(text: str) -> Config:
    """A configuration with a section [reserve]."""
    return parse_config("steward.toml", f"[reserve]\n{text}".encode())


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_the_configuration_is_a_tag_that_the_cluster_lacks(kind: str, seed: int) -> None:
    message = usual(kind, seed)
    config = configured('memory = "10%"\ndisk = "40g"\nhosts = 1\nvolume-groups = {ssd = "4g"}')
    tagged = deepcopy(message)
    tags = [f"{TAG}memory:0.1", f"{TAG}disk:40g", f"{TAG}volume-group:ssd:4g", f"{TAG}hosts:1"]
    tagged["cluster_tags"] += tags
    assert outcome(message, config=config) == outcome(tagged)
    # What the cluster, a group or a node says wins over the configuration.
    own = reserving(tagged, seed)
    own["cluster_tags"] = [*message["cluster_tags"], *tags]
    assert outcome(own, config=configured('memory = "1g"\nhosts = 2')) == outcome(own)


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", MOVING)
def test_an_unusable_node_is_left_as_without_reserves(kind: str, seed: int) -> None:
    """Everything leaves nodes that are offline; then no reserve stops it."""
    plain = one_instance(usual(kind, seed))
    name = plain["request"]["instances"][0]
    for node in plain["instances"][name]["nodes"]:
        plain["nodes"][node]["drained"] = True
    message = reserving(plain, seed)
    assert steward(message)["result"] == steward(plain)["result"]
