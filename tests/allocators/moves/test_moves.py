"""Evacuation and group change: legal step by step, never behind hail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ask import hail, steward
from clusters import MOVING, cluster, generate
from replay import IllegalStepError, Replay, groups_changed
from thorough import often, seeds

Message = dict[str, Any]

TIGHT = ("--nodes=10", "--mix=drbd=1", "--fill=.9", "--per-node=14", "--request=node-evacuate")


def _names(answer: Message) -> set[str]:
    return {name for name, _, _ in answer["result"][0]}


@pytest.mark.parametrize("kind", MOVING)
@pytest.mark.parametrize("seed", seeds(4, 16))
def test_answer_is_legal_and_complete(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    answer = steward(message)
    assert answer["success"], answer["info"]
    moved, failed, jobs = answer["result"]
    done = Replay(message).run(answer)
    wanted = message["request"]["instances"]
    assert sorted([*(name for name, _, _ in moved), *(name for name, _ in failed)]) == sorted(
        wanted
    )
    assert [job[0]["instance_name"] for job in jobs] == [name for name, _, _ in moved]
    for name, reason in failed:
        assert f"; {name}: {reason}" in answer["info"]
    for name, group, nodes in moved:
        assert done.nodes_of(name) == nodes
        old = message["instances"][name]["nodes"]
        homes = {message["nodes"][node]["group"] for node in nodes}
        assert [message["nodegroups"][home]["name"] for home in homes] == [group]
        home = message["nodes"][old[0]]["group"]
        assert (home in homes) == (kind != "change-group")
        if kind == "secondary-only":
            assert nodes[0] == old[0]
            assert nodes[1] not in old
        else:
            assert nodes[0] != old[0]


@pytest.mark.parametrize("kind", MOVING)
@pytest.mark.parametrize("seed", seeds(4, 15, 100))
def test_beside_hail(kind: str, seed: int, tmp_path: Path) -> None:
    message = cluster(seed, kind)
    theirs, ours = hail(message, tmp_path), steward(message)
    try:
        their_run = Replay(message).run(theirs)
    except IllegalStepError:
        # hail fails over to drained nodes.
        assert kind != "change-group"
        return
    our_run = Replay(message).run(ours)
    assert _names(theirs) <= _names(ours)
    if len(_names(theirs)) < len(_names(ours)):
        return
    assert our_run.copies <= their_run.copies
    if our_run.copies == their_run.copies and kind == "change-group":
        assert our_run.cluster_score() <= their_run.cluster_score() + 1e-7
    elif our_run.copies == their_run.copies:
        groups = groups_changed(their_run, our_run)
        assert our_run.score(groups) <= their_run.score(groups) + 1e-7


@pytest.mark.parametrize("seed", seeds(15, 60))
def test_one_instance_goes_to_a_group_that_is_no_worse_than_hails(
    seed: int, tmp_path: Path
) -> None:
    message = generate(
        f"--nodes={(6, 9, 12)[seed % 3]}",
        "--groups=3",
        f"--per-node={(1, 3, 6)[seed % 5 % 3]}",
        "--mix=drbd=3,ext=1",
        "--request=change-group",
        "--count=1",
        f"--seed={seed}",
    )
    theirs, ours = hail(message, tmp_path), steward(message)
    their_run, our_run = Replay(message).run(theirs), Replay(message).run(ours)
    assert _names(theirs) <= _names(ours)
    if _names(theirs):
        assert our_run.cluster_score() <= their_run.cluster_score() + 1e-7


def test_tight_clusters(tmp_path: Path) -> None:
    """An order in which more fit is found where there is one."""
    left_by_hail = left_over = 0
    for seed in range(24 - often(10, 24, 10), 24):
        message = generate(*TIGHT, "--evac-mode=secondary-only", f"--seed={seed}")
        theirs, ours = hail(message, tmp_path), steward(message)
        Replay(message).run(ours)
        assert _names(theirs) <= _names(ours)
        left_by_hail += len(theirs["result"][1])
        left_over += len(ours["result"][1])
    assert left_over < left_by_hail


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_mode_all_leaves_the_node_with_one_copy_each(seed: int) -> None:
    message = generate(
        "--nodes=10", "--mix=drbd=1", "--request=node-evacuate", "--evac-mode=all", f"--seed={seed}"
    )
    instances, request = message["instances"], message["request"]
    (node,) = set.intersection(*(set(instances[n]["nodes"]) for n in request["instances"]))
    answer = steward(message)
    moved, failed, _ = answer["result"]
    assert failed == []
    assert all(node not in nodes for _, _, nodes in moved)
    assert Replay(message).run(answer).copies == len(moved)
    # One instance alone does not show which of its nodes is meant: it leaves both ...
    name = request["instances"][0]
    request["instances"] = [name]
    ((_, _, nodes),), _, _ = steward(message)["result"]
    assert not set(nodes) & set(instances[name]["nodes"])
    # ... unless one of them is unusable.
    message["nodes"][node]["drained"] = True
    ((_, _, nodes),), _, _ = steward(message)["result"]
    assert len(set(nodes) & set(instances[name]["nodes"])) == 1
    assert node not in nodes


def _pair(mode: str) -> Message:
    """Four equal nodes, one drbd instance on the first two."""
    message = generate("--nodes=4", "--mix=drbd=1", "--instances=1", "--hetero=0")
    ((name, instance),) = message["instances"].items()
    first, second, *_ = message["nodes"]
    for old, new in zip(instance["nodes"], (first, second), strict=True):
        message["nodes"][old]["free_disk"] += instance["disk_space_total"]
        message["nodes"][new]["free_disk"] -= instance["disk_space_total"]
    message["nodes"][instance["nodes"][0]]["free_memory"] += instance["memory"]
    message["nodes"][first]["free_memory"] -= instance["memory"]
    instance.update(nodes=[first, second], admin_state="up")
    message["request"] = {"type": "node-evacuate", "instances": [name], "evac_mode": mode}
    return message


def _steps(answer: Message) -> list[str]:
    words = {
        "OP_INSTANCE_MIGRATE": "migrate",
        "OP_INSTANCE_FAILOVER": "fail over",
        "OP_INSTANCE_REPLACE_DISKS": "copy",
    }
    ((*operations,),) = answer["result"][2]
    return [words[operation["OP_ID"]] for operation in operations]


@pytest.mark.parametrize("condition", ["", "drained", "offline"])
@pytest.mark.parametrize(
    ("mode", "steps"),
    [
        ("primary-only", ["migrate"]),
        ("secondary-only", ["copy"]),
        ("all", ["copy", "migrate", "copy"]),
    ],
)
def test_steps_by_the_primary(mode: str, steps: list[str], condition: str) -> None:
    message = _pair(mode)
    first = next(iter(message["nodes"]))
    if condition:
        message["nodes"][first][condition] = True
        # Known to be the node that is left: one copy. Nothing is copied off a dead node.
        steps = {"all": ["migrate", "copy"]}.get(mode, steps)
    answer = steward(message)
    if (mode, condition) == ("secondary-only", "offline"):
        ((_, reason),) = answer["result"][1]
        assert reason == f"its disks cannot be copied: its primary {first} is offline"
        return
    assert _steps(answer)[: len(steps)] == steps
    assert _steps(answer).count("copy") == steps.count("copy")
    Replay(message).run(answer)


def test_announced_instances_are_failed_over() -> None:
    message = _pair("primary-only")
    next(iter(message["instances"].values()))["forthcoming"] = True
    assert _steps(steward(message)) == ["fail over"]


def test_an_announced_instance_leaves_an_offline_primary_first() -> None:
    """Ganeti replaces no secondary while the primary is offline, even where nothing is copied."""
    for mode, steps in (("all", ["fail over", "copy"]), ("secondary-only", None)):
        message = _pair(mode)
        first = next(iter(message["nodes"]))
        next(iter(message["instances"].values()))["forthcoming"] = True
        message["nodes"][first]["offline"] = True
        answer = steward(message)
        if steps:
            assert _steps(answer) == steps
        else:
            ((_, reason),) = answer["result"][1]
            assert reason == f"its disks cannot be copied: its primary {first} is offline"


@pytest.mark.parametrize("fault", ["drained", "offline", "full"])
def test_unfit_secondary_is_replaced_first(fault: str) -> None:
    message = _pair("primary-only")
    first, second, *others = message["nodes"]
    if fault == "full":
        message["nodes"][second]["free_memory"] = 1
    else:
        message["nodes"][second][fault] = True
    answer = steward(message)
    assert _steps(answer) == ["copy", "migrate"]
    ((_, _, nodes),) = answer["result"][0]
    assert nodes[0] in others
    assert nodes[1] == first
    # Nothing can be copied from a dead primary.
    message["nodes"][first]["offline"] = True
    ((name, reason),) = steward(message)["result"][1]
    assert reason.startswith(f"without a copy: its secondary {second} cannot take it over: ")
    assert reason.endswith(f"its disks cannot be copied: its primary {first} is offline")
    assert steward(message)["info"].endswith(f"; {name}: {reason}")


def test_soft_rules_are_dropped_on_request() -> None:
    message = _pair("primary-only")
    message["request"]["evac_mode"] = "secondary-only"
    for group in message["nodegroups"].values():
        group["ipolicy"]["spindle-ratio"] = 0.0
    assert steward(message)["result"][0] == []
    answer = steward(message, "--ignore-soft-errors")
    assert _steps(answer) == ["copy"]
    Replay(message, forced=True).run(answer)
    with pytest.raises(IllegalStepError):
        Replay(message).run(answer)


def test_change_of_group_honours_policies_networks_and_capacity() -> None:
    message = generate(
        "--nodes=9", "--groups=3", "--mix=drbd=1", "--request=change-group", "--count=1"
    )
    (name,) = message["request"]["instances"]
    instance = message["instances"][name]
    home = message["nodes"][instance["nodes"][0]]["group"]
    first, second = (uuid for uuid in message["nodegroups"] if uuid != home)
    groups = message["nodegroups"]

    def gone_to() -> str:
        ((_, group, _),) = steward(message)["result"][0]
        return str(group)

    def reason() -> str:
        ((_, reason),) = steward(message)["result"][1]
        return str(reason)

    for better, other in ((first, second), (second, first)):
        groups[other]["alloc_policy"] = "last_resort"
        groups[better]["alloc_policy"] = "preferred"
        assert gone_to() == groups[better]["name"]
        groups[other]["alloc_policy"] = "unallocable"
        message["request"]["target_groups"] = [other]
        # Ganeti names all other groups when the user names none.
        assert reason() == f"group {groups[other]['name']}: the group is unallocable"
        message["request"]["target_groups"] = []
    instance["nics"] = [{"mode": "bridged", "network": "net-1"}]
    assert "is not connected to network net-1" in reason()
    groups[first].update(alloc_policy="preferred", networks=["net-1"])
    assert gone_to() == groups[first]["name"]
    groups[first]["ipolicy"]["disk-templates"] = ["plain"]
    assert "instance policy (disk template drbd is not among plain)" in reason()
    message["request"]["target_groups"] = [home]
    assert reason() == "there is no other node group it may go to"
