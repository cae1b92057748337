"""``gnt-steward aggregate fix``: misplaced instances are moved to where they comply."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import clusters
import pytest
from front import capture
from paths import ROOT
from tagged import Tagged, instance
from thorough import seeds

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

IN = "steward:aggregate:"
Message = dict[str, Any]


def site() -> Message:
    """The group default is node1 to node3; node1 is reserved while instances are there."""
    message = capture("allocate-diskless")
    message["cluster_tags"] = ["steward:default-forbidden-prefix:reservation:"]
    for name, node in message["nodes"].items():
        node["tags"] = [f"{IN}reservation:r1"] if name == "node1.lab" else []
        node["total_disk"], node["free_disk"] = 100000, 90000
    for group in message["nodegroups"].values():
        group["tags"] = []
        group["ipolicy"]["disk-templates"] = ["drbd", "plain", "ext", "diskless"]
    message["instances"] = {
        "here.lab": instance(["node1.lab"], template="ext"),
        "pair.lab": drbd(["node2.lab", "node1.lab"]),
        "fine.lab": instance(["node1.lab"], "steward:member-of:reservation:r1", template="ext"),
        "other.lab": instance(["node2.lab"], template="ext"),
    }
    return message


def drbd(nodes: list[str]) -> Message:
    disks = {"disks": [{"size": 1024}], "disk_space_total": 1152}
    return {**instance(nodes, template="drbd"), **disks}


def fix(front: Front, message: Message, *arguments: str) -> Done:
    return front("aggregate", "fix", *arguments, "--file", front.message(message))


def test_the_plan(front: Front) -> None:
    message = site()
    done = fix(front, message)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["#", "Instance", "From", "To", "GiB", "How"]
    assert lines[-1].startswith("2 moves, 1.1 GiB to be copied, ")
    data = json.loads(fix(front, message, "--json").out)
    assert data["left"] == []
    after = {move["instance"]: move["after"] for move in data["moves"]}
    assert sorted(after) == ["here.lab", "pair.lab"]
    assert after["here.lab"][0] in ("node2.lab", "node3.lab")
    assert sorted(after["pair.lab"]) == ["node2.lab", "node3.lab"]
    commands = fix(front, message, "-C").out
    assert "gnt-instance replace-disks -n node3.lab pair.lab\n" in commands


def test_a_primary_is_left_by_way_of_the_secondary(front: Front) -> None:
    """In between it is the secondary, which it may not stay."""
    message = site()
    message["instances"] = {"pair.lab": drbd(["node1.lab", "node2.lab"])}
    done = fix(front, message, "--json")
    assert done.status == 0
    (move,) = json.loads(done.out)["moves"]
    assert sorted(move["after"]) == ["node2.lab", "node3.lab"]


def test_only_those_named(front: Front) -> None:
    data = json.loads(fix(front, site(), "pair", "--json").out)
    assert [move["instance"] for move in data["moves"]] == ["pair.lab"]
    assert "no instance is named 'nothing'" in fix(front, site(), "nothing").err


def test_nothing_to_do(front: Front) -> None:
    message = site()
    message["nodes"]["node1.lab"]["tags"] = []
    message["instances"].pop("fine.lab")
    done = fix(front, message)
    assert (done.status, done.out) == (0, "No instance is misplaced.\n")


def test_plain_balancing_leaves_them(front: Front) -> None:
    """Reserving a node moves no instance away by itself."""
    message = site()
    message["instances"] = {"here.lab": message["instances"]["here.lab"]}
    done = front("balance", "--json", "--file", front.message(message))
    assert json.loads(done.out)["moves"] == 0
    assert len(json.loads(fix(front, message, "--json").out)["moves"]) == 1


def test_what_stays(front: Front) -> None:
    message = site()
    message["nodes"]["node2.lab"]["tags"] = [f"{IN}reservation:r2"]
    message["nodes"]["node3.lab"]["tags"] = [f"{IN}reservation:r2"]
    message["instances"] = {
        "disks.lab": {**drbd(["node1.lab"]), "disk_template": "plain"},
        "far.lab": instance(["node1.lab"], template="ext"),
        "slip.lab": instance(["node1.lab"], "steward:memberof:a", template="ext"),
        "wrong.lab": instance(["node1.lab"], "steward:member-of:gone", template="ext"),
    }
    done = fix(front, message)
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0] == (
        "Left: disks.lab: its disks exist only on node1.lab; move it by hand: gnt-instance move -n "
        "node4.lab disks.lab"
    )
    assert lines[1] == (
        "Left: far.lab: no usable node of group default complies as primary; another group: "
        "gnt-instance change-group --to rack2 far.lab"
    )
    assert lines[2].startswith("Left: slip.lab: instance slip.lab: tag 'steward:memberof:a': ")
    assert lines[3] == "Left: wrong.lab: no usable node of the cluster complies as primary"
    assert len(lines) == 4


def test_a_node_without_room(front: Front) -> None:
    message = site()
    for name in ("node2.lab", "node3.lab"):
        message["nodes"][name]["free_memory"] = 0
    message["instances"] = {"here.lab": instance(["node1.lab"], template="ext")}
    done = fix(front, message)
    assert (done.status, done.out) == (
        1,
        "Left: here.lab: no move within group default reaches a node that complies as primary: "
        "node2.lab, node3.lab\n",
    )


def test_a_fault_of_the_cluster(front: Front) -> None:
    message = site()
    message["cluster_tags"].append("steward:aggregate:a")
    done = fix(front, message)
    assert (done.status, done.out) == (1, "")
    assert "the cluster: tag 'steward:aggregate:a': " in done.err


def test_files_run_nothing(front: Front) -> None:
    assert "-X runs jobs on a live cluster" in fix(front, site(), "-X").err
    assert "--json excludes -X" in fix(front, site(), "-X", "--json").err


@pytest.mark.parametrize("seed", seeds(1, 4, 1))
def test_whole_clusters(front: Front, seed: int) -> None:
    """After the plan nothing is misplaced but what it names."""
    message = clusters.generate(
        *("--nodes=6", "--per-node=4", "--request=none", "--aggregates=3", f"--seed={seed}"),
        "--mix=drbd=70,ext=30",
    )
    node = message["nodes"][sorted(message["nodes"])[3]]
    node["tags"].append(f"{IN}reservation:new")
    message["cluster_tags"].append("steward:default-forbidden-prefix:reservation:")
    before = json.loads(
        front("aggregate", "check", "--json", "--file", front.message(message)).out
    )["misplaced"]
    assert before
    data = json.loads(fix(front, message, "--json").out)
    for move in data["moves"]:
        message["instances"][move["instance"]]["nodes"] = move["after"]
    after = json.loads(front("aggregate", "check", "--json", "--file", front.message(message)).out)[
        "misplaced"
    ]
    assert {one["instance"] for one in after} == {one["instance"] for one in data["left"]}
    assert len(after) < len(before)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_every_move_removes_a_fault(front: Front, seed: int) -> None:
    """Also where most instances have no node on which they comply."""
    rng = random.Random(seed)
    message = clusters.generate(
        *(f"--nodes={rng.choice([4, 5, 7])}", "--per-node=3", "--request=none", f"--seed={seed}"),
        "--mix=drbd=60,ext=40",
    )
    message["cluster_tags"].append("steward:default-forbidden-prefix:reservation:")
    reserved = rng.sample(sorted(message["nodes"]), rng.choice([2, 3, len(message["nodes"])]))
    for name in reserved:
        message["nodes"][name]["tags"].append(f"{IN}reservation:{rng.choice('abc')}")
    for one in message["instances"].values():
        if rng.random() < 0.5:
            one["tags"].append(f"steward:member-of:reservation:{rng.choice('abc')}")
    before = _misplaced(front, message)
    data = json.loads(fix(front, message, "--json").out)
    for move in data["moves"]:
        message["instances"][move["instance"]]["nodes"] = move["after"]
    after = _misplaced(front, message)
    for move in data["moves"]:
        assert after[move["instance"]] < before[move["instance"]]
    assert sum(after.values()) <= sum(before.values())
    assert {name for name, faults in after.items() if faults} == {
        one["instance"] for one in data["left"]
    }


def _misplaced(front: Front, message: Message) -> Counter[str]:
    """Name of an instance -> in how many roles it is misplaced."""
    done = front("aggregate", "check", "--json", "--file", front.message(message))
    return Counter(one["instance"] for one in json.loads(done.out)["misplaced"])


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_a_live_cluster(front: Front, way: str) -> None:
    with Tagged(site()).reached(front.path, way) as options:
        data = json.loads(front("aggregate", "fix", "--json", *options).out)
    assert sorted(move["instance"] for move in data["moves"]) == ["here.lab", "pair.lab"]


def test_the_plan_of_the_manual(front: Front) -> None:
    """The page of the command shows it."""
    message = site()
    message["instances"] = {
        "disks.lab": {**drbd(["node1.lab"]), "disk_template": "plain"},
        "pair.lab": message["instances"]["pair.lab"],
    }
    page = (ROOT / "docs" / "reference" / "commands" / "aggregate.md").read_text()
    shown = "".join(f"    {line}\n" for line in fix(front, message).out.splitlines())
    assert shown in page
