"""What must hold for every answer, whatever the cluster."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ask import steward
from clusters import KINDS, cluster

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
@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_objects_does_not_matter(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    answer = steward(message)
    assert steward(message) == answer
    assert steward(_shuffled(message, seed)) == answer


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_nodes_of_an_allocation(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    answer = steward(message)
    if not answer["success"]:
        assert answer["result"] == []
        return
    nodes = [message["nodes"][name] for name in answer["result"]]
    assert len(set(answer["result"])) == message["request"]["required_nodes"]
    assert len({node["group"] for node in nodes}) == 1
    group = message["nodegroups"][nodes[0]["group"]]
    assert group["alloc_policy"] != "unallocable"
    assert not any(node["offline"] or node["drained"] for node in nodes)
    request = message["request"]
    kvm = message["enabled_hypervisors"][0] == "kvm"
    free = nodes[0]["free_memory"]
    if kvm:
        free -= max(0, 4096 - nodes[0]["reserved_memory"])
    assert free > request["memory"] or request.get("admin_state", "up") != "up"
    if request["disk_template"] in ("drbd", "plain"):
        assert all(node["free_disk"] > request["disk_space_total"] for node in nodes)


@pytest.mark.parametrize("seed", range(20))
def test_relocation_stays_in_the_group_and_leaves_the_node(seed: int) -> None:
    message = cluster(seed, "relocate")
    answer = steward(message)
    if not answer["success"]:
        return
    instance = message["instances"][message["request"]["name"]]
    (target,) = answer["result"]
    assert target not in instance["nodes"]
    home = message["nodes"][instance["nodes"][0]]["group"]
    assert message["nodes"][target]["group"] == home


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
