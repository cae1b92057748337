"""A maintenance that fails or is canceled: nothing waits for it, whatever it was doing."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from ganeti_steward.plugins.model.incident import CANCELED, FAILED, PENDING

from ...cluster import until
from ..faults.breaking import TRANSFER, migrations
from ..faults.findings import says
from ..maintained_lab import MaintainedLab
from ..node_files import EVACUATE, OK
from .booting import bootable, reboot, wants_reboot
from .rolling import states, typed

NODE, ILL, NEXT = "node2.lab", "node6.lab", "node5.lab"
INSTANCES = (
    ("inst1.lab", "drbd", f"{NODE}:node3.lab"),
    ("inst2.lab", "drbd", f"{ILL}:node4.lab"),
)


def is_repaired(lab: MaintainedLab, seconds: float = 60) -> None:
    """The ill node is evacuated, whatever the other one waits for."""
    lab.report(ILL, EVACUATE)
    until(lambda: lab.incident(ILL).status != "noted", seconds)
    assert lab.incident(ILL).status in (PENDING, "completed")


def test_an_ill_node_beside_one_that_is_ready(maintained: MaintainedLab) -> None:
    """Over a weekend, until a person comes."""
    lab = maintained
    lab.place(*INSTANCES)
    with lab.daemon("most-nodes = 1\nmost-waiting = 1"):
        typed(lab, f"maintenance start {NODE} {NEXT}")
        until(lambda: states(lab)[NODE] == "ready", 120)
        is_repaired(lab)
        assert states(lab)[NODE] == "ready"
        assert states(lab)[NEXT] == "requested"
        typed(lab, f"maintenance done {NODE}")
        assert states(lab)[NODE] not in ("ready", "emptying")


def test_a_node_that_never_comes_back_from_its_command(maintained: MaintainedLab) -> None:
    """It is tagged at once, and an ill node beside it is repaired before it is acknowledged."""
    lab = maintained
    lab.place(*INSTANCES)
    with bootable(lab, NODE), lab.daemon("return-limit = 60"):
        typed(lab, f"maintenance start {NODE} --work command:lab-reboot")
        until(lambda: wants_reboot(lab, NODE), 120)
        lab.kill_agent(NODE)
        lab.power_off(NODE)
        try:
            says(lab, "the command lab-reboot has not ended", " at most", seconds=60)
            failed = lab.ended(NODE, FAILED, 120)
            assert "the outcome of the command lab-reboot is unknown" in failed.note
            is_repaired(lab)
            assert "incident ack" in typed(lab, f"maintenance cancel {NODE}")
            typed(lab, f"incident ack {failed.uuid}")
            until(lambda: failed.uuid not in lab.incidents, 60)
        finally:
            lab.power_on(NODE)
            lab.start_agent(NODE)


@pytest.mark.parametrize("when", ["requested", "emptying", "ready", "working", "returning"])
def test_a_cancel(maintained: MaintainedLab, when: str) -> None:
    """In each state: the next round ends it, and an ill node and the next maintenance go on."""
    lab = maintained
    lab.place(*INSTANCES)
    # What has left the node by then stays away, and the node drained: the list shows that.
    ended = (CANCELED, "unfinished")
    work = "command:lab-reboot" if when == "working" else "none"
    with bootable(lab, NODE), lab.daemon("most-nodes = 1"):
        if when == "requested":
            typed(lab, "maintenance pause")
        with migrations(lab, TRANSFER, NODE) if when == "emptying" else nullcontext():
            typed(lab, f"maintenance start {NODE} --work {work}")
            if when == "emptying":
                until(lambda: "move" in lab.open_steps(), 120)
                # Ganeti sets a tag of the node once the migration is over: both lock the node.
                typed(lab, f"maintenance cancel {NODE} --submit")
        if when == "working":
            until(lambda: wants_reboot(lab, NODE), 120)
        elif when == "requested":
            says(lab, "planned maintenance is paused")
        elif when != "emptying":
            until(lambda: states(lab)[NODE] == "ready", 120)
        if when == "returning":
            lab.power_off(NODE)
            typed(lab, f"maintenance done {NODE}")
            until(lambda: states(lab)[NODE] == "returning", 60)
        if when != "emptying":
            typed(lab, f"maintenance cancel {NODE}")
            assert states(lab).get(NODE, CANCELED) in ("canceling", *ended)
        until(lambda: states(lab).get(NODE, CANCELED) in ended, 60)
        found = [one for one in lab.incidents.values() if one.node_name == NODE]
        assert not any(submission.command for one in found for submission in one.open)
        is_repaired(lab)
        lab.report(ILL, OK)
        if when == "returning":
            lab.power_on(NODE)
        if when == "working":
            reboot(lab, NODE)
        typed(lab, "maintenance resume")
