"""``gnt-steward check``: what is wrong, beside the real hcheck."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clusters
import pytest
from fixed_plan import calls, install
from installed import need
from thorough import seeds
from worlds import instance as made
from worlds import node as plain_node
from worlds import with_cluster_tags, world

from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.model.cluster_reader import read_cluster

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]
PREFIX = "GNT_STEWARD_CHECK_"


def cluster(*more: str) -> Message:
    return clusters.generate(
        "--nodes=8", "--groups=2", "--mix=drbd=1", "--seed=7", "--per-node=3", "--fill=.3", *more
    )


def ill(seed: int, nodes: int = 0) -> Message:
    """A cluster of any sort on which a lot is wrong."""
    rng = random.Random(seed)
    message = clusters.cluster(seed, rng.choice(clusters.KINDS), nodes=nodes)
    message["cluster_tags"].append("htools:iextags:web")
    for node in message["nodes"].values():
        if "free_memory" in node and rng.random() < 0.3:
            node["free_memory"] = rng.choice([0, 100, 2000, 5000])
    for instance in message["instances"].values():
        if rng.random() < 0.2:
            instance["tags"] = [*instance["tags"], "web:" + rng.choice("ab")]
    return message


def variables(text: str, prefix: str) -> dict[str, str]:
    """``NAME=value`` lines without the prefix."""
    lines = [line.partition("=") for line in text.splitlines()]
    assert all(name.startswith(prefix) for name, _, _ in lines)
    return {name[len(prefix) :]: value for name, _, value in lines}


@pytest.mark.usefixtures("htools_n1")
@pytest.mark.parametrize("seed", seeds(12, 25))
def test_beside_hcheck(front: Front, tmp_path: Path, seed: int) -> None:
    """Its counts, but for instances with an unusable secondary: it counts nodes there."""
    text = tmp_path / "cluster.text"
    text.write_text(htools_text(read_cluster(ill(seed)), kvm_memory=4096))
    options = ("--no-simulation", "--machine-readable")
    his = variables(
        subprocess.run(
            [need("hcheck"), "-t", text, *options],
            capture_output=True,
            check=True,
            text=True,
        ).stdout,
        "HCHECK_",
    )
    mine = variables(front("check", "--text-data", str(text), *options).out, PREFIX)
    assert mine["OK"] == "1"
    of_group = {mine[name]: name[-1] for name in mine if name.startswith("GROUP_UUID_")}
    groups = [name for name in his if name.startswith("GROUP_UUID_")]
    for name in groups:
        at = of_group[his[name]]
        for count in ("N1_FAIL", "CONFLICT_TAGS", "OFFLINE_PRI", "GN1_FAIL", "SCORE"):
            key = f"INIT_GROUP_{name[-1]}_{count}"
            assert float(mine[f"INIT_GROUP_{at}_{count}"]) == pytest.approx(
                float(his[key]), abs=2e-8
            ), key
    for count in ("N1_FAIL", "CONFLICT_TAGS", "OFFLINE_PRI", "GN1_FAIL"):
        assert mine[f"INIT_CLUSTER_{count}"] == his[f"INIT_CLUSTER_{count}"]
    cluster = read_text(text.read_text())
    unusable = {node.name for node in cluster.nodes if not node.usable}
    assert int(his["INIT_CLUSTER_OFFLINE_SEC"]) == len(unusable)
    secondaries = [one for one in cluster.instances if not unusable.isdisjoint(one.nodes[1:])]
    real = [one for one in secondaries if not one.forthcoming]
    assert int(mine["INIT_CLUSTER_OFFLINE_SEC"]) == len(real)


def test_the_clusters_have_every_fault(front: Front) -> None:
    """Else the comparison above would show little."""
    total = dict.fromkeys(("n1_nodes", "clashing", "primaries", "secondaries", "stuck"), 0)
    for seed in range(25):
        file = front.message(ill(seed))
        data = json.loads(front("check", "--no-simulation", "--json", "-I", file).out)
        for group in data["groups"]:
            for key in total:
                total[key] += len(group["before"][key])
    assert min(total.values()) > 20


def test_text(front: Front) -> None:
    message = cluster("--offline=1")
    install(front)
    done = front("check", "-v", "-I", front.message(message))
    assert (done.status, done.err) == (2, "")
    first, second = sorted(message["instances"])[:2]
    blocks = [block.splitlines() for block in done.out.split("\n\n")]
    assert blocks[0][0] == "2 errors, 2 warnings. Balancing would fix all faults of placement."
    assert f"warning: 1 instance has an unusable primary: {first}" in blocks[0]
    node = message["instances"][second]["nodes"][0]
    stuck = "warning: 1 instance has no place to go when its node must be emptied: "
    assert f"{stuck}{second} on {node}" in blocks[0]
    rows = {line.rsplit(None, 2)[0]: line.split()[-2:] for line in blocks[1]}
    assert rows["Group group00"] == ["now", "balanced"]
    assert "nodes that fail N+1" not in rows
    assert rows["instances with an unusable primary"] == ["1", "0"]
    assert rows["nodes that could not be emptied"] == ["1", "0"]
    assert rows["score (never below 0.50000000)"] == ["10.50000000", "3.00000000"]
    assert "unusable secondary" not in done.out
    assert blocks[2][-1] == "Note: small"
    (down,) = [name for name, node in message["nodes"].items() if node["offline"]]
    assert done.out.count(f"\nUnusable: {down} (offline)\n") == 1
    assert blocks[3][0].split() == ["All", "groups", "now", "balanced"]
    assert blocks[4][0].startswith("Balancing would be 3 moves, ")


def test_what_is_wrong_in_eighty_columns(front: Front) -> None:
    message = clusters.generate(
        *("--nodes=30", "--groups=2", "--mix=drbd=1", "--seed=5", "--per-node=4"),
        *("--drained=4", "--offline=2"),
    )
    done = front("check", "--no-simulation", "-I", front.message(message))
    assert done.status == 2
    assert max(map(len, done.out.splitlines())) <= 80
    assert ".example.com" not in done.out
    drained = [name for name, node in message["nodes"].items() if node["drained"]]
    text = " ".join(done.out.split())
    assert all(f"{name.partition('.')[0]} (drained)" in text for name in drained)
    # Nothing is counted of which there is nothing.
    assert not [line for line in done.out.splitlines() if line.endswith(" 0")]
    whole = front("check", "-v", "--no-simulation", "-I", front.message(message)).out
    assert all(f"{name} (drained)" in whole for name in drained)


def test_suspect_nodes_are_advice(front: Front) -> None:
    message = cluster()
    name = min(message["nodes"])
    message["nodes"][name]["suspect"] = "reports suspect: smart:S1: failing"
    done = front("check", "--no-simulation", "-I", front.message(message))
    text = " ".join(done.out.split())
    named = f"{name.partition('.')[0]} (reports suspect: smart:S1: failing)"
    assert f"advice: 1 node is used after others: {named}" in text
    assert done.status == 0


def test_nothing_is_wrong(front: Front) -> None:
    done = front("check", "-I", front.message(cluster()))
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "No error, no warning."
    # Uneven, however.
    assert lines[1].startswith("advice: 2 node groups are uneven: group00 (8 moves would lower ")
    assert "Looked at: status of instances and nodes, N+1, exclusion, location and" in done.out
    assert "Not looked at: the disks of instances (--disks); the reports of nodes" in done.out
    quick = front("check", "-I", front.message(cluster()), "--no-capacity-checks")
    assert "empty" not in quick.out
    assert "instances with an unusable" not in done.out
    assert "All groups" not in done.out
    assert "Balancing would be " in done.out


def of_worlds(path: Path, *changes: Any, tags: tuple[str, ...] = (), **nodes: Any) -> list[str]:
    """Options that name a cluster of four nodes with these instances."""
    made_nodes = [plain_node(f"node{n}", **nodes.get(f"node{n}", {})) for n in range(1, 5)]
    before = with_cluster_tags(world(made_nodes, changes), tags)
    file = path / "cluster.data"
    file.write_text(htools_text(before.cluster))
    return ["--text-data", str(file)]


def kinds(front: Front, *options: str) -> dict[str, list[str]]:
    """Kind of trouble -> names; all but advice."""
    data = json.loads(front("check", "--json", *options).out)
    return {
        one["kind"]: [item["name"] for item in one["items"]]
        for one in data["troubles"]
        if one["severity"] != "advice"
    }


def test_instances_that_do_not_run_as_they_should(front: Front, tmp_path: Path) -> None:
    cluster = of_worlds(
        tmp_path,
        made("web", "node1", "node2", status="ERROR_down"),
        made("db", "node2", "node3", status="ERROR_up", up=False),
        made("gone", "node3", "node4", status="ERROR_nodedown"),
    )
    done = front("check", *cluster)
    assert done.status == 2
    assert done.out.startswith(
        "2 errors.\n"
        "error: 2 instances that should run are down: gone (ERROR_nodedown), web\n"
        "  (ERROR_down)\n"
        "error: 1 instance has an error status: db (ERROR_up)\n"
    )
    assert kinds(front, *cluster) == {"down": ["gone", "web"], "status": ["db"]}


def test_stopped_instances_need_not_run() -> None:
    """Ganeti has the same status for them where their node does not answer, or is offline."""
    cluster = world(
        [plain_node("node1"), plain_node("node2")],
        [
            made("gone", "node1", "node2", status="ERROR_nodedown"),
            made("stopped", "node1", "node2", status="ERROR_nodedown", up=False),
            made("left", "node2", "node1", status="ERROR_nodeoffline", up=False),
        ],
    ).cluster
    assert {one.name: one.down for one in cluster.instances} == {
        "gone": True,
        "left": False,
        "stopped": False,
    }


def test_offline_nodes_with_primaries(front: Front) -> None:
    message = cluster()
    on = {name: one["nodes"] for name, one in sorted(message["instances"].items())}
    node = on[min(on)][0]
    message["nodes"][node]["offline"] = True
    mine = [name for name, nodes in on.items() if nodes[0] == node]
    message["instances"][mine[0]]["admin_state"] = "down"
    file = front.message(message)
    done = front("check", "-I", file)
    assert done.status == 2
    short, first = node.partition(".")[0], mine[1].partition(".")[0]
    assert f"that should run are down: {first} on {short} (offline)" in done.out
    assert f"1 offline node is a primary: {short} ({len(mine)} instances)\n" in done.out
    found = kinds(front, "-I", file)
    assert found["down"] == mine[1:]
    assert found["primaries"] == mine[:1]
    assert found["secondaries"] == [name for name, nodes in on.items() if nodes[1] == node]


def test_conflicts_of_tags(front: Front, tmp_path: Path) -> None:
    """Both copies in one location, and a secondary to which no migration may go."""
    cluster = of_worlds(
        tmp_path,
        made("near", "node1", "node2"),
        made("far", "node1", "node3"),
        made("old", "node4", "node3"),
        tags=("htools:nlocation:power", "htools:migration:cpu"),
        node1={"tags": ["power:a"]},
        node2={"tags": ["power:a"]},
        node3={"tags": ["power:b"]},
        node4={"tags": ["power:c", "cpu:new"]},
    )
    done = front("check", *cluster)
    assert done.status == 1
    assert "warning: 1 instance has both copies in one location: near (power:a)\n" in done.out
    assert kinds(front, *cluster) == {
        "location": ["near"],
        "migration": ["old"],
        "stuck": ["old"],
    }


def test_what_a_failure_of_nodes_would_do(front: Front, tmp_path: Path) -> None:
    """Instance by instance, for a node, for a tag of nodes and for a node group."""
    cluster = of_worlds(
        tmp_path,
        made("web", "node1", "node2"),
        made("db", "node1", "node4"),
        made("plain", "node1", template="plain"),
        made("copy", "node3", "node1"),
        made("large", "node1", "node2", memory=15000),
        made("larger", "node1", "node2", memory=15100),
        made("shared", "node4", template="rbd"),
        made("stopped", "node4", "node3", up=False),
        made("other", "node2", "node3"),
        node1={"tags": ["power:a"]},
        node4={"tags": ["power:a"]},
    )
    done = front("check", "--no-simulation", "-O", "power:a", *cluster)
    assert done.status == 2
    table = done.out.partition("\nWithout node1, node4: ")[2].split("\n\n")[0].splitlines()
    assert "2 would restart elsewhere, 4 would stay down, 1 would lose a copy, 1 are stopped" in (
        f"{table[0]} {table[1].strip()}"
    )
    rows = {line.split()[0]: line.split(None, 2)[2] for line in table if "node" in line}
    assert rows["copy"] == "loses its copy, runs on"
    assert rows["db"] == "stays down: both nodes are among them"
    assert rows["larger"].startswith("stays down") or rows["large"].startswith("stays down")
    assert rows["plain"] == "stays down: its only disks are on node1"
    assert rows["stopped"] == "is stopped; could start on node3"
    assert "other" not in rows
    found = kinds(front, "--no-simulation", "-O", "power:a", *cluster)
    assert found["lose-copy"] == ["copy"]
    assert "down" not in found
    assert "offline-primaries" not in found
    whole = json.loads(front("check", "--json", "-O", "g1", "--no-simulation", *cluster).out)
    assert len(whole["offline"]) == 4
    assert {one["effect"] for one in whole["outages"]} == {"stays-down", "stopped"}
    one = json.loads(front("check", "--json", "-O", "node3", "--no-simulation", *cluster).out)
    effects = {each["instance"]: (each["effect"], each["target"]) for each in one["outages"]}
    assert effects == {
        "copy": ("stays-down", ""),
        "other": ("loses-copy", ""),
        "stopped": ("loses-copy", ""),
    }


def test_balancing_cannot_fix_everything(front: Front) -> None:
    """Plain instances cannot leave a node that is offline."""
    message = clusters.generate(
        "--nodes=6", "--mix=drbd=1,plain=1", "--seed=3", "--per-node=3", "--fill=.3", "--offline=1"
    )
    done = front("check", "-I", front.message(message))
    assert done.status == 2
    assert "Balancing would fix some of the faults of placement; left:" in done.out
    none = front("check", "-I", front.message(message), "--no-instance-moves", "--no-disk-moves")
    assert "Balancing would fix none of the faults of placement; left:" in none.out
    assert none.out.endswith("\nBalancing would move nothing.\n")
    plain = front("check", "--no-simulation", "-I", front.message(message))
    assert plain.status == 2
    assert plain.out.startswith("2 errors, 2 warnings.\n")
    assert "balanc" not in plain.out.lower()


def test_without_simulation_no_moves_are_requested(front: Front) -> None:
    install(front)
    file = front.message(cluster())
    for option in ("--no-simulation", "-l5"):
        front("check", option, "-I", file)
    assert [request.max_moves for request, _, _ in calls(front)] == [0, 5]


def test_what_balancing_gains_is_what_it_does(front: Front) -> None:
    """The figures after balancing are those of the same plan by ``balance``."""
    file = front.message(ill(4, nodes=5))
    printed = json.loads(front("check", "--json", "-I", file).out)
    plan = json.loads(front("balance", "--json", "-I", file).out)
    assert (printed["moves"], printed["copied"]) == (plan["moves"], plan["copied"])
    assert plan["moves"] > 0
    for one, other in zip(printed["groups"], plan["groups"], strict=True):
        assert one["score_after"] == other["score_after"]
        assert one["moves"] == other["moves"]


def test_a_node_taken_as_offline(front: Front) -> None:
    message = cluster()
    name = sorted(message["nodes"])[0]
    data = json.loads(front("check", "--json", "-O", name, "-I", front.message(message)).out)
    on = {one: message["instances"][one]["nodes"] for one in sorted(message["instances"])}
    before = data["groups"][0]["before"]
    assert before["primaries"] == [one for one, nodes in on.items() if nodes[0] == name]
    assert before["secondaries"] == [one for one, nodes in on.items() if nodes[1] == name]
    assert data["groups"][0]["unusable"] == {name: "offline"}
    assert data["well"] is False
    after = data["groups"][0]["after"]
    assert (after["primaries"], after["secondaries"]) == ([], [])


def test_without_capacity_checks(front: Front) -> None:
    file = front.message(ill(2))
    usual = json.loads(front("check", "--json", "-I", file).out)
    assert any(group["before"]["stuck"] for group in usual["groups"])
    without = ("--no-capacity-checks", "-I", file)
    data = json.loads(front("check", "--json", *without).out)
    assert [group["before"]["stuck"] for group in data["groups"]] == [None] * len(data["groups"])
    text = front("check", *without).out
    assert "Cannot move away" not in text
    assert "could not be emptied" not in text.split("\n\n")[1]


def test_many_names(front: Front) -> None:
    message = cluster()
    name = max(message["nodes"], key=lambda node: sum(
        one["nodes"][0] == node for one in message["instances"].values()
    ))  # fmt: skip
    for number in range(20):
        (instance, *_) = [one for one in message["instances"].values() if one["nodes"][0] == name]
        message["instances"][f"more{number:02}"] = {**instance, "memory": 1}
    message["nodes"][name]["drained"] = True
    options = ("check", "--no-simulation", "-I", front.message(message))
    few = front(*options).out
    assert " more\n" in few
    assert "more19" not in few
    assert "more19" in front(*options, "-v").out


def test_variables_are_for_a_shell(front: Front, tmp_path: Path) -> None:
    install(front)
    done = front("check", "--machine-readable", "-I", front.message(cluster()))
    script = f'{done.out}echo "$GNT_STEWARD_CHECK_FINAL_GROUP_0_SCORE $GNT_STEWARD_CHECK_MOVES"\n'
    shell = subprocess.run(["sh", "-euc", script], capture_output=True, check=True, text=True)
    assert shell.stdout == "3.00000000 3\n"
    found = variables(done.out, PREFIX)
    assert found["INIT_CLUSTER_NEED_REBALANCE"] == "1"
    assert found["FINAL_CLUSTER_NEED_REBALANCE"] == "0"
    assert found["INIT_GROUP_0_GN1_FAIL"] == "1"
    assert found["GROUP_0_BOUND"] == "0.50000000"
    off = front("check", "--machine-readable=no", "-I", front.message(cluster()))
    assert off.out.startswith("2 warnings. Balancing")
    assert (found["ERRORS"], found["WARNINGS"]) == ("0", "2")


@pytest.mark.parametrize("faults", [{"explains": False}, {"health": False}])
def test_an_allocator_that_does_not_report_health(front: Front, faults: dict[str, bool]) -> None:
    install(front, **faults)  # type: ignore[arg-type]
    done = front("check", "-I", front.message(cluster()))
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith(
        "gnt-steward check: the allocator that answered the balance request does not report"
    )


def test_unknown_names(front: Front) -> None:
    done = front("check", "-O", "n1", "-G", "g1", "-I", front.message(cluster()))
    assert (done.status, done.out) == (3, "")
    assert "no node is named 'n1'; no node group is named 'g1'" in done.err


def test_hcheck_says_the_same_of_a_healthy_cluster(front: Front, tmp_path: Path) -> None:
    """Both leave an uneven cluster alone that has no faults."""
    message = cluster()
    text = tmp_path / "cluster.text"
    text.write_text(htools_text(read_cluster(message)))
    his = subprocess.run([need("hcheck"), "-t", text], capture_output=True, check=False)
    assert his.returncode == 0
    assert front("check", "--text-data", str(text)).status == 0


def test_one_list(front: Front) -> None:
    file = front.message(cluster())
    lines = front("check", "--separator=|", "--no-headers", "-I", file).out.splitlines()
    assert {line.count("|") for line in lines} == {4}
    assert sum("|score|" in line for line in lines) == len(cluster()["nodegroups"])
    assert front("check", "-o", "group,now", "-I", file).out.split()[:2] == ["Group", "Now"]
    both = front("check", "--machine-readable", "--json", "-I", file)
    assert both.status == 1
    assert "--machine-readable excludes" in both.err
