"""The daemon is killed and suspended again and again."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from typing import Any, Final

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED, FAILED, Incident

from ...cluster import until
from ..maintained_lab import MaintainedLab, signal_program
from ..node_files import EVACUATE, REPAIR
from .findings import all_well, ignores_consistency
from .watched import Runs

pytestmark = pytest.mark.thorough

KILLS: Final = 60
STOPS: Final = 3
#: Seconds for which the daemon is suspended.
SUSPENDED: Final = 60
MORE: Final = "moves-at-once = 1\nmost-nodes = 3"
EVACUATED: Final = ("node2.lab", "node6.lab")
REPAIRED: Final = "node3.lab"
PLACES: Final = (
    ("inst1.lab", "diskless", "node2.lab"),
    ("inst2.lab", "sharedfile", "node2.lab"),
    ("inst3.lab", "ext", "node2.lab"),
    ("inst4.lab", "drbd", "node2.lab:node1.lab"),
    ("inst5.lab", "diskless", "node6.lab"),
    ("inst6.lab", "sharedfile", "node6.lab"),
    ("inst7.lab", "drbd", "node6.lab:node5.lab"),
    ("inst8.lab", "drbd", "node4.lab:node6.lab"),
)


def test_each_operation_once(maintained: MaintainedLab, runs: Runs) -> None:
    """Three incidents at a time, until there were enough kills and stops."""
    lab, rng, kills, stops, rounds = maintained, random.Random(25), 0, 0, 0
    while kills < KILLS or stops < STOPS:
        begin(lab)
        rounds += 1
        while not ended(lab):
            with lab.daemon(MORE) as daemon:
                # Some live long enough to read the disks before they decide, on any machine.
                time.sleep(0.3 + min(rng.expovariate(1 / 4), 20))
                if stops < STOPS and rng.random() < STOPS / 20:
                    signal_program(daemon, signal.SIGSTOP)
                    time.sleep(SUSPENDED)
                    signal_program(daemon, signal.SIGCONT)
                    stops += 1
                    time.sleep(rng.uniform(0.3, 6))
                lab.kill(daemon)
                kills += 1
            assert kills < 4 * KILLS, lab.incidents
        with lab.daemon(MORE):
            until(lambda: all(one.tagged for one in lab.incidents.values()))
        check(lab, runs)
        print(f"after {kills} kills and {stops} stops each operation was submitted once")
        lab.reset()
    print(f"{kills} kills and {stops} stops over {rounds} times three incidents")


def begin(lab: MaintainedLab) -> None:
    """Three nodes report a fault."""
    lab.place(*PLACES)
    lab.repair_status(REPAIRED, 0)
    lab.report(REPAIRED, REPAIR)
    for node in EVACUATED:
        lab.report(node, EVACUATE)


def ended(lab: MaintainedLab) -> bool:
    """Whether all three have an incident that has ended."""
    found = {one.node_name for one in lab.incidents.values() if one.status in (COMPLETED, FAILED)}
    return found == {REPAIRED, *EVACUATED}


def check(lab: MaintainedLab, runs: Runs) -> None:
    """Each operation of each incident was submitted once, and all of them succeeded."""
    for incident in lab.incidents.values():
        assert incident.status == COMPLETED, incident.note
        assert {*submitted(lab, incident).values()} == {1}, submitted(lab, incident)
        assert {job.status for job in lab.jobs_of(incident)} == {"success"}
    for node in EVACUATED:
        assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
    assert lab.repairs(REPAIRED) == 1
    assert ignores_consistency(lab) == []
    assert all_well(lab, runs) == {}


def submitted(lab: MaintainedLab, incident: Incident) -> Counter[str]:
    """Operation with all its parameters but the reason -> in how many jobs it was submitted.

    One job may migrate an instance to its secondary and, with another one, on from there.
    """
    numbers = {job.number for job in lab.jobs_of(incident)}
    rows: list[Any] = [ops for number, ops in lab.rows("job", "id", "ops") if number in numbers]
    return Counter(operation for ops in rows for operation in {_text(one) for one in ops})


def _text(operation: dict[str, Any]) -> str:
    own = {key: operation[key] for key in operation if key not in _OWN}
    return json.dumps(own, sort_keys=True)


#: What is not the same in two submissions of the same operation: two moves of an instance to
#: different nodes are the same operation as well.
_OWN: Final = {"reason", "comment", "depends", "priority", "target_node", "remote_node"}
