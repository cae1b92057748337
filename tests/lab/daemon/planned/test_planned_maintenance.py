"""All nodes but the master are rebooted one after the other, and no instance stops."""

from __future__ import annotations

import re
from random import Random

import pytest

from ganeti_steward.core.errors import EXIT_NOT_MASTER

from ...cluster import op, tagged
from ..faults.findings import status
from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab
from .rolling import FIXED, MIGRATED, QUIET, Admin, downtime, homes, migrated, roll, running, states

pytestmark = pytest.mark.thorough

#: How often the daemon is killed in a roll.
KILLS = 30


def test_a_roll(maintained: MaintainedLab, runs: Runs) -> None:
    """What cannot migrate refuses it; without that nothing is down for a moment."""
    lab, admin = maintained, Admin(maintained)
    lab.place(*MIGRATED, FIXED[0])
    refused = lab.steward("maintenance", "roll", "--all")
    assert refused.returncode == 1
    assert "inst6.lab" in refused.stderr
    lab.remove(FIXED[0][0])
    before, where = homes(lab), running(lab)
    with lab.daemon():
        roll(lab)
        admin.rolls()
    assert (homes(lab), running(lab)) == (before, where)
    assert admin.operations.keys() <= QUIET
    assert {name: downtime(lab, runs, name) for name, *_ in MIGRATED} == dict.fromkeys(where, 0)


def test_a_roll_by_tag_and_deadline(maintained: MaintainedLab, runs: Runs) -> None:
    """The second run does nothing: the tag has gone from each node with its maintenance."""
    lab, admin = maintained, Admin(maintained)
    lab.place(*MIGRATED)
    lab.do(*(tagged("node", name, "needsreboot") for name in lab.nodes[1:]))
    before, where = homes(lab), running(lab)
    words = ["maintenance", "roll", "needsreboot", "--remove-tag", "needsreboot", "--by"]
    with lab.daemon():
        late = lab.steward(*words, "2099-01-01 06:00", node=lab.master)
        assert late.returncode == 0, late.stdout + late.stderr
        assert "with 1 at once all nodes are back at " in late.stderr
        admin.rolls()
        again = lab.steward(*words, "2099-01-01 06:00", node=lab.master)
    assert (again.returncode, again.stdout) == (0, "No node has the tag needsreboot.\n")
    assert (homes(lab), running(lab)) == (before, where)
    assert {name: downtime(lab, runs, name) for name, *_ in MIGRATED} == dict.fromkeys(where, 0)


#: In addition, so that the master and the last node have something.
_MORE = (("inst8.lab", "drbd", "node1.lab:node2.lab"), ("inst9.lab", "drbd", "node7.lab:node6.lab"))


def errors(lab: MaintainedLab) -> list[str]:
    """The errors that ``gnt-cluster verify`` prints."""
    found = lab.run("gnt-cluster verify --error-codes").text.splitlines()
    return sorted(line[line.index("ERROR") :] for line in found if "ERROR" in line)


def test_all_seven(maintained: MaintainedLab, runs: Runs) -> None:
    """The master is the last one, after the failover that the admin does as the daemon requests it.

    An admin chose to have those shut down that cannot migrate.
    """
    lab, admin, last = maintained, Admin(maintained), Admin(maintained, "node1.lab")
    lab.place(*MIGRATED, *FIXED, *_MORE)
    before, where, found = homes(lab), running(lab), errors(lab)
    with lab.daemon() as old:
        roll(lab, "--stop", "--with-master")
        admin.rolls()
        assert states(lab)["node1.lab"] == "requested"
        (other,) = re.findall(r"gnt-cluster master-failover on (\S+),", status(lab))
        used, earlier = admin.operations, migrated(lab)
        lab.fail_over(other)
        assert old.wait(300) == EXIT_NOT_MASTER
    try:
        with lab.daemon(node=other):
            last.rolls()
        used += last.operations
        times = {name: downtime(lab, runs, name, earlier) for name in where}
    finally:
        # Ganeti made another node a candidate in its place.
        lab.do(op("NODE_SET_PARAMS", node_name="node1.lab", master_candidate=True))
        lab.fail_over("node1.lab")
    assert (homes(lab), running(lab), errors(lab)) == (before, where, found)
    fixed = {name for name, *_ in FIXED}
    assert {name for name, seconds in times.items() if seconds} == fixed
    assert used.keys() <= QUIET | {"OP_INSTANCE_SHUTDOWN", "OP_INSTANCE_STARTUP"}
    assert used["OP_INSTANCE_MIGRATE"] == 2 * len(where.keys() - fixed)
    assert used["OP_INSTANCE_SHUTDOWN"] == used["OP_INSTANCE_STARTUP"] == len(fixed)


@pytest.mark.parametrize("choice", ["--stop", "--move"])
def test_what_cannot_migrate(maintained: MaintainedLab, runs: Runs, choice: str) -> None:
    """Only those instances are down, and all are where they were."""
    lab, admin = maintained, Admin(maintained)
    lab.place(*MIGRATED, *FIXED)
    before, where = homes(lab), running(lab)
    with lab.daemon():
        roll(lab, choice)
        admin.rolls()
    assert (homes(lab), running(lab)) == (before, where)
    used = admin.operations
    times = {name: downtime(lab, runs, name) for name in where}
    assert {name for name, seconds in times.items() if seconds} == {name for name, *_ in FIXED}
    if choice == "--stop":
        assert used["OP_INSTANCE_SHUTDOWN"] == used["OP_INSTANCE_STARTUP"] == len(FIXED)
        assert not used["OP_INSTANCE_MOVE"]
    else:
        assert used["OP_INSTANCE_MOVE"] == 2 * len(FIXED)


@pytest.mark.parametrize("seed", [1])
def test_a_daemon_that_is_killed(maintained: MaintainedLab, runs: Runs, seed: int) -> None:
    """At random moments; no instance is down, and no job is there twice."""
    lab, admin, random = maintained, Admin(maintained), Random(seed)
    lab.place(*MIGRATED)
    before, where = homes(lab), running(lab)
    for killed in range(KILLS):
        moment = random.uniform(1, 15)
        with lab.daemon() as daemon:
            if not killed:
                roll(lab)
            seen = len(runs.changes)
            admin.looks(moment)
            lab.kill(daemon)
        print(f"killed after {moment:.1f} s and {len(runs.changes) - seen} changes")
    with lab.daemon():
        admin.rolls()
    assert (homes(lab), running(lab)) == (before, where)
    assert {name: downtime(lab, runs, name) for name, *_ in MIGRATED} == dict.fromkeys(where, 0)
    # Each instance leaves its node once and comes back once, and drbd copies do not move at all.
    assert admin.operations["OP_INSTANCE_MIGRATE"] == 2 * len(MIGRATED)
    assert admin.operations.keys() <= QUIET
