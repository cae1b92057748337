"""A disk in a second volume group, which the disk figures of Ganeti's nodes leave out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED

from ..maintained_lab import MaintainedLab
from ..node_files import EVACUATE

_FAST = "labfast"


@pytest.fixture
def two_groups(maintained: MaintainedLab, _clean: None) -> Iterator[MaintainedLab]:
    """All nodes have a second group; inst1 has a disk in each."""
    lab = maintained
    for node in lab.nodes:
        lab.storage("add-vg", _FAST, "65536", node=node)
    fast = {"size": 4096, "vg": _FAST, "metavg": _FAST}
    with_fast = {"snode": "node3.lab", "disks": [{"size": 512}, fast]}
    lab.do(lab.create("inst1.lab", "node2.lab", "drbd", **with_fast))
    lab.place(("inst2.lab", "drbd", "node3.lab:node2.lab"), ("inst3.lab", "diskless", "node5.lab"))
    yield lab
    lab.remove("inst1.lab", "inst2.lab")
    for node in lab.nodes:
        lab.storage("remove-vg", _FAST, node=node)


def test_all_programs_move_what_copies_nothing(two_groups: MaintainedLab) -> None:
    """Ganeti counts the disk for inst1, and not in the figures of its nodes."""
    lab = two_groups
    total, free = lab.node("node2.lab", "dtotal", "dfree")
    (size,) = (
        row["disk_usage"]
        for row in lab.luxi.rows("instance", ("name", "disk_usage"))
        if row["name"] == "inst1.lab"
    )
    assert total - free < size
    found = json.loads(lab.steward("maintenance", "plan", "--json", "node2.lab").stdout)
    assert "inst1.lab" in json.dumps(found)
    lab.ok("gnt-node evacuate -f -p -I steward node2.lab")
    assert lab.nodes_of("inst1.lab") == ["node3.lab", "node2.lab"]
    lab.report("node3.lab", EVACUATE)
    with lab.daemon(""):
        incident = lab.ended("node3.lab", COMPLETED)
    assert lab.node("node3.lab", "pinst_cnt", "sinst_cnt") == [0, 0], incident.note
    assert lab.nodes_of("inst1.lab")[0] == "node2.lab"
    assert lab.operations(incident).count("OP_INSTANCE_REPLACE_DISKS") == 2
