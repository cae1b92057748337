"""The live cluster as the daemon sees it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import clusters
import pytest
from call_counts import counted
from daemons import luxid
from live import Ganeti
from standin import StandIn
from standin_server import serving
from thorough import often

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.snapshot import read_live
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import read_world
from ganeti_steward.plugins.model.world import World

NOW = 5 * 10**18


def small(*options: str) -> dict[str, Any]:
    return clusters.generate("--nodes=6", "--groups=2", "--mix=drbd=3,diskless=1", *options)


def read(ganeti: Ganeti, path: Path, **more: Any) -> World:
    with luxid(path, ganeti.luxi) as daemon:
        found = read_world(Luxi(daemon.path), NOW, sleep=lambda seconds: None, **more)
    check_types(found)
    return found


def check_types(world: World) -> None:
    """What a plugin's process gets is the same."""
    sent = from_json(World, json.loads(json.dumps(to_json(World, world))))
    for name in ("groups", "nodes", "instances", "tags", "hypervisors"):
        assert getattr(sent.cluster, name) == getattr(world.cluster, name)
    for one, other in zip(sent.cluster.nodes, world.cluster.nodes, strict=True):
        assert one.sent.data == other.sent.data
    assert sent._replace(cluster=world.cluster) == world


def test_what_is_read(tmp_path: Path) -> None:
    ganeti = Ganeti(small())
    first, second = ganeti.nodes[:2]
    second.update(tags=["maintd:off"], drained=True, master_candidate=False)
    ganeti.info["tags"] = ["maintd:pause:x"]
    ganeti.groups[0]["tags"] = ["g"]
    drbd = next(row for row in ganeti.instances if row["snodes"])
    drbd.update(tags=["i"], admin_state="down")
    world = read(ganeti, tmp_path)
    assert world.now == NOW
    assert world.cluster_tags == {"maintd:pause:x"}
    assert world.candidate_pool_size == 3
    assert set(world.nodes) == {row["uuid"] for row in ganeti.nodes}
    node = world.nodes[first["uuid"]]
    assert (node.name, node.group, node.primary_ip) == (
        first["name"],
        first["group.uuid"],
        first["pip"],
    )
    assert node.master
    assert node.master_candidate
    node = world.nodes[second["uuid"]]
    assert (node.tags, node.drained, node.master, node.master_candidate) == (
        ("maintd:off",),
        True,
        False,
        False,
    )
    assert set(world.instances) == {row["name"] for row in ganeti.instances}
    instance = world.instances[drbd["name"]]
    assert instance.nodes == (drbd["pnode"], *drbd["snodes"])
    assert (instance.template, instance.up, instance.tags) == ("drbd", False, ("i",))
    assert world.groups[ganeti.groups[0]["uuid"]].tags == ("g",)
    assert (world.incidents, world.observations) == ({}, {})


@pytest.mark.parametrize("seed", range(8))
def test_the_facts_are_those_of_the_rows(seed: int, tmp_path: Path) -> None:
    """They come from the cluster that was read; here luxid's rows are read by themselves."""
    ganeti, rng = Ganeti(small(f"--seed={seed}")), Random(seed)
    for row in (*ganeti.nodes, *ganeti.instances, *ganeti.groups):
        row["tags"] = rng.sample(["maintd:off", "a", "b"], rng.randint(0, 3))
    for row in ganeti.nodes:
        row.update({key: rng.random() < 0.3 for key in ("offline", "drained", "vm_capable")})
    for row in ganeti.instances:
        row["admin_state"] = rng.choice(["up", "down", "offline"])
        row["status"] = rng.choice(["running", "ERROR_down", None])
    for rows in (ganeti.nodes, ganeti.instances, ganeti.groups):
        rng.shuffle(rows)
    world = read(ganeti, tmp_path)
    roles = ("master", "master_candidate", "master_capable", "offline", "drained", "vm_capable")
    for row in ganeti.nodes:
        node = world.nodes[row["uuid"]]
        assert (node.name, node.group, node.primary_ip) == (
            row["name"],
            row["group.uuid"],
            row["pip"],
        )
        assert node.tags == tuple(row["tags"])
        assert [getattr(node, role) for role in roles] == [row[role] for role in roles]
    for row in ganeti.instances:
        one = world.instances[row["name"]]
        assert (one.primary, one.secondaries) == (row["pnode"], tuple(row["snodes"]))
        assert (one.template, one.status) == (row["disk_template"], row["status"] or "")
        assert (one.up, one.tags) == (row["admin_state"] == "up", tuple(row["tags"]))
    for row in ganeti.groups:
        group = world.groups[row["uuid"]]
        assert (group.name, group.tags) == (row["name"], tuple(row["tags"]))
    assert len(world.nodes) == len(ganeti.nodes)
    assert len(world.instances) == len(ganeti.instances)


def test_the_cluster_is_the_one_an_allocator_sees(tmp_path: Path) -> None:
    ganeti = Ganeti(small())
    with luxid(tmp_path, ganeti.luxi) as daemon:
        expected = read_live(Luxi(daemon.path)).cluster
        calls = len(daemon.requests)
        found = read_world(Luxi(daemon.path), NOW).cluster
        assert len(daemon.requests) == 2 * calls == 10
    assert found.nodes == expected.nodes
    assert found.instances == expected.instances
    assert found.groups == expected.groups


def test_a_node_that_does_not_answer_is_silent(tmp_path: Path) -> None:
    """The rest of the cluster is read as usual."""
    ganeti = Ganeti(small())
    dead = ganeti.nodes[2]
    dead.update(dict.fromkeys(("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos")))
    for row in ganeti.instances:
        if row["pnode"] == dead["name"]:
            row["oper_ram"] = None
    world = read(ganeti, tmp_path)
    assert len(world.nodes) == 6
    usable = {node.name: node.condition for node in world.cluster.nodes}
    assert usable.pop(dead["name"]) == "silent"
    assert set(usable.values()) == {""}
    assert {i.name for i in world.instances_on(dead["name"])}
    assert not world.nodes[dead["uuid"]].offline


def test_a_forthcoming_instance_has_its_uuid_as_name(tmp_path: Path) -> None:
    ganeti = Ganeti(small())
    ganeti.instances[0].update(forthcoming=True, name=None)
    uuid = ganeti.instances[0]["uuid"]
    assert read(ganeti, tmp_path).instances[uuid].name == uuid


def free_disks(world: World) -> set[float]:
    return {node.free_disk for node in world.cluster.nodes}


def test_space_that_ganeti_reports_by_a_job_only(tmp_path: Path) -> None:
    ganeti = Ganeti(small(), ("sharedfile", "drbd"))
    assert free_disks(read(ganeti, tmp_path, storage=False)) == {0}
    assert ganeti.storage == {}
    assert free_disks(read(ganeti, tmp_path)) == {5000, 5001, 5002, 5003, 5004, 5005}
    assert len(ganeti.storage) == 1


@pytest.mark.parametrize("status", ["error", "canceled", "waiting"])
def test_a_storage_job_that_fails_or_waits(status: str, tmp_path: Path) -> None:
    """Another job may hold its locks for hours; the nodes then have no disk figures."""
    ganeti = Ganeti(small(), ("sharedfile", "drbd"))

    def answer(method: str, arguments: list[Any]) -> Any:
        if method == "QueryJobs":
            return [[job, status, [status], [None]] for job in arguments[0]]
        return ganeti.luxi(method, arguments)

    slept: list[float] = []
    with luxid(tmp_path, answer) as daemon:
        world = read_world(Luxi(daemon.path), NOW, sleep=slept.append)
    assert {node.condition for node in world.cluster.nodes} == {""}
    assert all(node.lacks_disk_figures for node in world.cluster.nodes)
    assert len(world.nodes) == 6
    assert sum(slept) == pytest.approx(20 if status == "waiting" else 0, abs=0.5)


def test_tags_that_are_not_reported_are_not_taken_for_none(tmp_path: Path) -> None:
    """One of them could exclude the node from everything."""
    ganeti = Ganeti(small())
    ganeti.nodes[1]["tags"] = None
    with pytest.raises(StewardError, match=r"this is not what Ganeti 3 returns \(TypeError"):
        read(ganeti, tmp_path)


def test_answers_that_are_no_ganeti(tmp_path: Path) -> None:
    ganeti = Ganeti(small())
    del ganeti.info["candidate_pool_size"]
    text = r"this is not what Ganeti 3 returns \(no candidate_pool_size\)"
    with pytest.raises(StewardError, match=text):
        read(ganeti, tmp_path)


def test_a_large_cluster(tmp_path: Path) -> None:
    """1000 nodes and 10 000 instances through the socket, usually fewer; read once."""
    number = often(400, 1000, 100)
    sent = clusters.generate(f"--nodes={number}", "--groups=4", "--per-node=20", "--mix=drbd=1")
    assert len(sent["instances"]) >= 9 * number
    with serving(tmp_path, StandIn(sent)) as luxi:
        world, calls = counted(lambda: read_world(luxi, NOW))
    assert len(world.nodes) == number
    assert len(world.instances) == len(sent["instances"])
    assert calls < 6000 * number
    check_types(world)
