"""Disks in several volume groups: every copy has room in its own, on every engine."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any, Final

import pytest
from ask import steward
from clusters import KINDS, MOVING, cluster
from thorough import seeds
from volume_groups import USUAL, divided, illegal, steps

Message = dict[str, Any]

ALL: Final = (*KINDS, "balance")


def request_of(kind: str, seed: int, *, unknown: float = 0.0) -> Message:
    """A request of a kind on a cluster with several volume groups."""
    message = divided(cluster(seed, "all" if kind == "balance" else kind), seed, unknown=unknown)
    if kind == "balance":
        message["request"] = {"type": "balance"}
    return message


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

    Balancing is left out: it adds in another order, and takes the other one of two equal moves.
    """
    message = cluster(seed, kind)
    for node in message["nodes"].values():
        node["ndparams"]["exclusive_storage"] = False
    assert steward(with_disks_elsewhere(message))["result"] == steward(message)["result"]


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", ALL)
def test_with_one_volume_group_nothing_changes(kind: str, seed: int) -> None:
    message = cluster(seed, "all" if kind == "balance" else kind)
    if kind == "balance":
        message["request"] = {"type": "balance"}
    named = deepcopy(message)
    named["volume_group"] = USUAL
    for one in named["instances"].values():
        for disk in one["disks"]:
            disk["vg"] = USUAL
    assert steward(named) == steward(message)
