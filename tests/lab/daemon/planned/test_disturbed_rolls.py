"""A roll in which something fails, or others work: it stops, or goes on as the page says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from ganeti_steward.core.errors import EXIT_NOT_MASTER
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import FAILED, Incident

from ...cluster import op, until
from ..faults.breaking import TRANSFER, held_job, migrations
from ..faults.findings import all_well, says
from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab
from .rolling import Admin, Migrated, downtime, migrated, reboot, running, states, typed

FIRST, SECOND = "node2.lab", "node5.lab"
#: Each of both nodes has a primary.
INSTANCES = (
    ("inst1.lab", "drbd", f"{FIRST}:node3.lab"),
    ("inst2.lab", "drbd", f"{SECOND}:node6.lab"),
)


def is_in(lab: MaintainedLab, node: str, state: str, seconds: float = 120) -> None:
    """Wait for the state of a node's maintenance."""
    until(lambda: states(lab).get(node) == state, seconds)


def acknowledge(lab: MaintainedLab, failed: Incident) -> None:
    """What the page says after a failure."""
    lab.do(op("NODE_SET_PARAMS", node_name=failed.node_name, drained=False))
    typed(lab, f"incident ack {failed.uuid}")
    until(lambda: states(lab).get(failed.node_name) != FAILED)


def submissions(lab: MaintainedLab, incident: Incident) -> Counter[tuple[str, str]]:
    """Submission and instance (empty: of no instance) -> how many jobs there are for both."""
    numbers = {job.number: job.reasons[0] for job in lab.jobs_of(incident)}
    rows = {int(number): ops for number, ops in lab.rows("job", "id", "ops")}
    return Counter(
        (reason.text, rows[number][0].get("instance_name", ""))
        for number, reasons in numbers.items()
        for reason in reasons
        if reason.source == SUBMISSION_SOURCE
    )


def assert_kept(
    lab: MaintainedLab, runs: Runs, where: dict[str, str], earlier: Iterable[Migrated] = ()
) -> None:
    """Every instance runs there, and none was down for a moment; ``earlier``: see `downtime`."""
    assert running(lab) == where
    times = {name: downtime(lab, runs, name, earlier) for name in where}
    assert times == dict.fromkeys(where, 0)


def test_a_disk_fault_elsewhere(maintained: MaintainedLab, runs: Runs) -> None:
    """The next node is not begun until ``gnt-cluster verify-disks`` is clean."""
    lab = maintained
    lab.place(*INSTANCES)
    where = running(lab)
    with lab.daemon():
        typed(lab, f"maintenance start {FIRST} node4.lab")
        is_in(lab, FIRST, "ready")
        lab.storage("detach", "inst2.lab", node="node6.lab")
        reboot(lab, FIRST)
        named = "the disks must be activated of 1 instance: inst2.lab"
        says(lab, f"gnt-cluster verify-disks: {named}", seconds=90)
        until(lambda: FIRST not in states(lab))
        assert states(lab) == {"node4.lab": "requested"}
        assert lab.operations(lab.incident("node4.lab")) == []
        lab.ok("gnt-cluster verify-disks")
        is_in(lab, "node4.lab", "ready")
    assert_kept(lab, runs, where)


def test_a_migration_that_fails(maintained: MaintainedLab, runs: Runs) -> None:
    """It stops all others, once, until an admin has looked at it."""
    lab = maintained
    lab.place(*INSTANCES)
    with lab.daemon():
        with migrations(lab, TRANSFER, FIRST, fail=True):
            typed(lab, f"maintenance start {FIRST} {SECOND}")
            failed = lab.ended(FIRST, FAILED)
        assert f"gnt-node modify -D no {FIRST}" in failed.note
        assert lab.operations(failed).count("OP_INSTANCE_MIGRATE") == 1
        says(lab, f"incident {failed.uuid} of {FIRST} (maintenance) is failed")
        assert states(lab)[SECOND] == "requested"
        assert lab.operations(lab.incident(SECOND)) == []
        acknowledge(lab, failed)
        is_in(lab, SECOND, "ready")
    assert_kept(lab, runs, {"inst1.lab": FIRST, "inst2.lab": "node6.lab"})


@pytest.mark.thorough
def test_a_copy_that_stays_faulty(maintained: MaintainedLab, runs: Runs) -> None:
    """The node that was away loses its disk in the reboot: it is not taken back by the daemon."""
    lab = maintained
    lab.place(*INSTANCES)
    with lab.daemon():
        typed(lab, f"maintenance start {FIRST} {SECOND}")
        is_in(lab, FIRST, "ready")
        for volume in ("/dev/lab0", "/dev/lab1"):
            lab.storage("lose-pv", volume, node=FIRST)
        reboot(lab, FIRST)
        failed = lab.ended(FIRST, FAILED)
        assert "inst1.lab: its disks stay degraded" in failed.note
        assert lab.node(FIRST, "drained") == [True]
        assert states(lab)[SECOND] == "requested"
        for volume in ("/dev/lab0", "/dev/lab1"):
            lab.storage("return-pv", volume, node=FIRST)
        acknowledge(lab, failed)
        lab.ok("gnt-cluster verify-disks")
        is_in(lab, SECOND, "ready")
    # It stays where it went, for a failed maintenance is over.
    assert_kept(lab, runs, {"inst1.lab": "node3.lab", "inst2.lab": "node6.lab"})


@pytest.mark.thorough
def test_a_node_that_does_not_come_back(maintained: MaintainedLab, runs: Runs) -> None:
    """It fails after ``return-limit``; everything runs on, and no other node is begun."""
    lab = maintained
    lab.place(*INSTANCES)
    with lab.daemon("return-limit = 60"):
        typed(lab, f"maintenance start {FIRST} {SECOND}")
        is_in(lab, FIRST, "ready")
        lab.power_off(FIRST)
        typed(lab, f"maintenance done {FIRST}")
        until(lambda: {one.status for one in lab.incidents.values()} >= {FAILED}, 200)
        says(lab, f"{FIRST} does not answer")
        assert states(lab)[SECOND] == "requested"
        lab.power_on(FIRST)
        acknowledge(lab, lab.ended(FIRST, FAILED))
        lab.ok("gnt-cluster verify-disks")
        is_in(lab, SECOND, "ready")
    assert_kept(lab, runs, {"inst1.lab": "node3.lab", "inst2.lab": "node6.lab"})


@pytest.mark.thorough
def test_another_master_in_the_middle(maintained: MaintainedLab, runs: Runs) -> None:
    """The daemon of the new master goes on; its own node waits until it is not the master."""
    lab, first = maintained, "node3.lab"
    lab.place(("inst1.lab", "drbd", f"{first}:{FIRST}"), ("inst2.lab", "sharedfile", first))
    where, one = running(lab), Admin(lab, first)
    with lab.daemon() as old:
        for node in (first, FIRST):
            typed(lab, f"maintenance start {node}")
        is_in(lab, first, "ready")
        known, earlier = lab.incident(first), migrated(lab)
        lab.fail_over(FIRST)
        assert old.wait(300) == EXIT_NOT_MASTER
    try:
        with lab.daemon(node=FIRST):
            one.rolls(200)
            says(lab, f"node {FIRST} is the master")
            assert states(lab)[FIRST] == "requested"
        assert {*submissions(lab, known).values()} == {1}
        assert one.operations["OP_INSTANCE_MIGRATE"] == 2 * len(where)
        assert_kept(lab, runs, where, earlier)
    finally:
        lab.fail_over("node1.lab")
    with lab.daemon():
        is_in(lab, FIRST, "ready")


@pytest.mark.thorough
def test_another_master_while_a_migration_runs(maintained: MaintainedLab, runs: Runs) -> None:
    """It is cleaned up, the roll goes on, and Ganeti knows where everything runs."""
    lab, first = maintained, "node3.lab"
    lab.place(
        ("inst1.lab", "drbd", f"{first}:node1.lab"), ("inst2.lab", "drbd", f"{first}:{FIRST}")
    )
    where, one = running(lab), Admin(lab, first)
    with lab.daemon() as old:
        with migrations(lab, TRANSFER, first):
            typed(lab, f"maintenance start {first}")
            held_job(lab, "OP_INSTANCE_MIGRATE")
            lab.fail_over(FIRST)
        assert old.wait(300) == EXIT_NOT_MASTER
    try:
        with lab.daemon(node=FIRST):
            one.rolls(400)
        assert running(lab) == where
        assert all_well(lab, runs) == {}
    finally:
        lab.fail_over("node1.lab")


@pytest.mark.thorough
def test_an_operators_own_job(maintained: MaintainedLab, runs: Runs) -> None:
    """The instance has left by it already: it is not moved again, and comes back at the end."""
    lab = maintained
    lab.place(*INSTANCES)
    where = running(lab)
    with lab.daemon():
        with lab.held_jobs("OP_NODE_SET_PARAMS"):
            typed(lab, f"maintenance start {FIRST}")
            until(lambda: "drain" in lab.open_steps())
            found = lab.incident(FIRST)
            lab.do(op("INSTANCE_MIGRATE", instance_name="inst1.lab"))
        is_in(lab, FIRST, "ready")
        assert lab.operations(found).count("OP_INSTANCE_MIGRATE") == 0
        Admin(lab, FIRST).rolls(120)
    assert_kept(lab, runs, where)
    assert {*submissions(lab, found).values()} == {1}
    assert lab.operations(found).count("OP_INSTANCE_MIGRATE") == 1
