"""An admin cancels, in every state of an incident."""

from __future__ import annotations

import pytest

from ganeti_steward.plugins.model.incident import (
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    Incident,
)

from ..cluster import op, until
from .maintained_lab import MaintainedLab
from .node_files import EVACUATE, OK, REPAIR

pytestmark = pytest.mark.thorough


def cancel(lab: MaintainedLab, incident: Incident) -> None:
    """Cancel it, and wait until nothing of it is left on its node."""
    done = lab.steward("incident", "cancel", incident.uuid)
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: lab.incidents[incident.uuid].status == CANCELED)
    until(lambda: not lab.incidents[incident.uuid].open)
    until(lambda: lab.node(incident.node_name, "tags") == [[]])


def forgotten(lab: MaintainedLab, node: str) -> None:
    """A canceled one is known as long as it is reported."""
    assert len(lab.incidents) == 1
    lab.report(node, OK)
    until(lambda: not lab.incidents)


def test_noted(maintained: MaintainedLab) -> None:
    """What holds the repair back does not hold back the cancel."""
    lab, node = maintained, "node2.lab"
    lab.report(node, EVACUATE)
    with lab.daemon('windows = ["Wed 03:00-03:01"]'):
        incident = lab.incident(node)
        assert incident.status == NOTED
        cancel(lab, incident)
        forgotten(lab, node)
    assert set(lab.operations(incident)) == {"OP_TAGS_DEL"}


@pytest.mark.parametrize("step", ["drain", "final-role"])
def test_a_role_of_the_node_is_to_be_set(maintained: MaintainedLab, step: str) -> None:
    """Its queued job is canceled, and what was done stays as it is."""
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 3)))
    with lab.daemon():
        if step == "final-role":
            lab.report(node, EVACUATE)
            until(lambda: "move" in lab.open_steps())
        with lab.held_jobs("OP_NODE_SET_PARAMS"):
            lab.report(node, EVACUATE)
            until(lambda: step in lab.open_steps())
            incident = lab.incident(node)
            cancel(lab, incident)
        forgotten(lab, node)
    roles = [one for one in lab.jobs_of(incident) if one.operations == ("OP_NODE_SET_PARAMS",)]
    assert roles[-1].status == "canceled"
    assert "OP_TAGS_SET" not in lab.operations(incident)
    assert lab.node(node, "drained", "offline") == [step == "final-role", False]


def test_instances_are_moved(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 5)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1"):
        until(lambda: "move" in lab.open_steps())
        incident = lab.incident(node)
        cancel(lab, incident)
        forgotten(lab, node)
    ran = lab.operations(incident)
    assert "OP_TAGS_SET" not in ran
    assert 1 <= ran.count("OP_INSTANCE_MIGRATE") < 4
    assert lab.node(node, "offline") == [False]


def test_a_repair_command_runs(maintained: MaintainedLab) -> None:
    """It ends as it would have, and its result is of no interest."""
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 0)
    lab.report(node, REPAIR)
    with lab.daemon():
        with lab.held_repair(node):
            until(lambda: lab.repaired(node))
            incident = lab.incident(node)
            done = lab.steward("incident", "cancel", incident.uuid)
            assert done.returncode == 0, done.stdout + done.stderr
            until(lambda: lab.incidents[incident.uuid].status == CANCELED)
        until(lambda: not lab.incidents[incident.uuid].open)
        until(lambda: lab.node(node, "tags") == [[]])
        forgotten(lab, node)
    assert "OP_TAGS_SET" not in lab.operations(incident)


@pytest.mark.parametrize(("status", "end"), [(0, COMPLETED), (7, FAILED)])
def test_it_has_ended(maintained: MaintainedLab, status: int, end: str) -> None:
    """Its result tag is removed with it."""
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, status)
    lab.report(node, REPAIR)
    with lab.daemon():
        incident = lab.ended(node, end)
        cancel(lab, incident)
        forgotten(lab, node)


def test_it_is_acknowledged(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 0)
    lab.report(node, REPAIR)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED)
        lab.do(op("TAGS_DEL", kind="node", name=node, tags=[incident.ready_tag]))
        until(lambda: lab.incidents[incident.uuid].acknowledged)
        cancel(lab, incident)
        forgotten(lab, node)
