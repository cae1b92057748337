"""From a node's diagnose command to its end: the daemon, the agents and real Ganeti jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from ganeti_steward.core.ganeti.job_search import FoundJob, jobs_with_reason
from ganeti_steward.core.maintenance.incident import (
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    Incident,
)
from ganeti_steward.core.maintenance.world import diagnose_object

from ..cluster import op, until
from .maintained_lab import OK, MaintainedLab

REPAIR: Final[Mapping[str, Any]] = {"status": "live-repair", "command": "lab-repair", "details": 1}
EVACUATE: Final[Mapping[str, Any]] = {"status": "evacuate", "details": {"fan": "stopped"}}
FAILOVER: Final[Mapping[str, Any]] = {"status": "evacuate-failover", "details": {"psu": "lost"}}


@pytest.fixture(autouse=True)
def _clean(maintained: MaintainedLab) -> Iterator[None]:
    yield
    maintained.reset()


def jobs_of(lab: MaintainedLab, incident: Incident) -> list[FoundJob]:
    """The incident's jobs, as the queue has them."""
    return jobs_with_reason(lab.luxi, "gnt:daemon:maintd", incident.uuid)


def operations(lab: MaintainedLab, incident: Incident) -> list[str]:
    return [name for job in jobs_of(lab, incident) for name in job.operations]


def test_a_live_repair_that_succeeds(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 0)
    lab.report(node, REPAIR)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED)
    assert lab.repair_input(node) == diagnose_object(incident.original)
    assert lab.repair_input(node)["details"] == [{"source": "command:lab-check", **REPAIR}]
    assert lab.node(node, "tags", "drained", "offline") == [[incident.ready_tag], False, False]
    assert operations(lab, incident) == ["OP_TAGS_SET"]


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
        assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
        assert lab.node(node, "tags") == [[incident.ready_tag]]
        # Acknowledged: known and silent while it is reported, forgotten afterwards.
        lab.do(op("TAGS_DEL", kind="node", name=node, tags=[incident.ready_tag]))
        until(lambda: lab.incidents[incident.uuid].acknowledged)
        lab.report(node, OK)
        until(lambda: not lab.incidents)
    ran = operations(lab, incident)
    assert ran[0] == ran[-2] == "OP_NODE_SET_PARAMS"
    assert ran[-1] == "OP_TAGS_SET"
    assert ran.count("OP_INSTANCE_MIGRATE") >= 4
    assert ran.count("OP_INSTANCE_REPLACE_DISKS") == 2
    for job in jobs_of(lab, incident):
        assert job.status == "success"
        for trail in job.reasons:
            assert ("gnt:daemon:maintd", incident.uuid) in {one[:2] for one in trail}
    assert {job.number for job in jobs_of(lab, incident)} == {*incident.jobs}


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


def test_a_worse_report_takes_over(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 5)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1"):
        until(lambda: "move" in lab.open_steps())
        lab.report(node, FAILOVER)
        until(lambda: {one.status for one in lab.incidents.values()} == {COMPLETED})
        until(lambda: len(lab.node(node, "tags")[0]) == 2)
    actions = sorted(one.action for one in lab.incidents.values())
    assert actions == ["evacuate", "evacuate-failover"]
    assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]


def test_the_master_waits_and_says_so(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.report("node1.lab", EVACUATE)
    with lab.daemon():
        incident = lab.incident("node1.lab")
        until(lambda: "is the master" in lab.steward("maintd", "status").stdout)
    assert (incident.status, lab.node("node1.lab", "drained")) == (NOTED, [False])


def test_a_cancel_while_jobs_run(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 5)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1"):
        until(lambda: "move" in lab.open_steps())
        incident = lab.incident(node)
        done = lab.steward("incident", "cancel", incident.uuid)
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: lab.incidents[incident.uuid].status == CANCELED)
        until(lambda: not lab.incidents[incident.uuid].open)
        until(lambda: lab.node(node, "tags") == [[]])
        lab.report(node, OK)
        until(lambda: not lab.incidents)
    ran = operations(lab, incident)
    assert "OP_TAGS_SET" not in ran
    assert 1 <= ran.count("OP_INSTANCE_MIGRATE") < 4
    assert lab.node(node, "offline") == [False]


def test_observe_does_nothing_and_says_what_it_would_do(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst3.lab", "diskless", "node2.lab"))
    lab.report(node, EVACUATE)
    with lab.daemon(mode="observe"):
        incident = lab.incident(node)
        until(lambda: "observe" in lab.steward("maintd", "status").stdout)
    assert (incident.status, jobs_of(lab, incident)) == (NOTED, [])
    assert lab.node(node, "drained", "tags") == [False, []]


def test_a_node_that_leaves_the_cluster(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node6.lab"
    lab.report(node, EVACUATE)
    with lab.daemon(mode="observe"):
        lab.incident(node)
        lab.do(op("NODE_REMOVE", node_name=node))
        until(lambda: not lab.incidents)
    lab.ok("gnt-node add --no-ssh-key-check -g rack2 node6.lab")


def test_a_stopped_daemon_goes_on_where_the_cluster_is(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "sharedfile", node) for i in range(1, 5)))
    lab.report(node, EVACUATE)
    for step in ("drain", "move", "final-role"):
        with lab.daemon() as daemon:
            until(lambda step=step: step in lab.open_steps())  # type: ignore[misc]
            lab.kill(daemon)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED)
    assert operations(lab, incident).count("OP_INSTANCE_MIGRATE") == 4
    assert operations(lab, incident).count("OP_NODE_SET_PARAMS") == 2
    assert lab.node(node, "offline", "pinst_cnt") == [True, 0]


def test_a_node_that_loses_power_while_it_is_evacuated(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "drbd", "node2.lab:node3.lab"), ("inst2.lab", "diskless", "node2.lab"))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1"):
        until(lambda: "move" in lab.open_steps())
        lab.stop_agent(node)
        lab.power_off(node)
        incident = lab.ended(node, FAILED)
        lab.power_on(node)
        lab.start_agent(node)
    assert "failed" in incident.note
    assert lab.node(node, "tags") == [[incident.failed_tag]]
    # The rest of the cluster still takes instances.
    lab.place(("inst3.lab", "diskless", "node4.lab"))


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
    assert operations(lab, incident).count("OP_INSTANCE_FAILOVER") == 1
    assert lab.node(node, "drained", "offline") == [True, False]
    for volume in ("/dev/lab0", "/dev/lab1"):
        lab.storage("return-pv", volume, node=node)
