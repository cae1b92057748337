"""The daemon is killed, and another node becomes the master."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import COMPLETED, Incident

from ..cluster import until
from .maintained_lab import MaintainedLab
from .node_files import EVACUATE

pytestmark = pytest.mark.thorough


def submissions(lab: MaintainedLab, incident: Incident) -> list[str]:
    """The submission that each job of the incident belongs to."""
    return [
        found
        for job in lab.jobs_of(incident)
        for found in {
            reason.text for reason in job.reasons[0] if reason.source == SUBMISSION_SOURCE
        }
    ]


def moved(lab: MaintainedLab, incident: Incident) -> Counter[str]:
    """Instance -> the jobs of the incident that move it."""
    numbers = {job.number for job in lab.jobs_of(incident)}
    rows: list[Any] = [ops for number, ops in lab.rows("job", "id", "ops") if number in numbers]
    return Counter(ops[0]["instance_name"] for ops in rows if "instance_name" in ops[0])


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


def test_another_node_becomes_the_master(maintained: MaintainedLab) -> None:
    """The old daemon ends by itself, the new one goes on where the cluster is."""
    lab, node = maintained, "node3.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 6)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1") as old:
        until(lambda: "move" in lab.open_steps())
        known = lab.incident(node)
        lab.fail_over("node2.lab")
        assert old.wait(300) == 11
    assert lab.incident(node).uuid == known.uuid
    with lab.daemon("moves-at-once = 1", node="node2.lab"):
        incident = lab.ended(node, COMPLETED)
    assert incident.uuid == known.uuid
    # What a job wrote just before the failover can be lost, then its instance is moved again.
    assert set(moved(lab, incident)) == {f"inst{i}.lab" for i in range(1, 6)}
    each = submissions(lab, incident)
    assert len(each) == len(set(each)) == len(lab.jobs_of(incident))
    assert lab.node(node, "offline", "pinst_cnt") == [True, 0]
    lab.fail_over("node1.lab")
