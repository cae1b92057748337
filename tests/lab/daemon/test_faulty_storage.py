"""Nodes that lose power or disks while the daemon works."""

from __future__ import annotations

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED, FAILED

from ..cluster import until
from .faults.findings import data, says
from .faults.watched import Runs
from .maintained_lab import MaintainedLab
from .node_files import AILING, EVACUATE, FAILING, FAILOVER, OK

pytestmark = pytest.mark.thorough


def test_a_node_that_loses_power_while_it_is_evacuated(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """Nothing is started elsewhere before it is certain that the node has stopped."""
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "drbd", "node2.lab:node3.lab"), ("inst2.lab", "diskless", "node2.lab"))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1"):
        until(lambda: "move" in lab.open_steps())
        incident = lab.incident(node)
        lab.stop_agent(node)
        lab.power_off(node)
        try:
            says(lab, "inst2.lab", incident.stopped_tag)
            assert lab.incident(node).active
            assert "inst2.lab" in lab.node(node, "pinst_list")[0]
            assert runs.nodes("inst2.lab") == {node}
            # The rest of the cluster still takes instances.
            lab.place(("inst3.lab", "diskless", "node4.lab"))
        finally:
            lab.power_on(node)
            lab.start_agent(node)


def test_a_node_that_loses_its_volume_group(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node3.lab"), ("inst2.lab", "drbd", "node1.lab:node2.lab")
    )
    lab.storage("lose-vg", node=node)
    lab.report(node, FAILOVER)
    with lab.daemon('final-role = "drained"'):
        incident = lab.ended(node, COMPLETED)
    assert lab.node(node, "pinst_cnt", "sinst_cnt") == [0, 0], incident.note
    assert lab.operations(incident).count("OP_INSTANCE_FAILOVER") == 1
    assert lab.node(node, "drained", "offline") == [True, False]
    for volume in ("/dev/lab0", "/dev/lab1"):
        lab.storage("return-pv", volume, node=node)


def test_a_resync_that_lasts_for_minutes(maintained: MaintainedLab) -> None:
    """The jobs that wait for it are neither given up nor submitted again."""
    lab, node = maintained, "node2.lab"
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node3.lab"), ("inst2.lab", "drbd", "node1.lab:node2.lab")
    )
    lab.storage("sync-time", "130")
    lab.report(node, EVACUATE)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED, 600)
    assert lab.operations(incident).count("OP_INSTANCE_REPLACE_DISKS") == 2
    assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]


def test_a_disk_that_is_lost_during_a_resync(maintained: MaintainedLab) -> None:
    """The new secondary breaks while it is filled: the copy on the primary is the only one.

    The instance gets another secondary, or it is named.
    """
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "drbd", "node3.lab:node2.lab"))
    kept = data(lab, "inst1.lab")["node3.lab"]
    lab.storage("sync-time", "15")
    lab.report(node, EVACUATE)
    with lab.daemon():
        until(lambda: "node1.lab" in lab.nodes_of("inst1.lab"))
        for volume in ("/dev/lab0", "/dev/lab1"):
            lab.storage("lose-pv", volume, node="node1.lab")
        until(lambda: any(one.tagged for one in lab.incidents.values()))
    good = data(lab, "inst1.lab")["node3.lab"]
    for volume in ("/dev/lab0", "/dev/lab1"):
        lab.storage("return-pv", volume, node="node1.lab")
    incident = lab.incident(node)
    if incident.status == COMPLETED:
        assert lab.node(node, "pinst_cnt", "sinst_cnt") == [0, 0]
    else:
        assert (incident.status, "inst1.lab" in incident.note) == (FAILED, True), incident
    assert lab.nodes_of("inst1.lab")[0] == "node3.lab"
    assert good >= kept, "the primary has all that was written"
    lab.place(("inst3.lab", "diskless", "node4.lab"))


def test_from_the_report_to_the_volume_opened_again(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(
        ("inst1.lab", "drbd", f"{node}:node3.lab"), ("inst2.lab", "drbd", f"node3.lab:{node}")
    )
    lab.storage("cut", "inst2.lab", node=node)
    lab.report(node, AILING)
    with lab.daemon("repair-storage = true"):
        # The other copy of inst2 is not in sync: nothing is done to the one on the volume.
        sentence = "inst2.lab: its disks on node3.lab are degraded"
        until(lambda: sentence in lab.steward("maintd", "status").stdout)
        assert lab.volumes(node) == {FAILING: False, "/dev/lab1": True}
        incident = lab.incident(node)
        assert lab.operations(incident)[-1] == "OP_INSTANCE_REPLACE_DISKS"
        assert lab.nodes_of("inst1.lab") == [node, "node3.lab"]

        lab.storage("lose-pv", FAILING, node=node)
        lab.storage("reconnect", "inst2.lab", node=node)
        incident = lab.ended(node, COMPLETED)
        assert node not in lab.nodes_of("inst2.lab")
        assert lab.volumes(node) == {"/dev/lab1": True}

        # The disk is replaced, and its volume added to the group; then the operator's word.
        lab.storage("return-pv", FAILING, node=node)
        lab.set_open(node, FAILING, is_open=False)
        lab.report(node, OK)
        assert sorted(*lab.node(node, "tags")) == [incident.closed_tag, incident.tag]
        acknowledged = lab.steward("incident", "ack", incident.uuid)
        assert acknowledged.returncode == 0, acknowledged.stderr
        until(lambda: not lab.incidents)
    assert lab.node(node, "tags") == [[]]
    assert lab.volumes(node) == {FAILING: True, "/dev/lab1": True}
    assert [name for name in lab.operations(incident) if "TAGS" not in name] == [
        "OP_NODE_MODIFY_STORAGE",
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_REPAIR_NODE_STORAGE",
        "OP_NODE_MODIFY_STORAGE",
    ]
