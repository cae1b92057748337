"""All nodes but the master are rebooted one after the other, and no instance stops."""

from __future__ import annotations

from random import Random

import pytest

from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab
from .rolling import FIXED, MIGRATED, QUIET, Admin, downtime, homes, roll, running

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
