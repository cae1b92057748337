"""``capacity`` without some nodes and with more: as if the cluster were so."""

from __future__ import annotations

import json
import random
import subprocess
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import Mock

import pytest
from asserting import some
from clusters import cluster, generate
from installed import need
from thorough import seeds
from volume_groups import divided

from ganeti_steward.allocators.capacity.assumed import assume
from ganeti_steward.allocators.loads import load_reports
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.model.cluster_reader import read_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from front import Front, Message

#: MiB that hail and Steward count as used by the system of a KVM node.
KVM: Final = 4096
SMALL: Final = ("--nodes=6", "--groups=2", "--per-node=4", "--mix=drbd=1", "--request=none")
#: Of one small size, so that a count takes a moment.
COUNT: Final = ("--json", "-t", "drbd", "--memory=16g", "--disk=0:size=100g", "-c", "1")


def pictured(seed: int) -> Message:
    """A cluster of any kind, some with several volume groups."""
    found = cluster(seed, "allocate-pair", nodes=6)
    if found["enabled_hypervisors"] == ["kvm"]:
        # KVM nodes report the memory of their instances, too.
        for node in found["nodes"].values():
            node["reserved_memory"] = 9000
    return divided(found, seed) if seed % 3 == 0 else found


def by_hand(message: Message, like: str, group: str, *names: str) -> Message:
    """The message with these nodes, which Ganeti reports as ``like`` without its instances."""
    changed = deepcopy(message)
    own = KVM if message["enabled_hypervisors"][0] == "kvm" else None
    for name in names:
        node = deepcopy(message["nodes"][like])
        node |= {"group": group, "offline": False, "drained": False, "vm_capable": True}
        taken = node["reserved_memory"] if own is None else own
        node["free_memory"] = node["total_memory"] - taken
        node["free_disk"] = node["total_disk"]
        if node["ndparams"]["exclusive_storage"]:
            node["free_spindles"] = node["total_spindles"]
        for pool in (node.get("volume_groups") or {}).values():
            pool["free"] = pool["total"]
        changed["nodes"][name] = node
    return changed


def live_nodes(message: Message) -> list[str]:
    nodes = message["nodes"].items()
    return [name for name, node in nodes if not node["offline"] and node["vm_capable"]]


def counted(front: Front, message: Message, *options: str) -> Any:
    done = front("capacity", front.message(message), *COUNT, *options)
    assert done.status == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("seed", seeds(20, 100))
def test_an_added_node_is_one_that_was_written_by_hand(seed: int, front: Front) -> None:
    front.configure()
    message, rng = pictured(seed), random.Random(seed)
    like, number = rng.choice(live_nodes(message)), rng.choice([1, 2])
    group = rng.choice([*message["nodegroups"]])
    names = [f"new-{at}.example.com" for at in range(1, number + 1)]
    hand = by_hand(message, like, group, *names)
    short = like.partition(".")[0]
    option = f"{number}:like={short}:group={group}"
    made = assume(read_cluster(message), [], [option], None, KVM)
    assert made.cluster.nodes == read_cluster(hand).nodes
    found = counted(front, message, f"--add-nodes={option}")
    wanted = counted(front, hand)
    assert [one.pop("name") for one in some(found.pop("added"))] == names
    assert wanted.pop("added") == []
    assert found == wanted


@pytest.mark.parametrize("seed", seeds(20, 100))
def test_nodes_taken_as_offline_are_offline_nodes(seed: int, front: Front) -> None:
    front.configure()
    message, rng = pictured(seed), random.Random(seed)
    gone = rng.sample(live_nodes(message), 2)
    hand = deepcopy(message)
    for name in gone:
        hand["nodes"][name]["offline"] = True
    assumed = assume(read_cluster(message), gone, [], None, KVM)
    assert assumed.cluster.nodes == read_cluster(hand).nodes
    found, wanted = counted(front, message, f"-O={','.join(gone)}"), counted(front, hand)
    assert (found.pop("offline"), wanted.pop("offline")) == (sorted(gone), [])
    assert found == wanted
    placed = {node for size in found["runs"][0]["sizes"] for p in size["placements"] for node in p}
    assert placed.isdisjoint(gone)


def test_both_together(front: Front) -> None:
    """A node that is replaced by one of the same kind, and by two larger ones."""
    front.configure()
    message = generate(*SMALL)
    first, *others = message["nodes"]
    larger = max(others, key=lambda name: message["nodes"][name]["total_memory"])
    group = message["nodes"][larger]["group"]
    hand = by_hand(message, first, message["nodes"][first]["group"], "new-1.example.com")
    hand = by_hand(hand, larger, group, "new-2.example.com", "new-3.example.com")
    hand["nodes"][first]["offline"] = True
    found = counted(
        front, message, "-O", first, f"--add-nodes=1:like={first}", f"--add-nodes=2:like={larger}"
    )
    assert found["runs"] == counted(front, hand)["runs"]
    assert [(one["name"], one["like"]) for one in found["added"]] == [
        ("new-1.example.com", first),
        ("new-2.example.com", larger),
        ("new-3.example.com", larger),
    ]


def test_a_group_and_a_tag_of_nodes(front: Front) -> None:
    front.configure()
    message = generate(*SMALL)
    inside = [n for n, node in message["nodes"].items() if node["group"] == "uuid-group-00"]
    tagged = [*message["nodes"]][1::2]
    for name in tagged:
        message["nodes"][name]["tags"] = ["power:a"]
    assert counted(front, message, "-O", "group00")["offline"] == inside
    assert counted(front, message, "-O", "power:a")["offline"] == tagged
    first = next(iter(message["nodes"]))
    assert counted(front, message, "-O", first, "-O", "power:a")["offline"] == [first, *tagged]


def test_the_model_without_a_name(front: Front) -> None:
    """The usable node with most memory that reports its figures, of the groups that are counted."""
    front.configure()
    message = generate(*SMALL)
    nodes = message["nodes"]

    def model(*options: str) -> tuple[str, str]:
        (added,) = counted(front, message, *options)["added"]
        return added["like"], added["group"]

    names = {
        group: [name for name, node in nodes.items() if node["group"] == f"uuid-{group}"]
        for group in ("group-00", "group-01")
    }
    for at, name in enumerate([*names["group-00"], *names["group-01"]]):
        nodes[name]["total_memory"] = 200_000 + at
    last, late = names["group-00"][-1], names["group-01"][-1]
    assert model("--add-nodes=1") == (late, "group01")
    assert model("--add-nodes=1", "-G", "group00") == (last, "group00")
    assert model("--add-nodes=1:group=group00") == (last, "group00")
    assert model("--add-nodes=1:group=group00", "-O", last) == (names["group-00"][-2], "group00")
    nodes[late]["drained"] = True
    assert model("--add-nodes=1") == (names["group-01"][-2], "group01")
    assert model(f"--add-nodes=1:like={late}") == (late, "group01")
    nodes[names["group-01"][-2]]["free_disk"] = None
    assert model("--add-nodes=1")[0] not in names["group-01"][-2:]


def test_names_and_tags(front: Front) -> None:
    """No node has such a name; a tag of the moment is not copied."""
    message = generate(*SMALL)
    first, second, *_ = message["nodes"]
    message["nodes"]["new-2.lab"] = message["nodes"].pop(second)
    for one in message["instances"].values():
        one["nodes"] = ["new-2.lab" if name == second else name for name in one["nodes"]]
    kept = ["htools:x", "steward:aggregate:a", "rack:b"]
    message["nodes"][first]["tags"] = [*kept, "maintd:repairready:1"]
    assumed = assume(read_cluster(message), [], [f"2:like={first}"] * 2, None, KVM)
    names = [f"new-{at}.example.com" for at in (1, 3, 4, 5)]
    assert [one.name for one in assumed.added] == names
    assert {assumed.cluster.node(name).tags for name in names} == {tuple(kept)}


def test_the_load_of_an_added_node_is_not_measured(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are, once; nothing runs on the new one."""
    readings = Mock(wraps=load_reports.read_reports)
    monkeypatch.setattr(load_reports, "read_reports", readings)
    front.configure()
    message, file = generate(*SMALL), tmp_path / "loads.json"
    names = [*message["nodes"]]
    loads: dict[str, float] = {name: 1.0 * at for at, name in enumerate(names)}

    def measured(message: Message, *options: str) -> Any:
        content = [
            {"node": n, "reports": [{"name": "cpu-avg-load", "data": {"cpu_total": load}}]}
            for n, load in loads.items()
        ]
        file.write_text(json.dumps(content))
        return counted(front, message, f"--option=--mond-data={file}", *options)["runs"]

    found = measured(message, f"--add-nodes=1:like={names[1]}")
    assert readings.call_count == 1
    assert found != counted(front, message, f"--add-nodes=1:like={names[1]}")["runs"]
    loads["new-1.example.com"] = 0.0
    group = message["nodes"][names[1]]["group"]
    assert found == measured(by_hand(message, names[1], group, "new-1.example.com"))
    del loads[names[0]]
    measured(message)
    done = front("capacity", front.message(message), *COUNT, f"--option=--mond-data={file}")
    assert done.status == 0
    assert done.err.count("CPU load not used") == 1


def test_what_was_assumed_is_printed(front: Front) -> None:
    front.configure()
    message = generate(*SMALL)
    first, *_, last = message["nodes"]
    options = (front.message(message), "--only=standard", "-O", first, f"--add-nodes=1:like={last}")
    offline = f"Taken as offline: {first}."
    added = f"Added to group group01, like {last}: new-1.example.com."
    done = front("capacity", *options)
    assert done.out.replace("\n  ", " ").splitlines()[:3] == [offline, added, ""]
    done = front("capacity", *options, "--separator=;")
    assert done.err.splitlines() == [f"Note: {offline}", f"Note: {added}"]
    picture = front.path / "picture.svg"
    assert front("capacity", *options, f"--plot={picture}").status == 0
    assert f"{offline} {added[:-1]}" in picture.read_text()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--add-nodes=0"], "--add-nodes 0: a number of nodes from 1 to 1000 is expected first, "),
        (["--add-nodes=1001"], "from 1 to 1000 is expected first, found '1001'"),
        (["--add-nodes=like=node001"], "is expected first, found 'like=node001'"),
        (["--add-nodes=1:node001"], "like=NODE or group=GROUP is expected, found 'node001'"),
        (["--add-nodes=1:like="], "like=NODE or group=GROUP is expected, found 'like='"),
        (["--add-nodes=1:like=node001:like=node002"], "like= is given twice"),
        (["--add-nodes=1:like=nosuch"], "--add-nodes 1:like=nosuch: no node is named 'nosuch'"),
        (["--add-nodes=1:group=x"], "no node group is named 'x' (known: group00, group01)"),
        (
            ["--add-nodes=1:like=node002"],
            "the figures of node002.example.com are not known: it is ",
        ),
        (["--add-nodes=1:like=node003"], "node003.example.com does not report its free disk: name"),
        (["-O=nosuch"], "no node is named 'nosuch'"),
        (["-O=group00", "--add-nodes=1:group=group00"], "no usable node of group group00 reports"),
    ],
)
def test_faults(front: Front, options: list[str], fault: str) -> None:
    front.configure()
    message = generate(*SMALL)
    message["nodes"]["node002.example.com"]["offline"] = True
    message["nodes"]["node003.example.com"]["free_disk"] = None
    file = front.message(message)
    done = front("capacity", file, *options)
    assert (done.status, done.out) == (1, "")
    assert fault in done.err
    both = front("capacity", file, *options, "--add-nodes=x", "-O=another")
    assert "no node is named 'another'" in both.err
    assert "found 'x'" in both.err
    assert fault in both.err


def test_saved(front: Front, tmp_path: Path) -> None:
    """The cluster after each count, as hspace takes it."""
    front.configure()
    message = generate(*SMALL)
    place = tmp_path / "saved"
    options = (front.message(message), f"--save={place}", "--add-nodes=1", "--json")
    runs = json.loads(front("capacity", *options).out)["runs"]
    assert [run["mode"] for run in runs] == ["tiered", "standard"]
    for run in some(runs):
        file = tmp_path / f"saved.{run['mode']}"
        saved = read_text(file.read_text())
        assert len(saved.instances) == len(message["instances"]) + run["count"]
        assert len(saved.nodes) == 7
        before = sum(node["free_disk"] for node in message["nodes"].values())
        added = saved.node("new-1.example.com").total_disk
        sizes = sum(len(p) * size["disk"] for size in run["sizes"] for p in size["placements"])
        assert sum(node.free_disk for node in saved.nodes) == before + added - sizes
        hspace = [need("hspace"), "-t", str(file), "--machine-readable=yes"]
        done = subprocess.run(hspace, capture_output=True, text=True, check=True, timeout=300)
        assert f"HTS_INI_INST_CNT={len(saved.instances)}\n" in done.stdout


def test_saved_counts_of_several_policies(front: Front, tmp_path: Path) -> None:
    front.configure()
    message = generate(*SMALL)
    message["nodegroups"]["uuid-group-01"]["ipolicy"]["std"]["memory-size"] = 1024
    options = (front.message(message), "--only=standard", f"-S={tmp_path / 'saved'}")
    assert front("capacity", *options).status == 0
    found = {file.name for file in tmp_path.glob("saved*")}
    assert found == {"saved.standard", "saved.standard-2"}
    done = front("capacity", *options, f"-S={tmp_path / 'nosuch' / 'saved'}")
    assert (done.status, "nosuch/saved.standard: No such file" in done.err) == (1, True)
