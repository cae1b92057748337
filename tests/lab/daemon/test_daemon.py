"""From a node's diagnose command to its end: the daemon, the agents and real Ganeti jobs."""

from __future__ import annotations

from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    FAILED,
    NOTED,
)
from ganeti_steward.plugins.model.world import diagnose_object

from ..cluster import op, until
from .maintained_lab import MaintainedLab
from .node_files import EVACUATE, OK, REPAIR


def test_a_live_repair_that_succeeds(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 0)
    lab.report(node, REPAIR)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED)
    assert lab.repair_input(node) == diagnose_object(incident.original)
    assert lab.repair_input(node)["details"] == [{"source": "command:lab-check", **REPAIR}]
    assert lab.node(node, "tags", "drained", "offline") == [[incident.ready_tag], False, False]
    assert lab.operations(incident) == ["OP_TAGS_SET"]


def test_a_live_repair_that_fails(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 7)
    lab.report(node, REPAIR)
    with lab.daemon():
        incident = lab.ended(node, FAILED)
        assert "7" in incident.note
        assert lab.node(node, "tags") == [[incident.failed_tag]]
        # Acknowledged, and still reported: it starts again from the beginning.
        lab.repair_status(node, 0)
        lab.do(op("TAGS_DEL", kind="node", name=node, tags=[incident.failed_tag]))
        again = lab.ended(node, COMPLETED)
    assert again.uuid != incident.uuid


def test_an_evacuation(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node3.lab"),
        ("inst2.lab", "drbd", "node1.lab:node2.lab"),
        ("inst3.lab", "diskless", "node2.lab"),
        ("inst4.lab", "sharedfile", "node2.lab"),
        ("inst5.lab", "ext", "node2.lab"),
    )
    lab.report(node, EVACUATE)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED)
        # The address of the design: it stays the same when another node becomes the master.
        served = lab.steward("maintd", "status", "-b", "cluster.lab")
        assert incident.uuid in served.stdout, served.stderr
        assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
        assert lab.node(node, "tags") == [[incident.ready_tag]]
        # Acknowledged: known and silent while it is reported, forgotten afterwards.
        lab.do(op("TAGS_DEL", kind="node", name=node, tags=[incident.ready_tag]))
        until(lambda: lab.incidents[incident.uuid].acknowledged)
        lab.report(node, OK)
        until(lambda: not lab.incidents)
    ran = lab.operations(incident)
    assert ran[0] == ran[-2] == "OP_NODE_SET_PARAMS"
    assert ran[-1] == "OP_TAGS_SET"
    assert ran.count("OP_INSTANCE_MIGRATE") >= 4
    assert ran.count("OP_INSTANCE_REPLACE_DISKS") == 2
    for job in lab.jobs_of(incident):
        assert job.status == "success"
        for trail in job.reasons:
            assert ("gnt:daemon:maintd", incident.uuid) in {one[:2] for one in trail}
    assert {job.number for job in lab.jobs_of(incident)} == {*incident.jobs}


def test_what_cannot_move_is_named_after_the_others_were_moved(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "plain", "node2.lab"), ("inst3.lab", "diskless", "node2.lab"))
    lab.report(node, EVACUATE)
    with lab.daemon():
        incident = lab.ended(node, FAILED)
    assert [name for name, _ in incident.unmovable] == ["inst1.lab"]
    assert "plain" in incident.unmovable[0][1]
    assert lab.node(node, "pinst_list", "sinst_cnt") == [["inst1.lab"], 0]
    assert lab.node(node, "drained", "tags") == [True, [incident.failed_tag]]


def test_the_master_waits_and_says_so(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.report("node1.lab", EVACUATE)
    with lab.daemon():
        incident = lab.incident("node1.lab")
        until(lambda: "is the master" in lab.steward("maintd", "status").stdout)
    assert (incident.status, lab.node("node1.lab", "drained")) == (NOTED, [False])


def test_observe_does_nothing_and_says_what_it_would_do(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst3.lab", "diskless", "node2.lab"))
    lab.report(node, EVACUATE)
    with lab.daemon(mode="observe"):
        incident = lab.incident(node)
        until(lambda: "observe" in lab.steward("maintd", "status").stdout)
    assert (incident.status, lab.jobs_of(incident)) == (NOTED, [])
    assert lab.node(node, "drained", "tags") == [False, []]
