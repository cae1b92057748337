"""No old data are started, and no instance runs twice, whatever a node reports."""

from __future__ import annotations

import time
from typing import Final

import pytest
from thorough import often

from ganeti_steward.plugins.model.incident import COMPLETED, FAILED

from ...cluster import op, tagged, until
from ..maintained_lab import MaintainedLab
from ..node_files import FAILOVER, FENCING
from .breaking import isolated, no_targets, power_program, without_noded
from .findings import (
    all_well,
    data,
    during,
    ids,
    ignores_consistency,
    operations,
    says,
    status,
)
from .watched import Runs

NODE: Final = "node2.lab"
#: An admin's statement that nothing of Ganeti runs on a node any more, followed by a uuid.
STOPPED: Final = "maintd:stopped:"
#: Seconds in which the daemon has gone through several rounds.
ROUNDS: Final = 12
EXT: Final = ("inst1.lab", "ext", NODE)
DRBD: Final = ("inst2.lab", "drbd", f"{NODE}:node3.lab")


def test_a_lost_connection_is_made_again_before_a_failover(
    maintained: MaintainedLab, runs: Runs
) -> None:
    lab, name = maintained, "inst2.lab"
    lab.place(DRBD)
    lab.storage("disconnect", name, node=NODE)
    new = data(lab, name)[NODE]
    assert data(lab, name)["node3.lab"] != new, "the other copy is old"
    lab.storage("sync-time", "3")
    lab.report(NODE, FAILOVER)
    with lab.daemon():
        incident = lab.ended(NODE, COMPLETED)
    assert ignores_consistency(lab) == []
    ran = ids(operations(lab, incident, name))
    assert ran.index("OP_INSTANCE_ACTIVATE_DISKS") < ran.index("OP_INSTANCE_FAILOVER")
    assert NODE not in lab.nodes_of(name)
    assert {data(lab, name)[node] for node in lab.nodes_of(name)} == {new}
    assert all_well(lab, runs) == {}


@pytest.mark.thorough
def test_an_instance_without_a_good_copy_stays(maintained: MaintainedLab, runs: Runs) -> None:
    """The link stays down; its primary, which answers, has the only good data."""
    lab, name = maintained, "inst2.lab"
    lab.place(EXT, DRBD, ("inst3.lab", "sharedfile", NODE))
    lab.storage("cut", name, node=NODE)
    lab.report(NODE, FAILOVER)
    with no_targets(lab, "node1.lab"):
        with lab.daemon():
            incident = lab.ended(NODE, FAILED)
        assert ignores_consistency(lab) == []
        assert [one for one, _ in incident.unmovable] == [name]
        assert lab.node(NODE, "pinst_list", "offline") == [[name], False]
        assert runs.nodes(name) == {NODE}
        assert all_well(lab, runs) == {}


@pytest.mark.thorough
def test_a_copy_whose_age_is_not_known_is_not_started(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """Also after the admin's statement that the node has stopped."""
    lab = maintained
    lab.place(DRBD)
    lab.report(NODE, FAILOVER)
    with without_noded(lab, NODE):
        with lab.daemon():
            really_stopped(lab)
            incident = lab.incident(NODE)
            says(lab, f"{STOPPED}{incident.uuid}")
            lab.do(tagged("node", NODE, f"{STOPPED}{incident.uuid}"))
            says(lab, "inst2.lab", "in sync", "failover-unsynced")
            during(ROUNDS, lambda: runs.nodes("inst2.lab") == {NODE}, lab)
            print(status(lab))
        assert runs.now("inst2.lab") == []
        assert lab.nodes_of("inst2.lab")[0] == NODE


@pytest.mark.thorough
def test_the_policy_permits_a_copy_whose_age_is_not_known(
    maintained: MaintainedLab, runs: Runs
) -> None:
    lab = maintained
    lab.place(DRBD)
    lab.report(NODE, FAILOVER)
    with without_noded(lab, NODE), lab.daemon("failover-unsynced = true"):
        incident = lab.incident(NODE)
        says(lab, f"{STOPPED}{incident.uuid}")
        assert runs.nodes("inst2.lab") == {NODE}
        really_stopped(lab)
        lab.do(tagged("node", NODE, f"{STOPPED}{incident.uuid}"))
        until(lambda: runs.now("inst2.lab") == ["node3.lab"])
        assert lab.nodes_of("inst2.lab")[0] == "node3.lab"
    assert ignores_consistency(lab) == []


def really_stopped(lab: MaintainedLab) -> None:
    """The node has lost its power; for the test, its agent is still there."""
    lab.end_instances(NODE)
    lab.storage("power-off", node=NODE)


def test_what_runs_on_without_its_noded_is_not_started_elsewhere(
    maintained: MaintainedLab, runs: Runs
) -> None:
    lab = maintained
    lab.place(EXT, DRBD)
    lab.report(NODE, FAILOVER)
    with isolated(lab, NODE, "inst2.lab"), lab.daemon():
        incident = lab.incident(NODE)
        says(lab, NODE, f"{STOPPED}{incident.uuid}", "power")
        here = {NODE}
        during(ROUNDS, lambda: runs.nodes("inst1.lab") == runs.nodes("inst2.lab") == here, lab)
        assert lab.running(NODE) == {"inst1.lab", "inst2.lab"}
        assert lab.incident(NODE).active, lab.incident(NODE).note
        really_stopped(lab)
        lab.do(tagged("node", NODE, f"{STOPPED}{incident.uuid}"))
        until(lambda: runs.now("inst1.lab") in (["node1.lab"], ["node3.lab"]))
        until(lambda: lab.nodes_of("inst1.lab") == runs.now("inst1.lab"))


@pytest.mark.thorough
def test_noded_ends_between_the_report_and_the_failover(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """What was planned while the node answered is not done when it does not any more."""
    lab = maintained
    lab.place(EXT, DRBD)
    with lab.daemon(), lab.held_jobs("OP_INSTANCE_FAILOVER"):
        lab.report(NODE, FAILOVER)
        until(lambda: "move" in lab.open_steps())
        lab.stop_noded(NODE)
    try:
        with lab.daemon():
            incident = lab.incident(NODE)
            says(lab, NODE, f"{STOPPED}{incident.uuid}")
            during(ROUNDS, lambda: runs.nodes("inst1.lab") | runs.nodes("inst2.lab") == {NODE}, lab)
    finally:
        lab.power_on(NODE)


def test_the_node_is_powered_off_first(maintained: MaintainedLab, runs: Runs) -> None:
    lab = maintained
    lab.place(EXT)
    lab.report(NODE, FAILOVER)
    with power_program(lab), without_noded(lab, NODE), lab.daemon(FENCING):
        until(lambda: runs.now("inst1.lab") in (["node1.lab"], ["node3.lab"]))
        incident = lab.incident(NODE)
    ran = lab.operations(incident)
    powers = [at for at, name in enumerate(ran) if name == "OP_OOB_COMMAND"]
    commands = oob(lab)
    assert (commands[0], commands[-1]) == ("power-off", "power-status")
    assert {*commands} == {"power-off", "power-status"}
    assert powers[-1] < ran.index("OP_INSTANCE_FAILOVER")


@pytest.mark.parametrize("how", ["lie", "fail", "hang"][: often(1, 3)])
def test_a_power_program_that_does_not_do_it(
    maintained: MaintainedLab, runs: Runs, how: str
) -> None:
    """Its success is no proof, only the status after it."""
    lab = maintained
    lab.place(EXT)
    lab.report(NODE, FAILOVER)
    with power_program(lab) as folder, without_noded(lab, NODE):
        (folder / NODE).write_text(f"{how}\n")
        with lab.daemon(FENCING):
            until(lambda: "power-off" in oob(lab))
            incident = lab.incident(NODE)
            says(lab, NODE, f"{STOPPED}{incident.uuid}")
            during(ROUNDS, lambda: runs.nodes("inst1.lab") == {NODE}, lab)
        assert "OP_INSTANCE_FAILOVER" not in lab.operations(incident)


@pytest.mark.thorough
def test_the_power_goes_later_than_the_answer(maintained: MaintainedLab, runs: Runs) -> None:
    lab = maintained
    lab.place(EXT)
    lab.report(NODE, FAILOVER)
    with power_program(lab) as folder, without_noded(lab, NODE):
        (folder / NODE).write_text("late\n")
        with lab.daemon(FENCING):
            until(lambda: runs.now("inst1.lab") in (["node1.lab"], ["node3.lab"]))


def oob(lab: MaintainedLab) -> list[str]:
    """The commands of Ganeti's out-of-band program that the daemon's jobs ran, in order."""
    rows = sorted((int(number), ops) for number, ops in lab.rows("job", "id", "ops"))
    known = {job for incident in lab.incidents.values() for job in incident.jobs}
    return [
        one["command"]
        for number, ops in rows
        for one in ops
        if number in known and one["OP_ID"] == "OP_OOB_COMMAND"
    ]


HAREP: Final = """
failover-unsynced = true
routine = ["harep"]
[harep]
iallocator = "hail"
job-delay = 1
disk-check-interval = 0
"""


@pytest.mark.thorough
def test_harep_work_starts_nothing_twice(maintained: MaintainedLab, runs: Runs) -> None:
    """An admin has set a node offline on which instances run on; the tag names the node's uuid."""
    lab = maintained
    lab.place(DRBD)
    lab.do(tagged("instance", "inst2.lab", "ganeti:watcher:autorepair:failover"))
    role = op("NODE_SET_PARAMS", node_name=NODE, auto_promote=True)
    (uuid,) = lab.node(NODE, "uuid")
    with isolated(lab, NODE, "inst2.lab"):
        lab.do({**role, "offline": True})
        with lab.daemon(HAREP):
            says(lab, "inst2.lab", f"{STOPPED}{uuid}")
            time.sleep(ROUNDS)
            assert runs.nodes("inst2.lab") == {NODE}
            really_stopped(lab)
            lab.do(tagged("node", NODE, f"{STOPPED}{uuid}"))
            until(lambda: runs.now("inst2.lab") == ["node3.lab"])
