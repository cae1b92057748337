"""A physical volume that is reported as failing is closed, and the disks on it are replaced away.

What follows after it was lost is among the tests of ``test_faulty_storage``.
"""

from __future__ import annotations

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED

from ..cluster import op, until
from .maintained_lab import MaintainedLab
from .node_files import AILING, FAILING


def test_disks_are_replaced_away_from_a_failing_volume(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((name, "drbd", f"{node}:node3.lab") for name in ("inst1.lab", "inst2.lab")))
    # DRBD has dropped the disk of inst1, which runs with the one of the other node.
    lab.storage("detach", "inst1.lab", node=node)
    lab.report(node, AILING)
    with lab.daemon("repair-storage = true"):
        incident = lab.ended(node, COMPLETED)
    assert lab.volumes(node) == {FAILING: False, "/dev/lab1": True}
    assert sorted(*lab.node(node, "tags")) == [incident.closed_tag, incident.tag]
    for name in ("inst1.lab", "inst2.lab"):
        assert lab.nodes_of(name) == [node, "node3.lab"]
    assert lab.operations(incident) == [
        "OP_NODE_MODIFY_STORAGE",
        "OP_TAGS_SET",
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_TAGS_SET",
    ]
    assert incident.note == f"no disk is left on {FAILING} of node {node}"
    lab.set_open(node, FAILING)


def test_a_primary_that_lost_its_disk_is_rebuilt_while_it_runs(maintained: MaintainedLab) -> None:
    """DRBD is connected, so the other side is good; Ganeti cannot migrate it all the same."""
    lab, node = maintained, "node2.lab"
    lab.place(
        ("inst1.lab", "drbd", f"{node}:node3.lab"), ("inst2.lab", "drbd", f"node3.lab:{node}")
    )
    lab.storage("lose-pv", FAILING, node=node)
    lab.report(node, AILING)
    with lab.daemon("repair-storage = true"):
        incident = lab.ended(node, COMPLETED)
    assert lab.nodes_of("inst1.lab") == [node, "node3.lab"]
    assert node not in lab.nodes_of("inst2.lab")
    assert [name for name in lab.operations(incident) if "TAGS" not in name] == [
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_REPAIR_NODE_STORAGE",
        "OP_INSTANCE_REPLACE_DISKS",
    ]
    # Good on both nodes: it can be migrated again.
    lab.do(op("INSTANCE_MIGRATE", instance_name="inst1.lab"))
    lab.storage("return-pv", FAILING, node=node)


@pytest.mark.thorough
def test_a_primary_without_room_for_its_disk_stays_until_it_is_failed_over(
    maintained: MaintainedLab,
) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(
        ("inst1.lab", "drbd", f"{node}:node3.lab"), ("inst2.lab", "drbd", f"node3.lab:{node}")
    )
    lab.set_open(node, "/dev/lab1", is_open=False)
    lab.storage("lose-pv", FAILING, node=node)
    lab.report(node, AILING)
    with lab.daemon("repair-storage = true"):
        sentence = f"inst1.lab: its disks on {node} are lost, so it cannot be migrated"
        until(lambda: sentence in lab.steward("maintd", "status").stdout)
        # The other one has left.
        until(lambda: node not in lab.nodes_of("inst2.lab"))
        assert lab.nodes_of("inst1.lab") == [node, "node3.lab"]
        lab.do(op("INSTANCE_FAILOVER", instance_name="inst1.lab"))
        incident = lab.ended(node, COMPLETED)
    assert node not in lab.nodes_of("inst1.lab")
    assert lab.volumes(node) == {"/dev/lab1": False}
    assert [name for name in lab.operations(incident) if "TAGS" not in name] == [
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_REPAIR_NODE_STORAGE",
    ]
    lab.storage("return-pv", FAILING, node=node)
    lab.set_open(node, "/dev/lab1")
