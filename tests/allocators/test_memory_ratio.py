"""Overcommitment of memory: what runs stays within its ratio, N+1 within its own."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest
from ask import outcome, places, steward
from asserting import some
from clusters import KINDS, cluster
from messages import message as small
from reserves import Ledger, overcommitting, ratio_of, reserving, usable, violations
from thorough import seeds

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]

PREFIX: Final = "steward:memory-ratio:"


def requested(kind: str, seed: int) -> Message:
    """A request of a kind on a cluster with little memory."""
    if kind == "balance":
        return cluster(seed, "all", nodes=6) | {"request": {"type": "balance"}}
    return cluster(seed, kind)


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", [*KINDS, "balance"])
def test_what_gets_something_new_stays_within_its_ratio(kind: str, seed: int) -> None:
    message = overcommitting(requested(kind, seed), seed)
    message = reserving(message, seed) if seed % 2 else message
    answer = steward(message)
    assert violations(message, answer) == [], answer["info"]


def enlarged(message: Message) -> Message:
    """Nodes that have as much more memory as may be allocated after a failure."""
    larger, ledger = deepcopy(message), Ledger(message)
    for name, node in larger["nodes"].items():
        if node.get("total_memory") is not None:
            more = ledger.beyond(name, failed=True)
            node["total_memory"] += more
            node["free_memory"] += more
    for tags in larger["cluster_tags"], *(one["tags"] for one in larger["nodegroups"].values()):
        tags[:] = [tag for tag in tags if not tag.startswith(PREFIX)]
    return larger


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_a_ratio_is_more_memory(kind: str, seed: int) -> None:
    """Every node, or pair, is tried alone: legal is what is legal on nodes with more memory.

    But what runs may only take what the first ratio allows.
    """
    message = overcommitting(requested(kind, seed), seed)
    names = [name for name, node in message["nodes"].items() if usable(node)][:6]
    for nodes in some(combinations(names, message["request"]["required_nodes"])):
        options = (f"--restrict-allocation-to={','.join(nodes)}", "--no-capacity-checks")
        legal = {
            place
            for place in places(enlarged(message), *options)
            if not violations(message, {"success": True, "result": list(place)})
        }
        assert places(message, *options) == legal


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", [*KINDS, "balance"])
def test_a_ratio_of_one_changes_nothing(kind: str, seed: int) -> None:
    message = requested(kind, seed)
    one = deepcopy(message)
    one["cluster_tags"].append(f"{PREFIX}1")
    assert steward(one) == steward(message)


def full(*tags: str) -> Message:
    """Four nodes of 8192 MiB for instances, each with one of 8000 MiB."""
    message = small()
    message["cluster_tags"] = list(tags)
    (instance,) = [one for name, one in message["instances"].items() if name == "e1.test"]
    message["instances"] = {
        f"e{at}.test": {**instance, "memory": 8000, "nodes": [name]}
        for at, name in enumerate(message["nodes"])
    }
    for node in message["nodes"].values():
        node |= {"total_memory": 8704, "free_memory": 192}
    message["request"] |= {"memory": 2048}
    return message


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ((), False),
        ((f"{PREFIX}1.2",), False),
        ((f"{PREFIX}1.25",), True),
        ((f"{PREFIX}1.1:n1:2",), False),
        ((f"{PREFIX}1.25", f"{PREFIX}1.1"), False),
        ((f"{PREFIX}1.25", "steward:reserve:memory:1g"), False),
        ((f"{PREFIX}1.5", "steward:reserve:memory:1g"), True),
        ((f"{PREFIX}2:n1:1.5",), False),
        ((f"{PREFIX}0.9",), False),
    ],
)
def test_how_much_fits(tags: tuple[str, ...], fits: bool) -> None:
    """192 MiB are unallocated, 2048 of these instances' memory are needed."""
    assert steward(full(*tags), "--no-capacity-checks")["success"] == fits


def test_the_sentences() -> None:
    message = full(f"{PREFIX}1.1")
    (explained,) = outcome(message, explain=True).explanations
    (group,) = explained.groups  # type: ignore[union-attr]
    text = "needs 2048 MiB and 1 to spare, 1011 MiB unallocated (819 of these beyond the node's"
    assert {one.reason for one in group.nodes} == {f"{text} memory)"}
    message = full(f"{PREFIX}1.1:n1:2")
    info = steward(message)["info"]
    text = "has 8384 MiB unallocated, 7373 of these in reserve, needs 2048"
    assert f"n1.test {text} (7373 are for instances of failed nodes)" in info
    message["nodes"]["n3.test"]["tags"] = [f"{PREFIX}2"]
    text = f"(node n3.test: tag '{PREFIX}2' is ignored: memory ratios are for node groups"
    assert text in steward(message)["info"]


def test_instances_of_an_offline_node_may_reach_the_second_ratio() -> None:
    message = full(f"{PREFIX}1.1:n1:2.5")
    message["nodes"]["n1.test"]["offline"] = True
    message["request"] = {
        "type": "node-evacuate",
        "instances": ["e0.test"],
        "evac_mode": "primary-only",
    }
    assert steward(message)["result"][1] == []
    message["cluster_tags"] = [f"{PREFIX}1.1"]
    assert steward(message)["result"][1] != []


def test_check_and_capacity(front: Front) -> None:
    message = full(f"{PREFIX}1.5")
    del message["request"]
    file = front.message(message)
    options = ("-t", "ext", "--memory=1g", "--disk=0:size=1g", "--no-capacity-checks", "--json")
    run = json.loads(front("capacity", f"--file={file}", *options).out)["runs"][0]
    # 192 and 4096 MiB on each of four nodes.
    assert run["count"] == 16
    for free, over in ((-4000, 0), (-5000, 4)):
        for node in message["nodes"].values():
            node["free_memory"] = free
        file = front.message(message)
        data = json.loads(front("check", f"--file={file}", "--json", "--no-simulation").out)
        found = {one["kind"]: one["items"] for one in data["troubles"]}
        assert len(found.get("memory-ratio", [])) == over
    assert ratio_of(message, "n1.test") == (1.5, 1.5)
