"""A running cluster reads as the message Ganeti would send of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import clusters
import pytest
from daemons import luxid, rapi
from live import Ganeti

from ganeti_steward.allocators.state.volume_groups import (
    KeptGroups,
    NodeGroups,
    completed,
    write_kept,
)
from ganeti_steward.core import builtins
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.rapi import Rapi
from ganeti_steward.core.ganeti.rapi_access import Credentials
from ganeti_steward.core.ganeti.snapshot import Snapshot, read_live
from ganeti_steward.core.model.cluster import Cluster, Node
from ganeti_steward.core.model.cluster_reader import disk_space, read_cluster
from ganeti_steward.core.model.instance_details import Nic
from ganeti_steward.core.model.job_state import JobState

LAB = Credentials("lab", "secret")


def message(seed: int) -> dict[str, Any]:
    return clusters.cluster(seed, "allocate-one", "--networks=2")


def parts(cluster: Cluster) -> list[tuple[Any, ...]]:
    return [
        cluster.groups,
        cluster.nodes,
        cluster.instances,
        cluster.tags,
        cluster.hypervisors,
    ]


def through_luxi(ganeti: Ganeti, path: Path, template: str | None = None) -> Snapshot:
    with luxid(path, ganeti.luxi) as daemon:
        return read_live(Luxi(daemon.path), template)


def through_rapi(ganeti: Ganeti, template: str | None = None) -> Snapshot:
    with rapi(ganeti.rapi) as daemon:
        return read_live(Rapi(daemon.host, LAB, verify=False), template)


@pytest.mark.parametrize("seed", range(30))
def test_same_cluster_as_the_message(seed: int, tmp_path: Path) -> None:
    sent = message(seed)
    for disks, instance in ((i["disks"], i) for i in sent["instances"].values()):
        # As Ganeti has it: the message's own sum is what is to be found again.
        sizes = [disk["size"] for disk in disks]
        instance["disk_space_total"] = disk_space(instance["disk_template"], sizes)
    expected = parts(read_cluster(sent))
    assert parts(through_luxi(Ganeti(sent), tmp_path).cluster) == expected
    assert parts(through_rapi(Ganeti(sent)).cluster) == expected


def test_volume_groups_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither luxid nor RAPI has figures of them; the message of an allocator is the same."""
    path = str(tmp_path / "volume-groups.json")
    monkeypatch.setattr(builtins, "KEPT_GROUPS", path)
    sent = message(1)
    names, at = [*sent["instances"]], int(time.time())
    groups = {name: NodeGroups(at, {"hdd": (900, 300)}) for name in sent["nodes"]}
    disks = dict.fromkeys(names, (("hdd", "ssd"),))
    ganeti = Ganeti(sent)
    kept = KeptGroups(ganeti.info["name"], "xenvg", 900, groups, disks)
    write_kept(kept, path)
    expected = parts(read_cluster(completed(sent | {"cluster_name": kept.cluster}, at, path)))
    found = through_luxi(ganeti, tmp_path).cluster
    assert any(one.elsewhere for one in found.instances)
    assert [one.elsewhere for one in found.instances] == [one.elsewhere for one in expected[2]]
    assert [one.volume_groups for one in found.nodes] == [one.volume_groups for one in expected[1]]
    assert found.volume_group == through_rapi(ganeti).cluster.volume_group == "xenvg"


@pytest.mark.parametrize(
    ("template", "sizes", "space"),
    [
        ("drbd", [1024, 512], 1792),
        ("plain", [1024, 512], 1536),
        ("sharedfile", [1024], 1024),
        ("diskless", [], 0),
        ("blockdev", [1024], 0),
    ],
)
def test_disk_space(template: str, sizes: list[int], space: int) -> None:
    assert disk_space(template, sizes) == space


def test_what_messages_do_not_carry(tmp_path: Path) -> None:
    ganeti = Ganeti(message(1))
    ganeti.nodes[0]["ndparams"]["cpu_speed"] = 1.5
    ganeti.instances[0]["beparams"]["auto_balance"] = False
    snapshot = through_luxi(ganeti, tmp_path)
    cluster, networks = snapshot.cluster, snapshot.networks
    assert snapshot.templates == ("drbd", "plain")
    speeds = {node.name: node.cpu_speed for node in cluster.nodes}
    assert speeds.pop(ganeti.nodes[0]["name"]) == 1.5
    assert set(speeds.values()) == {1.0}
    fixed = [i.name for i in cluster.instances if not i.auto_balance]
    assert fixed == [ganeti.instances[0]["name"]]
    assert snapshot.backend["maxmem"] == 640
    assert networks == {row["name"]: row["uuid"] for row in ganeti.networks}
    assert networks
    assert silent_nodes(cluster) == []


def test_what_engines_do_not_use(tmp_path: Path) -> None:
    """os, hypervisor, NICs, addresses, roles and sums of memory, as in Ganeti's message."""
    sent = message(3)
    name, instance = next(iter(sent["instances"].items()))
    nic = {"mac": "aa:00:00:11:22:33", "ip": "192.0.2.7", "mode": "routed", "link": "100"}
    instance.update(os="debian", hypervisor="xen-pvm", nics=[nic | {"network": None}])
    ganeti = Ganeti(sent)
    others = [i for i in ganeti.instances if i["pnode"] == instance["nodes"][0]]
    others[-1]["admin_state"] = "down"
    up = [i["beparams"]["maxmem"] for i in others if i["admin_state"] == "up"]
    for snapshot in (through_luxi(ganeti, tmp_path), through_rapi(ganeti)):
        found = snapshot.cluster.instance(name)
        assert (found.os, found.hypervisor, found.uuid) == ("debian", "xen-pvm", f"uuid-of-{name}")
        assert found.nics == (Nic(nic["mac"], nic["ip"], "routed", "100", "", ""),)
        node, row = node_of(snapshot, found.nodes[0]), ganeti.node(found.nodes[0])
        assert (node.primary_ip, node.secondary_ip) == (row["pip"], row["sip"])
        assert (node.uuid, node.master_capable) == (row["uuid"], True)
        assert node.master_candidate is row["master_candidate"]
        assert node.primaries_memory == sum(i["beparams"]["maxmem"] for i in others)
        assert node.primaries_up_memory == sum(up) < node.primaries_memory


def healthy() -> dict[str, Any]:
    return clusters.generate("--nodes=5", "--groups=1", "--mix=drbd=1", "--seed=2")


def silent_nodes(cluster: Cluster) -> list[str]:
    return [node.name for node in cluster.nodes if node.silent]


def without_disk(cluster: Cluster) -> list[str]:
    return [node.name for node in cluster.nodes if node.lacks_disk_figures]


def node_of(snapshot: Snapshot, name: str) -> Node:
    return snapshot.cluster.nodes[snapshot.cluster.node_index[name]]


@pytest.mark.parametrize("field", ["mtotal", "mnode", "mfree", "ctotal", "cnos"])
def test_a_node_without_figures_is_unusable(field: str, tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    name = ganeti.nodes[2]["name"]
    ganeti.nodes[2][field] = None
    snapshot = through_luxi(ganeti, tmp_path)
    assert silent_nodes(snapshot.cluster) == [name]
    assert without_disk(snapshot.cluster) == []
    node = node_of(snapshot, name)
    assert (node.silent, node.offline, node.usable, node.condition) == (
        True,
        False,
        False,
        "silent",
    )
    assert node.free_memory == 0
    assert sum(other.usable for other in snapshot.cluster.nodes) == 4


@pytest.mark.parametrize("field", ["dtotal", "dfree"])
def test_a_node_without_disk_figures(field: str, tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    name = ganeti.nodes[2]["name"]
    ganeti.nodes[2][field] = None
    cluster = through_luxi(ganeti, tmp_path).cluster
    assert (silent_nodes(cluster), without_disk(cluster)) == ([], [name])
    assert all(node.usable for node in cluster.nodes)


def test_a_node_without_a_cpu_speed(tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    ganeti.nodes[2]["ndparams"] |= {"cpu_speed": None, "spindle_count": None}
    node = node_of(through_luxi(ganeti, tmp_path), ganeti.nodes[2]["name"])
    assert (node.cpu_speed, node.spindles, node.missing) == (1.0, 1, ())


def test_spindles_matter_with_exclusive_storage_only(tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    for node in ganeti.nodes:
        node["spfree"] = None
    assert without_disk(through_rapi(ganeti).cluster) == []
    ganeti.nodes[0]["ndparams"]["exclusive_storage"] = True
    found = through_luxi(ganeti, tmp_path).cluster
    assert (silent_nodes(found), without_disk(found)) == ([], [ganeti.nodes[0]["name"]])


@pytest.mark.parametrize("state", [{"offline": True}, {"vm_capable": False}])
def test_nodes_that_need_not_report_are_not_silent(state: dict[str, bool], tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    ganeti.nodes[2].update(state, mtotal=None, mfree=None, dtotal=None)
    snapshot = through_luxi(ganeti, tmp_path)
    assert silent_nodes(snapshot.cluster) == without_disk(snapshot.cluster) == []
    assert not node_of(snapshot, ganeti.nodes[2]["name"]).usable


def test_forthcoming_instances(tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    ganeti.instances[0].update(forthcoming=True, name=None)
    snapshot = through_luxi(ganeti, tmp_path)
    uuid = ganeti.instances[0]["uuid"]
    (found,) = [i.name for i in snapshot.cluster.instances if i.forthcoming]
    assert found == uuid
    # Nothing is kept free for it to grow.
    ganeti = Ganeti(healthy())
    name, node = ganeti.instances[0]["name"], ganeti.instances[0]["pnode"]
    ganeti.instance(name)["oper_ram"] = None
    before = node_of(through_luxi(ganeti, tmp_path), node).free_memory
    ganeti.instance(name)["forthcoming"] = True
    after = node_of(through_rapi(ganeti), node).free_memory
    assert after - before == ganeti.instance(name)["beparams"]["maxmem"]


DISKS = {"total_disk": 7000.0, "free_disk": 5000}


def disks(snapshot: Snapshot, at: int = 0) -> dict[str, float]:
    node = snapshot.cluster.nodes[at]
    return {"total_disk": node.total_disk, "free_disk": node.free_disk}


@pytest.mark.parametrize(
    ("templates", "wanted", "jobs"),
    [
        (("drbd", "file"), "plain", 0),
        (("plain", "file"), "drbd", 0),
        (("plain", "file"), None, 0),
        (("drbd", "file"), "file", 1),
        (("file", "drbd"), "drbd", 1),
        (("diskless", "drbd"), "plain", 1),
        (("file", "drbd"), None, 1),
        (("file", "drbd"), "file", 0),
    ],
)
def test_disk_figures_are_of_the_wanted_storage(
    templates: tuple[str, ...], wanted: str | None, jobs: int, tmp_path: Path
) -> None:
    """Nodes report the figures of the first enabled template; a job queries the others."""
    ganeti = Ganeti(healthy(), templates)
    plain = {"total_disk": ganeti.nodes[0]["dtotal"], "free_disk": ganeti.nodes[0]["dfree"]}
    assert disks(through_luxi(ganeti, tmp_path, wanted)) == (DISKS if jobs else plain)
    assert len(ganeti.storage) == jobs
    ganeti.storage.clear()
    assert disks(through_rapi(ganeti, wanted)) == (DISKS if jobs else plain)
    # RAPI queries each node separately.
    assert len(ganeti.storage) == jobs * 5


@pytest.mark.parametrize("wanted", ["drbd", "plain", "file"])
def test_no_job_for_storage_that_is_not_enabled(wanted: str, tmp_path: Path) -> None:
    """Ganeti would fail it."""
    ganeti = Ganeti(healthy(), ("diskless", "ext"))
    for snapshot in (through_luxi(ganeti, tmp_path, wanted), through_rapi(ganeti, wanted)):
        assert len(without_disk(snapshot.cluster)) == 5
    assert ganeti.storage == {}


@pytest.mark.parametrize("template", ["diskless", "sharedfile", "ext", "rbd", "gluster"])
def test_templates_without_space_on_nodes(template: str, tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    for node in ganeti.nodes:
        node["dtotal"] = node["dfree"] = None
    snapshot = through_luxi(ganeti, tmp_path, template)
    assert disks(snapshot) == {"total_disk": 0, "free_disk": 0}
    assert silent_nodes(snapshot.cluster) == without_disk(snapshot.cluster) == []


def test_a_node_that_does_not_report_its_storage(tmp_path: Path) -> None:
    """It is not queried when it reported nothing, and takes no disks when it lacks the unit."""
    ganeti = Ganeti(healthy(), ("file", "drbd"))
    ganeti.nodes[1]["mtotal"] = None
    ganeti.nodes[3]["offline"] = True
    with luxid(tmp_path, ganeti.luxi) as daemon:
        snapshot = read_live(Luxi(daemon.path), "drbd")
        (job,) = [one["args"][0] for one in daemon.requests if one["method"] == "SubmitManyJobs"]
    queried = job[0][0]["nodes"]
    assert queried == [ganeti.nodes[at]["name"] for at in (0, 2, 4)]
    assert silent_nodes(snapshot.cluster) == [ganeti.nodes[1]["name"]]
    assert without_disk(snapshot.cluster) == [ganeti.nodes[1]["name"]]
    ganeti.info["volume_group_name"] = "another"
    assert len(without_disk(through_luxi(ganeti, tmp_path, "drbd").cluster)) == 4


class StorageJob:
    """A client whose storage job ends as given."""

    def __init__(self, ganeti: Ganeti, status: str) -> None:
        self._ganeti, self._status = ganeti, status
        self.where = "the lab"
        self.info = lambda: ganeti.info
        self.rows = lambda what, fields: ganeti.rows(what)
        self.storage_jobs = lambda kind, fields, nodes: [9]

    def states(self, numbers: list[int]) -> list[JobState]:
        return [JobState(9, self._status, "no lock")]


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        ("error", "the lab: job 9, which queries the nodes' storage, ended with error: no lock"),
        ("canceled", "ended with canceled"),
        ("queued", "the lab: the nodes' storage was not reported within 120 s"),
    ],
)
def test_a_storage_job_without_result(status: str, fault: str) -> None:
    ganeti = Ganeti(healthy(), ("file", "drbd"))
    slept: list[float] = []
    with pytest.raises(StewardError, match=fault):
        read_live(StorageJob(ganeti, status), "drbd", sleep=slept.append)
    assert sum(slept) == pytest.approx(120 if status == "queued" else 0)


def test_faulty_answers(tmp_path: Path) -> None:
    ganeti = Ganeti(healthy())
    ganeti.instances[0]["disk_template"] = "mixed"
    name = ganeti.instances[0]["name"]
    with pytest.raises(StewardError, match=rf"instance '{name}': key 'disk_template': unknown val"):
        through_luxi(ganeti, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda ganeti: ganeti.info.pop("tags"),
        lambda ganeti: ganeti.nodes[0].update(ndparams=None),
        lambda ganeti: ganeti.instances[0].update(beparams={}),
        lambda ganeti: ganeti.instances[0].update({"disk.sizes": []}),
        lambda ganeti: ganeti.info.update(enabled_disk_templates=[]),
        lambda ganeti: setattr(ganeti, "nodes", [5]),
    ],
)
def test_something_else_than_ganeti(change: Any) -> None:
    ganeti = Ganeti(healthy())
    change(ganeti)
    client = StorageJob(ganeti, "success")
    with pytest.raises(StewardError, match="the lab: this is not what Ganeti 3 returns"):
        read_live(client)
