"""``gnt-steward volume-groups``: the list, and reading everything by a job."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import clusters
import pytest
from daemons import luxid
from live import Ganeti

from ganeti_steward.allocators.state.volume_groups import (
    KeptGroups,
    NodeGroups,
    Suspicion,
    read_kept,
    write_kept,
)
from ganeti_steward.core import builtins
from ganeti_steward.plugins.maintenance.cli import volume_groups

if TYPE_CHECKING:
    from front import Front

RECORDED: Final = Path(__file__).parents[3] / "data" / "volume-groups"
COMMAND: Final = "volume-groups"


class Cluster(Ganeti):
    """The cluster of the recorded configuration; what its nodes report can be changed."""

    def __init__(self) -> None:
        super().__init__(clusters.generate("--nodes=4", "--mix=drbd=1", "--seed=7", "--fill=.3"))
        self.names = [row["name"] for row in self.nodes]
        self.groups_of: dict[str, list[list[Any]]] = {
            name: [["labvg", 900.0, 300.0], ["fast", 800.5, 200.9]] for name in self.names
        }
        self.queried: list[str] = []
        self.status, self.trail = "success", ""

    def storage_rows(self, kind: str, nodes: Any) -> list[list[Any]]:
        assert kind == "lvm-vg"
        self.queried = list(nodes)
        return [[name, *group] for name in nodes for group in self.groups_of[name]]

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs":
            (((operation,),),) = arguments
            assert operation["OP_ID"] == "OP_NODE_QUERY_STORAGE"
            assert operation["output_fields"] == ["node", "name", "size", "free"]
            self.trail = json.dumps(operation["reason"])
        if method == "QueryJobs" and self.status != "success":
            return [[job, self.status, [self.status], ["no lvm"]] for job in arguments[0]]
        return super().luxi(method, arguments)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ganeti's directory."""
    path = tmp_path / "ganeti"
    shutil.copytree(RECORDED, path)
    monkeypatch.setattr(volume_groups, "DATA", str(path))
    return path


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the file."""
    path = str(tmp_path / "maintd" / "volume-groups.json")
    monkeypatch.setattr(builtins, "KEPT_GROUPS", path)
    return path


@pytest.fixture
def update(cluster: Cluster, front: Front, data: Path, kept: str, tmp_path: Path) -> Iterator[Any]:
    with luxid(tmp_path, cluster.luxi) as daemon:
        yield lambda *more: front(COMMAND, "--update", "--luxi-socket", daemon.path, *more)


def test_nothing_is_kept(front: Front, kept: str) -> None:
    done = front(COMMAND)
    assert (done.status, done.out) == (0, "Node Group Total Free Age Used\n")
    assert done.err == "Note: nothing is kept here: --update on the master reads it\n"
    assert json.loads(front(COMMAND, "--json").out) == []


def test_suspect_nodes(front: Front, kept: str) -> None:
    now = int(time.time())
    suspects = {
        "n2.lab": Suspicion(now - 10, "reports suspect: smart:S1"),
        "old.lab": Suspicion(now - 5000, "reports suspect"),
    }
    write_kept(KeptGroups("c", "xenvg", 900, {}, {}, suspects=suspects), kept)
    note = "Note: n2.lab reports suspect: smart:S1, so allocators use it after others\n"
    assert front(COMMAND).err == note


def test_the_list(front: Front, kept: str) -> None:
    now = int(time.time())
    nodes = {
        "n2.lab": NodeGroups(now - 5000, {"xenvg": (900, 300)}),
        "n1.lab": NodeGroups(now - 10, {"xenvg": (953860, 412036), "hdd": (800, 0)}),
    }
    write_kept(KeptGroups("c", "xenvg", 900, nodes, {"web": (("hdd", ""),)}), kept)
    done = front(COMMAND, "--json")
    rows = json.loads(done.out)
    ages = [row.pop("age") for row in rows]
    assert all(one - other in range(60) for one, other in zip(ages, (10, 10, 5000), strict=True))
    keys = ("node", "group", "total", "free", "used", "cluster")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("n1.lab", "hdd", 800, 0, True, False),
        ("n1.lab", "xenvg", 953860, 412036, True, True),
        ("n2.lab", "xenvg", 900, 300, False, True),
    ]
    note = "Note: 1 instance has disks outside of the cluster's volume group xenvg\n"
    assert done.err == note
    done = front(COMMAND, "--no-headers", "--separator", "|", "-o", "node,group,used")
    assert done.out == "n1.lab|hdd|Y\nn1.lab|xenvg|Y\nn2.lab|xenvg|N\n"
    assert "unknown field 'size'" in front(COMMAND, "-o", "size").err


def test_a_file_that_cannot_be_used(front: Front, kept: str) -> None:
    Path(kept).parent.mkdir()
    Path(kept).write_text("{")
    done = front(COMMAND)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"gnt-steward volume-groups: {kept} cannot be used: ")


def test_everything_is_read(cluster: Cluster, front: Front, update: Any, kept: str) -> None:
    """Nothing is printed, so that cron sends no mail."""
    before = int(time.time())
    done = update()
    assert (done.status, done.out, done.err) == (0, "", "")
    found = read_kept(kept)
    assert found
    assert (found.cluster, found.volume_group, found.max_age) == ("cluster.lab", "labvg", 900)
    assert found.disks["inst2.lab"] == (("fast", ""),)
    assert found.nodes.keys() == {*cluster.names}
    for node in found.nodes.values():
        assert before <= node.at <= time.time()
        # Space of less than a MiB is left out.
        assert node.groups == {"labvg": (900, 300), "fast": (800, 200)}
    assert "read the figures of volume groups" in cluster.trail
    listed = json.loads(update("--json").out)
    assert len(listed) == 2 * len(cluster.names)


def test_the_limit_is_configured(front: Front, update: Any, kept: str) -> None:
    front.configure("[maintd]\nvolume-groups-age = 7200")
    assert update().status == 0
    found = read_kept(kept)
    assert found
    assert found.max_age == 7200


def test_nodes_that_report_nothing(cluster: Cluster, update: Any, kept: str) -> None:
    """Offline ones are not queried; what was known of both stays, and becomes older."""
    offline, silent, *others = cluster.names
    cluster.node(offline)["offline"] = True
    cluster.groups_of[silent] = []
    old = NodeGroups(5, {"labvg": (1, 1)})
    nodes = {offline: old, silent: old, others[0]: old, "gone.lab": old}
    write_kept(KeptGroups("cluster.lab", "labvg", 900, nodes, {}), kept)
    done = update()
    assert (done.status, done.err) == (0, f"Note: {silent} has reported no volume group\n")
    assert cluster.queried == [silent, *others]
    found = read_kept(kept)
    assert found
    assert found.nodes.keys() == {*cluster.names}
    assert {name for name, node in found.nodes.items() if node == old} == {offline, silent}


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_file_is_written_again(update: Any, kept: str, content: str) -> None:
    Path(kept).parent.mkdir()
    Path(kept).write_text(content)
    assert update().status == 0
    assert read_kept(kept)


def fails(update: Any, kept: str) -> str:
    done = update()
    assert (done.status, done.out) == (1, "")
    assert not Path(kept).exists()
    return str(done.err)


def test_a_job_that_fails(cluster: Cluster, update: Any, kept: str) -> None:
    cluster.status = "error"
    assert "which queries the nodes' volume groups, ended with error: no lvm" in fails(update, kept)


@pytest.mark.parametrize(
    "row", [["x", -1, 1], ["x", 1], [7, 1, 1], ["x", "a", 1], ["x", 1e300, 1], ["x", "inf", 1]]
)
def test_a_job_that_returns_something_else(
    cluster: Cluster, update: Any, kept: str, row: list[Any]
) -> None:
    cluster.groups_of[cluster.names[0]] = [row]
    assert "did not return what Ganeti 3 returns" in fails(update, kept)


def test_a_configuration_of_something_else(update: Any, kept: str, data: Path) -> None:
    (data / "config.data").write_text("{}")
    assert "config.data is not what Ganeti 3 writes" in fails(update, kept)
    (data / "config.data").unlink()
    assert f"{data} cannot be read: No such file or directory" in fails(update, kept)


def test_another_cluster_is_not_mixed_in(cluster: Cluster, update: Any, kept: str) -> None:
    cluster.info["name"] = "other.lab"
    assert "does not belong to cluster.lab, whose master this is" in fails(update, kept)
