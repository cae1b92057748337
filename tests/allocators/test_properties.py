"""What must hold for every answer, whatever the cluster."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ask import steward
from clusters import KINDS, cluster
from legal import check_allocation, check_new_node
from thorough import seeds

Message = dict[str, Any]


def _shuffled(message: Message, seed: int) -> Message:
    """The same message with its objects in another order."""
    rng = random.Random(seed)
    new = dict(message)
    for key in ("nodes", "instances", "nodegroups"):
        entries = list(message[key].items())
        rng.shuffle(entries)
        new[key] = dict(entries)
    entries = list(new.items())
    rng.shuffle(entries)
    return dict(entries)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 12))
def test_the_order_of_objects_does_not_matter(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    answer = steward(message)
    assert steward(message) == answer
    assert steward(_shuffled(message, seed)) == answer


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_nodes_of_an_allocation(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    check_allocation(message, steward(message))


@pytest.mark.parametrize("seed", range(20))
def test_relocation_stays_in_the_group_and_leaves_the_node(seed: int) -> None:
    message = cluster(seed, "relocate")
    check_new_node(message, steward(message))


def test_named_group_and_restriction() -> None:
    message = cluster(1, "allocate-one", "--groups=3", nodes=12)
    message["request"]["group_name"] = "group02"
    (chosen,) = steward(message)["result"]
    assert message["nodes"][chosen]["group"] == "uuid-group-02"
    others = [n for n, node in message["nodes"].items() if node["group"] == "uuid-group-02"]
    message["request"]["restrict-to-nodes"] = [n for n in others if n != chosen]
    (second,) = steward(message)["result"]
    assert second in message["request"]["restrict-to-nodes"]
    message["request"]["group_name"] = "nowhere"
    assert steward(message)["info"] == "Request failed: no node group is named 'nowhere'"
