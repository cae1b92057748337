"""Disks in several volume groups: every copy has room in its own, on every engine."""

from __future__ import annotations

import json
import random
from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest
from ask import steward
from asserting import some
from clusters import KINDS, MOVING, cluster
from messages import message as small
from thorough import seeds
from volume_groups import USUAL, divided, illegal, parts, steps

from ganeti_steward.allocators.health.troubles import GroupFacts, group_troubles
from ganeti_steward.allocators.placement.multi_allocate import after
from ganeti_steward.allocators.placement.one_place import place
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.explanation import GroupHealth
from ganeti_steward.core.model.requests import MultiAllocate

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]

ALL: Final = (*KINDS, "balance")


def request_of(kind: str, seed: int, *, unknown: float = 0.0) -> Message:
    """A request of a kind on a cluster with several volume groups."""
    return divided(usual(kind, seed), seed, unknown=unknown)


def usual(kind: str, seed: int) -> Message:
    """A request of a kind on a cluster of one volume group."""
    if kind != "balance":
        return cluster(seed, kind)
    return cluster(seed, "all", nodes=6) | {"request": {"type": "balance"}}


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_each_copy_has_room_in_its_volume_groups(kind: str, seed: int) -> None:
    message = request_of(kind, seed)
    answer = steward(message)
    assert illegal(message, answer) == [], answer["info"]


def moving_without_copy(answer: Message) -> set[str]:
    """The instances that an answer of moves moves without copying a disk."""
    operations = [one for job in answer["result"][2] for one in job]
    copied = Counter(
        one["instance_name"] for one in operations if one["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS"
    )
    return {one["instance_name"] for one in operations} - copied.keys()


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", MOVING)
def test_unknown_room_forbids_nothing_that_copies_nothing(kind: str, seed: int) -> None:
    """Whatever moves without a copy where room is endless moves where it is unknown, too."""
    message = request_of(kind, seed, unknown=0.5)
    endless = deepcopy(message)
    for node in endless["nodes"].values():
        node["volume_groups"] = {name: {"total": 10**9, "free": 10**9} for name in ("ssd", "hdd")}
        if node.get("free_disk") is not None:
            node["free_disk"] = node["total_disk"] = 10**9
    answer = steward(message)
    assert illegal(message, answer) == []
    moved = {name for name, *_ in answer["result"][0]}
    assert moving_without_copy(steward(endless)) <= moved


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_unknown_room_is_used_last(kind: str, seed: int) -> None:
    """A copy goes to a node of unknown room only with a note."""
    message = request_of(kind, seed, unknown=0.3)
    answer = steward(message)
    assert illegal(message, answer) == []
    unknown = {name for name, node in message["nodes"].items() if node["volume_groups"] is None}
    used = {
        node for node, sizes, _ in steps(message, answer) if node in unknown and {*sizes} - {USUAL}
    }
    text = answer["info"]
    assert not used or "is not known" in text, used


def with_disks_elsewhere(message: Message) -> Message:
    """The same cluster, each disk and its metadata in a second volume group as large as the first.

    The first is empty and equal everywhere, so that it makes no difference between nodes.
    """
    changed = deepcopy(message)
    changed["volume_group"] = USUAL
    for node in changed["nodes"].values():
        if node.get("free_disk") is None:
            continue
        figures = {"total": int(node["total_disk"]), "free": node["free_disk"]}
        node["volume_groups"] = {"ssd": figures}
        node["total_disk"] = node["free_disk"] = 1000
    request = changed["request"]
    for one in (*changed["instances"].values(), request, *request.get("instances", ())):
        for disk in one.get("disks", ()) if isinstance(one, dict) else ():
            disk["vg"] = disk["metavg"] = "ssd"
    return changed


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", KINDS)
def test_a_volume_group_means_the_same_by_any_name(kind: str, seed: int) -> None:
    """Engines count a second volume group exactly as they count the cluster's.

    Balancing is left out: it adds in another order, and takes the other one of two equal moves.  A
    batch is improved by exchanges in the end, where the same is so: looked at is the plan before.
    The score counts a further group from its first instance on, so there is one in each case.
    """
    message = cluster(seed, kind)
    if not any(map(parts, message["instances"].values())):
        message = cluster(seed + 1000, kind, "--mix=drbd=6,plain=4")
    with_sure_figures(message)
    answer, other = steward(message), steward(with_disks_elsewhere(message))
    if kind == "multi-allocate":
        answer, other = greedy(message), greedy(with_disks_elsewhere(message))
    if kind in MOVING:
        # What is refused is refused in other words.
        for one in (answer, other):
            one["result"][1] = [name for name, _ in one["result"][1]]
    assert other["result"] == answer["result"]


def greedy(message: Message) -> Message:
    """Where the instances of a batch go, each where it is best after those before."""
    whole, request = read_message(orjson.dumps(message))
    assert isinstance(request, MultiAllocate)
    state, places = load(whole, None, 0), []
    for item in request.items:
        placement = place(item, state, Context())
        state = after(placement, state)
        places.append(placement.nodes() if placement.chosen else ())
    return {"result": places}


def with_sure_figures(message: Message) -> None:
    """Let no node report less disk in use than its instances have: such nodes are used last."""
    for name, node in message["nodes"].items():
        node["ndparams"]["exclusive_storage"] = False
        if node.get("free_disk") is None:
            continue
        on_it = [one for one in message["instances"].values() if name in one["nodes"]]
        taken = sum(sum(parts(one).values()) for one in on_it)
        node["total_disk"] = max(node["total_disk"], taken + 1)
        node["free_disk"] = min(node["free_disk"], int(node["total_disk"]) - taken)


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_with_one_volume_group_nothing_changes(kind: str, seed: int) -> None:
    message = usual(kind, seed)
    named = deepcopy(message)
    named["volume_group"] = USUAL
    for one in named["instances"].values():
        for disk in one["disks"]:
            disk["vg"] = USUAL
    assert steward(named) == steward(message)


def read(message: Message) -> Cluster:
    """The cluster of a message."""
    return read_message(orjson.dumps(message))[0]


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_the_text_format_carries_volume_groups(seed: int) -> None:
    cluster_read = read(request_of("all", seed, unknown=0.2))
    again = read_text(htools_text(cluster_read))
    for one, other in some(zip(cluster_read.nodes, again.nodes, strict=True)):
        dead = one.offline or not one.vm_capable
        assert other.volume_groups == one.volume_groups or dead
    for old, new in some(zip(cluster_read.instances, again.instances, strict=True)):
        assert new.elsewhere == old.elsewhere
        assert new.disk_space == old.disk_space


def troubles(message: Message) -> dict[str, set[tuple[str, str]]]:
    """Kind -> the names and nodes of what `check` lists of volume groups, in all node groups."""
    found: dict[str, set[tuple[str, str]]] = {}
    whole = read(message)
    for group in whole.groups:
        nodes = tuple(node for node in whole.nodes if node.group == group.uuid)
        health = GroupHealth((), (), (), (), stuck=None)
        for trouble in group_troubles(GroupFacts(whole, nodes, health)):
            items = {(one.name, one.node) for one in trouble.items}
            found[trouble.kind] = found.get(trouble.kind, set()) | items
    return found


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_check_names_what_is_wrong_with_volume_groups(seed: int) -> None:
    """The same as counted from the message: lost groups, groups that are too small, odd nodes."""
    message = request_of("all", seed, unknown=0.1)
    rng = random.Random(seed)
    for node in message["nodes"].values():
        for name in list(node["volume_groups"] or ()):
            if rng.random() < 0.15:
                del node["volume_groups"][name]
            elif rng.random() < 0.15:
                node["volume_groups"][name] = {"total": 5_000, "free": 0}
    live = {
        name: node
        for name, node in message["nodes"].items()
        if not node["offline"] and node["vm_capable"] and node["volume_groups"] is not None
    }
    halves, taken, reserved = set(), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for name, one in message["instances"].items():
        real = {**one, "forthcoming": False}
        for at in live.keys() & {*one["nodes"]}:
            for group, size in parts(real).items():
                if group == USUAL:
                    continue
                if group not in live[at]["volume_groups"]:
                    halves |= {(name, at)} if not one.get("forthcoming") else set()
                    continue
                taken[group, at] += size
                reserved[group, at] += size if one.get("forthcoming") else 0
    figures = {
        (group, at): found
        for at, node in live.items()
        for group, found in node["volume_groups"].items()
    }
    overdrawn = {
        key
        for key, found in figures.items()
        if taken[key] > found["total"] or reserved[key] > found["free"]
    }
    found = troubles(message)
    assert found["half-mirror"] == halves
    assert found["overdrawn"] == overdrawn
    used = {
        group
        for one in message["instances"].values()
        for group in parts(one | {"forthcoming": False})
    }
    assert found["odd-volume-groups"] == odd(live, used)


def odd(live: dict[str, Message], used: set[str]) -> set[tuple[str, str]]:
    """The nodes without a volume group in use that more than half of their node group have."""
    found = set()
    for uuid in {node["group"] for node in live.values()}:
        mates = {name: node for name, node in live.items() if node["group"] == uuid}
        for group in used - {USUAL}:
            without = {name for name, node in mates.items() if group not in node["volume_groups"]}
            if 2 * len(without) < len(mates):
                found |= {(name, "") for name in without}
    return found


def test_capacity_is_that_of_the_volume_group(front: Front) -> None:
    """Three fit on the first node; the others are full, lack the group, or are not known."""
    message = small()
    del message["request"]
    message["volume_group"] = USUAL
    first, second, third, _ = message["nodes"].values()
    first["volume_groups"] = {"ssd": {"total": 50_000, "free": 35 * 1024}}
    second["volume_groups"] = {"ssd": {"total": 50_000, "free": 5 * 1024}}
    third["volume_groups"] = {}
    file = front.message(message)
    wanted = ("-t", "plain", "--memory=128", "--no-capacity-checks", "--json")
    for disk, count in (("vg=ssd", 3), (f"vg={USUAL}", 36)):
        done = front("capacity", f"--file={file}", f"--disk=0:size=10g,{disk}", *wanted)
        assert json.loads(done.out)["runs"][0]["count"] == count


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_a_volume_group_without_instances_makes_no_difference(kind: str, seed: int) -> None:
    """Such as that of the node's own system."""
    message = request_of(kind, seed)
    more, rng = deepcopy(message), random.Random(seed)
    for node in more["nodes"].values():
        if rng.random() < 0.7:
            node["volume_groups"]["sys"] = {"total": 50_000, "free": rng.randint(0, 50_000)}
    assert steward(more) == steward(message)
    assert troubles(more) == troubles(message)
