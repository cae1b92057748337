"""What may happen while the daemon works: kills, cancels, faults of nodes (``--thorough`` only)."""

from __future__ import annotations

from ganeti_steward.core.maintenance.incident import (
    CANCELED,
    COMPLETED,
    FAILED,
)

from ..cluster import op, until
from .maintained_lab import EVACUATE, FAILOVER, OK, MaintainedLab


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
    ran = lab.operations(incident)
    assert "OP_TAGS_SET" not in ran
    assert 1 <= ran.count("OP_INSTANCE_MIGRATE") < 4
    assert lab.node(node, "offline") == [False]


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
    assert lab.operations(incident).count("OP_INSTANCE_MIGRATE") == 4
    assert lab.operations(incident).count("OP_NODE_SET_PARAMS") == 2
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
    assert lab.operations(incident).count("OP_INSTANCE_FAILOVER") == 1
    assert lab.node(node, "drained", "offline") == [True, False]
    for volume in ("/dev/lab0", "/dev/lab1"):
        lab.storage("return-pv", volume, node=node)
