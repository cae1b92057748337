"""Disk figures that do not agree with the instances: other volume groups, lost or resized disks.

Ganeti counts a disk in another volume group for its instance, but not in the figures of its node.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final

import orjson
import pytest
from ask import steward
from asserting import some
from clusters import MOVING, cluster
from thorough import seeds

from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import EVAC_ALL, Balance, NodeEvacuate

Message = dict[str, Any]

LOCAL: Final = ("drbd", "plain")
KINDS: Final = (*MOVING, "change-group", "multi-allocate", "allocate-secondary", "relocate")


def distorted(message: Message, seed: int) -> Message:
    """The same cluster with some disks that the nodes' figures do not count."""
    rng, changed = random.Random(seed), deepcopy(message)
    for instance in changed["instances"].values():
        if instance["disk_template"] in LOCAL:
            chance = rng.random()
            if chance < 0.3:
                # A disk in another volume group.
                instance["disk_space_total"] += rng.choice([10_240, 102_400, 819_200])
            elif chance < 0.4:
                # It was recorded larger than it is.
                instance["disk_space_total"] += 64
            elif chance < 0.5:
                # Its volumes on one node are lost.
                node = changed["nodes"][rng.choice(instance["nodes"])]
                if node.get("free_disk") is not None and not node["offline"]:
                    lost = node["free_disk"] + instance["disk_space_total"]
                    node["free_disk"] = min(lost, int(node["total_disk"]))
    request = changed["request"]
    if request["type"] == "relocate":
        request["disk_space_total"] = changed["instances"][request["name"]]["disk_space_total"]
    for node in changed["nodes"].values():
        if rng.random() < 0.2 and node.get("free_disk") and not node["offline"]:
            node["free_disk"] = rng.choice([0, 1, 20_000])
    return changed


def disk_of(message: Message, name: str) -> int:
    """MiB that a copy of an instance takes, of the cluster or of the request.

    What is only announced takes none yet; soft rules reserve some for it.
    """
    wanted = message["request"].get("instances", ())
    new = {one["name"]: one for one in wanted if isinstance(one, dict)}
    instance = new.get(name) or message["instances"][name]
    size: int = instance["disk_space_total"]
    return size if instance["disk_template"] in LOCAL and not instance.get("forthcoming") else 0


def overfilled(message: Message, answer: Message) -> dict[str, int]:
    """Node -> MiB that an answer leaves free, where that is nothing or less."""
    kind, result = message["request"]["type"], answer["result"]
    if not answer["success"]:
        return {}
    if kind == "multi-allocate":
        return _without_room(message, ((name, nodes) for name, nodes in result[0]))
    if kind in ("allocate-secondary", "relocate"):
        name = message["request"]["name"]
        return _without_room(message, [(name, [result] if isinstance(result, str) else result)])
    return _without_room_by_jobs(message, result[2])


def _without_room(message: Message, taken: Iterable[tuple[str, list[str]]]) -> dict[str, int]:
    free = {name: node.get("free_disk") or 0 for name, node in message["nodes"].items()}
    copies = [(node, disk_of(message, name)) for name, nodes in taken for node in nodes]
    for node, size in copies:
        free[node] -= size
    return {node: free[node] for node, size in copies if size and free[node] <= 0}


def _without_room_by_jobs(message: Message, jobs: list[list[Message]]) -> dict[str, int]:
    free = {name: node.get("free_disk") or 0 for name, node in message["nodes"].items()}
    nodes = {name: list(one["nodes"]) for name, one in message["instances"].items()}
    bad = {}
    for operation in (one for job in jobs for one in job):
        name = operation["instance_name"]
        if operation["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            target, size = operation["remote_node"], disk_of(message, name)
            free[target] -= size
            free[nodes[name][1]] += size
            nodes[name][1] = target
            if size and free[target] <= 0:
                bad[target] = free[target]
        elif message["instances"][name]["disk_template"] == "drbd":
            nodes[name].reverse()
    return bad


def copying(answer: Message) -> Counter[str]:
    """Instance -> how often an answer of moves copies its disks."""
    operations = [one for job in answer["result"][2] for one in job]
    copied = Counter(
        one["instance_name"] for one in operations if one["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS"
    )
    return Counter({one["instance_name"]: copied[one["instance_name"]] for one in operations})


@pytest.mark.parametrize("seed", seeds(40, 400))
@pytest.mark.parametrize("kind", KINDS)
def test_no_node_takes_more_than_it_reports_free(kind: str, seed: int) -> None:
    message = distorted(cluster(seed, kind), seed)
    answer = steward(message)
    assert overfilled(message, answer) == {}, answer["info"]


@pytest.mark.parametrize("seed", seeds(40, 400))
@pytest.mark.parametrize("kind", MOVING)
def test_what_copies_nothing_looks_at_no_disk(kind: str, seed: int) -> None:
    """Whatever moves without a copy on nodes with endless disks moves on these, too."""
    message = distorted(cluster(seed, kind), seed)
    endless = deepcopy(message)
    for node in endless["nodes"].values():
        if "free_disk" in node:
            node["free_disk"] = node["total_disk"] = 10**9
    free = copying(steward(endless))
    wanted = {name for name, copies in free.items() if not copies}
    assert wanted <= {*copying(steward(message))}


@pytest.mark.parametrize("seed", seeds(40, 400))
def test_balancing_names_the_doubtful_nodes_that_it_copies_to(seed: int) -> None:
    message = distorted(cluster(seed, "all"), seed)
    message["request"] = {"type": "balance"}
    answer = steward(message)
    used = Counter[str]()
    there = {
        name: one
        for name, one in message["instances"].items()
        if one["disk_template"] in LOCAL and not one.get("forthcoming")
    }
    for one in there.values():
        used.update(dict.fromkeys(one["nodes"], one["disk_space_total"]))
    assert overfilled(message, answer) == {}
    doubtful = {
        name
        for name, node in message["nodes"].items()
        if not node["offline"]
        and node.get("free_disk") is not None
        and node["total_disk"] - node["free_disk"] < used[name]
    }
    copied, at = set[str](), {name: {*one["nodes"]} for name, one in there.items()}
    for name, _, nodes in answer["result"][0]:
        if name in there:
            copied |= {*nodes} - at[name]
            at[name] = {*nodes}
    _, _, named = answer["info"].partition("less disk in use than their instances have: ")
    shown = {name for name in doubtful if name in named}
    assert shown == copied & doubtful or "more" in named


def leaves(message: Message, node: str, name: str) -> dict[str, bool]:
    """Who finds a way for an instance to leave a node, its only copy there included."""
    read, _ = read_message(orjson.dumps(message))
    evacuate, balance = NodeEvacuate((name,), EVAC_ALL), Balance(evacuate=True)
    balance = balance._replace(select=frozenset({name}), min_gain=0.0, min_gain_per_gib=0.0)
    options = Options(capacity_checks=False)
    moved = {
        kind: dispatch(each, read, Config(), options, explain=False).result
        for kind, each in (("evacuate", evacuate), ("balance", balance))
    }
    request = Leaving(node, [name], {}, frozenset(), 1)
    one = next(iter(leave_node(request, read, Context(options)).moves), None)
    found = {
        kind: any(node not in nodes for _, _, nodes in result[0] if result)
        for kind, result in moved.items()
    }
    return found | {"daemon": one is not None and not one.keeps_copy}


def ways(seed: int) -> list[dict[str, bool]]:
    """`leaves` for up to three instances of the node with the most, which is drained."""
    message = distorted(cluster(seed, "all", "--mix=drbd=1", "--fill=.9"), seed)
    homes = {
        name: one["nodes"][0]
        for name, one in message["instances"].items()
        if not one.get("forthcoming") and not message["nodes"][one["nodes"][0]]["offline"]
    }
    node = Counter(homes.values()).most_common(1)[0][0]
    message["nodes"][node]["drained"] = True
    names = [name for name in homes if homes[name] == node][:3]
    return [leaves(message, node, name) for name in names]


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_all_that_empty_a_node_agree(seed: int) -> None:
    """The allocator, the daemon with `maintenance plan`, and `balance`, for single instances."""
    for found in some(ways(seed)):
        assert len({*found.values()}) == 1, found
