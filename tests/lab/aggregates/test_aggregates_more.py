"""More about reserved and licensed hosts on the lab's cluster; with --thorough."""

from __future__ import annotations

import pytest

from ..cluster import ADD, RACK2, Lab
from ..live import STEWARD, Ways
from .test_aggregates import add, listed, refused, reserved

pytestmark = pytest.mark.thorough


def test_an_instance_that_may_not_be_there_is_reported(lab: Lab) -> None:
    reserved(lab)
    lab.ok(f"{ADD} -t diskless -n node5.lab squatter.lab")
    done = lab.fails(f"{STEWARD} aggregate check")
    assert "instance squatter.lab would not be placed on node5.lab as primary" in done.text
    done = lab.ok(f"{STEWARD} aggregate show squatter")
    assert "not node5.lab, node7.lab: " in done.text


def test_a_reservation_is_extended(lab: Lab) -> None:
    reserved(lab)
    done = lab.ok(f"{STEWARD} reserve extend r1 --from rack2")
    assert "moved from reservation:free to reservation:r1: node6.lab" in done.text
    assert listed(lab) == {"reservation:r1": {*RACK2}}
    done = lab.fails(f"{STEWARD} reserve extend r1 node1")
    assert "node1.lab is not in the free pool reservation:free" in done.text


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_all_or_nothing(lab: Lab, to: Ways, way: str) -> None:
    options: str = getattr(to, way)
    members = "default node5 unit:node6:u1 pool:nas1"
    lab.ok(f"{STEWARD} aggregate add zone1 {members} {options}")
    text = lab.ok(f"{STEWARD} aggregate list --no-headers {options}").text
    assert text.split() == ["zone1", "default", "node5.lab", "node6.lab:u1", "nas1"]
    assert "steward:aggregate:zone1" in lab.ok("gnt-group list-tags default").text
    done = lab.fails(f"{STEWARD} aggregate remove zone1 default node7 {options}")
    assert "node node7.lab has no tag 'steward:aggregate:zone1'" in done.text
    assert lab.ok(f"{STEWARD} aggregate list --no-headers {options}").text == text
    lab.ok(f"{STEWARD} aggregate remove zone1 {members} {options}")
    assert lab.ok(f"{STEWARD} aggregate list --no-headers {options}").text == ""


def test_old_or_new_nodes_and_a_zone(lab: Lab) -> None:
    lab.ok(f"{STEWARD} aggregate add alpha-old node1")
    lab.ok(f"{STEWARD} aggregate add alpha-new node6")
    either = "steward:member-of:in:alpha-old+alpha-new"
    found = {add(lab, f"alpha{number}", either) for number in range(3)}
    assert found <= {"node1.lab", "node6.lab"}
    # The zone is the group's, the project the node's.
    lab.ok(f"{STEWARD} aggregate add zone2 rack2")
    lab.ok(f"{STEWARD} aggregate add zone1 default")
    assert add(lab, "beta1", f"{either},steward:member-of:zone2") == "node6.lab"
    assert add(lab, "beta2", f"{either},steward:member-of:zone1") == "node1.lab"


def test_not_on_the_slow_pool(lab: Lab) -> None:
    lab.ok(f"{STEWARD} aggregate add room1 default pool:nas1")
    lab.ok(f"{STEWARD} aggregate add room2 rack2 pool:nas2")
    lab.ok(f"{STEWARD} aggregate add slow pool:nas1")
    disk = "-t sharedfile --disk 0:size=512M"
    found = {add(lab, f"fast{n}", "steward:member-of.storage:not:slow", disk) for n in range(3)}
    assert found <= {*RACK2}
    info = refused(lab, "mixed", "steward:member-of.storage:not:slow,steward:member-of:room1", disk)
    assert "3 storage: no pool will do (" in info
    assert "3 not in aggregate room1" in info
