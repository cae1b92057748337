"""Nodes with a second volume group: what allocators get to know of it, and from where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from ganeti_steward.allocators.state.volume_groups import KeptGroups, read_kept
from ganeti_steward.core.model.cluster import VolumeGroup
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.plugins.model.incident import COMPLETED

from ..cluster import until
from .maintained_lab import MaintainedLab
from .node_files import AGENT_SECTIONS, EVACUATE

#: Nodes with an agent and the second group.
NODES: Final = ("node2.lab", "node3.lab")
SIZE: Final = 65536
PROBE: Final = (
    *("gnt-debug", "iallocator", "--dir=out", "-I", "steward", "-m", "allocate", "--os-type=noop"),
    *("--vcpus=1", "--mem=512", "-t", "plain", "--disks=1024", "probe.lab"),
)
#: A drbd disk takes as much in addition.
METADATA: Final = 128


@pytest.fixture
def two_groups(maintained: MaintainedLab) -> Iterator[MaintainedLab]:
    """One instance has a disk in the second group; the agents report all groups."""
    lab = maintained
    usual = {node: (lab.etc(node) / "steward.toml").read_text() for node in NODES}
    try:
        for node in NODES:
            lab.storage("add-vg", "fast", str(SIZE), node=node)
            state = lab.directory / "steward-state" / node
            text = AGENT_SECTIONS.format(directory=state)
            text = text.replace("collectors = []", 'collectors = ["lvm"]')
            (lab.etc(node) / "steward.toml").write_text(text)
        disks = [{"size": 512}, {"size": 1024, "vg": "fast", "metavg": "fast"}]
        both = {"snode": NODES[1], "disks": disks}
        lab.do(
            lab.create("inst1.lab", NODES[0], "drbd", **both),
            lab.create("inst2.lab", NODES[0], "drbd", snode=NODES[1]),
        )
        yield lab
    finally:
        lab.remove(*lab.instances())
        for node in NODES:
            lab.storage("remove-vg", "fast", node=node)
            (lab.etc(node) / "steward.toml").write_text(usual[node])
        file(lab).unlink(missing_ok=True)


def file(lab: MaintainedLab) -> Any:
    """What the master keeps."""
    return lab.directory / "nodes" / lab.master / "var-lib-steward/maintd/volume-groups.json"


def kept(lab: MaintainedLab) -> KeptGroups | None:
    return read_kept(str(file(lab)))


def message(lab: MaintainedLab) -> dict[str, Any]:
    """The message of an allocation, as the master's history has it."""
    lab.on(lab.master, *PROBE)
    history = lab.directory / "nodes" / lab.master / "var-lib-steward/history"
    found: dict[str, Any] = json.loads((max(history.iterdir()) / "request.json").read_text())
    return found


def check_message(sent: dict[str, Any], known: tuple[str, ...]) -> None:
    """The disks name their groups, and the nodes with known figures their room."""
    cluster = read_cluster(sent)
    assert cluster.volume_group == "labvg"
    first, second = cluster.instances
    places = [(disk.volume_group, disk.metadata_group) for disk in first.disks]
    assert places == [("", ""), ("fast", "fast")]
    assert (first.elsewhere, second.elsewhere) == ({"fast": 1024 + METADATA}, {})
    fast = {"fast": VolumeGroup(SIZE, SIZE - 1024 - METADATA)}
    assert {node.name: node.volume_groups for node in cluster.nodes} == {
        node.name: (fast if node.name in NODES else {}) if node.name in known else None
        for node in cluster.nodes
    }
    assert 0 <= sent["volume_groups_age"] < 900


def test_from_reports_of_agents(two_groups: MaintainedLab) -> None:
    lab = two_groups
    assert "volume_group" not in message(lab)
    for node in NODES:
        lab.on(node, str(lab.programs / "gnt-steward"), "diagnose")
    with lab.daemon():
        until(lambda: (found := kept(lab)) is not None and {*NODES} <= found.nodes.keys())
    check_message(message(lab), NODES)


def test_by_a_job(two_groups: MaintainedLab) -> None:
    """Without agents; the commands read the same as the allocator."""
    lab = two_groups
    done = lab.steward("volume-groups", "--update")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    check_message(message(lab), lab.nodes)
    rows = json.loads(lab.steward("volume-groups", "--json").stdout)
    assert {(row["node"], row["total"]) for row in rows if row["group"] == "fast"} == {
        (node, SIZE) for node in NODES
    }
    assert {row["node"] for row in rows if row["cluster"]} == {*lab.nodes}
    listed = lab.steward("volume-groups")
    assert "1 instance has disks outside of the cluster's volume group labvg" in listed.stderr


@pytest.fixture
def third(two_groups: MaintainedLab) -> Iterator[str]:
    """The third node of their node group, which has the second group, too."""
    lab, name = two_groups, "node1.lab"
    lab.storage("add-vg", "fast", str(SIZE), node=name)
    try:
        yield name
    finally:
        lab.remove(*lab.instances())
        lab.storage("remove-vg", "fast", node=name)


def test_each_copy_goes_where_its_group_has_room(two_groups: MaintainedLab, third: str) -> None:
    """By Ganeti's evacuation and replace-disks, by balance, and by the daemon."""
    lab, (first, second) = two_groups, NODES
    assert lab.steward("volume-groups", "--update").returncode == 0
    lab.ok(f"gnt-node evacuate -f -s -I steward {second}")
    assert lab.nodes_of("inst1.lab") == [first, third]
    lab.ok("gnt-instance replace-disks -I steward inst1.lab")
    assert lab.nodes_of("inst1.lab") == [first, second]
    lab.ok(f"gnt-node modify --drained=yes {second}")
    done = lab.steward("balance", "-L", "-E", "-X", "--yes")
    assert done.returncode == 0, done.stderr
    primary, other = lab.nodes_of("inst1.lab")
    assert {primary, other} == {first, third}
    lab.ok(f"gnt-node modify --drained=no {second}")
    lab.ok("gnt-instance replace-disks -I steward inst1.lab")
    lab.report(second, EVACUATE)
    with lab.daemon(""):
        lab.ended(second, COMPLETED)
    assert lab.nodes_of("inst1.lab") == [primary, other]


def test_no_copy_goes_where_its_group_is_full(two_groups: MaintainedLab) -> None:
    """The third node has the group, and too little room in it."""
    lab = two_groups
    lab.storage("add-vg", "fast", str(METADATA), node="node1.lab")
    try:
        assert lab.steward("volume-groups", "--update").returncode == 0
        refused = lab.run(f"gnt-node evacuate -f -s -I steward {NODES[1]}")
        assert "Unable to evacuate instances inst1.lab (0/1 nodes fit: 1 volume group" in str(
            refused
        )
        assert lab.nodes_of("inst1.lab") == [*NODES]
    finally:
        lab.storage("remove-vg", "fast", node="node1.lab")
