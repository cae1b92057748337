"""A node loses its power without a report: what is noted, what is a proof, what comes back."""

from __future__ import annotations

from typing import Final

import pytest
from thorough import often

from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    DEAD,
    FAILED,
    NOTED,
    RESTART_FIRST,
    RESTART_NEVER,
)

from ...cluster import tagged, until
from ...drbd_lab import NODES
from ..maintained_lab import MaintainedLab
from ..node_files import FENCING
from .breaking import power_program, unreachable, without_power
from .findings import all_well, during, ignores_consistency, says, witnessed
from .watched import Runs

NODE: Final = "node2.lab"
ROUNDS: Final = 12
EXT: Final = ("inst1.lab", "ext", NODE)
#: The operation that starts an instance of a node that is off elsewhere.
FAILOVER: Final = "OP_INSTANCE_FAILOVER"
OTHER: Final = ("inst3.lab", "ext", NODE)
KEPT: Final = ("inst4.lab", "ext", NODE)
DRBD: Final = ("inst2.lab", "drbd", f"{NODE}:node3.lab")
SETTINGS: Final = "dead-after = 5\n"
#: So that the state of the copies is known.
CHECKS: Final = """
routine = ["check-disks"]
disk-check-interval = 2
"""


def comes_back(lab: MaintainedLab, runs: Runs, instance: str) -> None:
    """Wait until an instance runs on another node."""
    witnessed(lab, NODE, lambda: runs.now(instance) not in ([], [NODE]))


def test_a_dead_node_is_switched_off_and_its_instances_come_back(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """Ganeti's watcher starts nothing on the node when it is on again."""
    lab = maintained
    lab.place(EXT)
    with lab.daemon(f"{SETTINGS}{FENCING}"), without_power(lab, NODE):
        comes_back(lab, runs, "inst1.lab")
        incident = lab.ended(NODE, COMPLETED)
        assert incident.action == DEAD
        ran = lab.operations(incident)
        assert ran[:4] == [
            *["OP_OOB_COMMAND"] * 2,
            "OP_NODE_SET_PARAMS",
            FAILOVER,
        ]
        assert lab.node(NODE, "offline") == [True]
    ended = len(lab.jobs())
    lab.on(lab.master, "ganeti-watcher", "--ignore-pause", "--wait-children")
    assert (lab.node(NODE, "offline"), lab.running(NODE), len(lab.jobs())) == ([True], set(), ended)


def test_a_person_permits_that_it_is_switched_off(maintained: MaintainedLab, runs: Runs) -> None:
    lab = maintained
    lab.place(EXT)
    with lab.daemon(f'{SETTINGS}fence = "confirm"'), without_power(lab, NODE):
        says(lab, "gnt-steward incident fence", "permits it")
        during(ROUNDS, lambda: runs.now("inst1.lab") == [], lab)
        assert "OP_OOB_COMMAND" not in lab.operations(lab.incident(NODE))
        assert lab.steward("incident", "fence", NODE).returncode == 0
        comes_back(lab, runs, "inst1.lab")
        lab.ended(NODE, COMPLETED)


def test_a_daemon_that_is_cut_off_switches_nothing_off(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """Half of the nodes are silent for the master: their instances run on, and only there."""
    lab, others = maintained, NODES[3:]
    placed = {f"inst{at}.lab": node for at, node in enumerate(others, 1)}
    lab.place(*((name, "ext", node) for name, node in placed.items()))
    with power_program(lab), lab.daemon(f"{SETTINGS}{FENCING}"):
        with unreachable(lab, *others):
            says(lab, f"nothing of {', '.join(others)} answers: this node or a network")
            during(
                ROUNDS,
                lambda: all(runs.nodes(name) == {node} for name, node in placed.items()),
                lab,
            )
        assert lab.incidents == {}
        assert all_well(lab, runs) == {}


@pytest.mark.parametrize("how", ["lie", "fail", "hang"][: often(1, 3)])
def test_a_cut_off_node_that_cannot_be_switched_off_keeps_its_instances(
    maintained: MaintainedLab, runs: Runs, how: str
) -> None:
    """Whatever the out-of-band program answers, the status after it is the proof."""
    lab = maintained
    lab.place(EXT)
    with power_program(lab) as folder, unreachable(lab, NODE):
        (folder / NODE).write_text(f"{how}\n")
        with lab.daemon(f"{SETTINGS}{FENCING}"):
            witnessed(lab, NODE, lambda: "OP_OOB_COMMAND" in lab.operations(lab.incident(NODE)))
            incident = lab.incident(NODE)
            says(lab, NODE, incident.stopped_tag)
            during(ROUNDS, lambda: runs.nodes("inst1.lab") == {NODE}, lab)
        # It tries again now and then; the program must not do it when the test is over.
        until(lambda: {*map(tuple, lab.rows("job", "status"))} <= {("success",), ("error",)})
        assert FAILOVER not in lab.operations(incident)


def test_the_first_to_come_back_take_the_room(maintained: MaintainedLab, runs: Runs) -> None:
    """By tags; one that is to stay down is named."""
    lab = maintained
    lab.place(EXT, OTHER, KEPT)
    lab.do(
        tagged("instance", "inst3.lab", RESTART_FIRST),
        tagged("instance", "inst4.lab", RESTART_NEVER),
    )
    with lab.daemon(f"{SETTINGS}{FENCING}moves-at-once = 1"), without_power(lab, NODE):
        comes_back(lab, runs, "inst1.lab")
        incident = lab.ended(NODE, FAILED)
        assert RESTART_NEVER in incident.note
    rows = sorted((int(number), ops) for number, ops in lab.rows("job", "id", "ops"))
    mine = [one for number, ops in rows for one in ops if number in incident.jobs]
    over = [one["instance_name"] for one in mine if one["OP_ID"] == FAILOVER]
    assert over == ["inst3.lab", "inst1.lab"]


def test_a_dead_node_waits_for_a_person(maintained: MaintainedLab, runs: Runs) -> None:
    """The drbd instance comes back, too: the last check found both copies in sync."""
    lab = maintained
    lab.place(EXT, DRBD)
    with lab.daemon(f"{SETTINGS}{CHECKS}"):
        until(lambda: "OP_INSTANCE_QUERY_DATA" in str(lab.rows("job", "ops")))
        with without_power(lab, NODE):
            says(lab, "2 instances are down with it: inst1.lab, inst2.lab", "power status")
            incident = lab.incident(NODE)
            assert (incident.action, incident.status) == (DEAD, NOTED)
            during(ROUNDS, lambda: runs.now("inst1.lab") == runs.now("inst2.lab") == [], lab)
            lab.do(tagged("node", NODE, incident.stopped_tag))
            until(lambda: runs.now("inst2.lab") == ["node3.lab"])
            until(lambda: runs.now("inst1.lab") not in ([], [NODE]))
            assert ignores_consistency(lab) == []


def test_a_node_that_is_only_cut_off_runs_on(maintained: MaintainedLab, runs: Runs) -> None:
    lab = maintained
    lab.place(EXT)
    with lab.daemon(SETTINGS):
        with unreachable(lab, NODE):
            says(lab, "1 instance is down with it: inst1.lab")
            during(ROUNDS, lambda: runs.nodes("inst1.lab") == {NODE}, lab)
        until(lambda: not lab.incidents)
        assert runs.nodes("inst1.lab") == {NODE}
    assert all_well(lab, runs) == {}


#: Operations after which the node comes back: it was just switched off, it is offline, an instance
#: starts elsewhere.
PHASES: Final = ("OP_OOB_COMMAND", "OP_NODE_SET_PARAMS", FAILOVER)


@pytest.mark.parametrize("phase", PHASES[: often(1, 3)])
def test_it_comes_back_in_the_middle(maintained: MaintainedLab, runs: Runs, phase: str) -> None:
    """Whatever becomes of the incident: nothing runs twice, and what is down is named."""
    lab = maintained
    lab.place(EXT, OTHER)
    with lab.daemon(f"{SETTINGS}{FENCING}moves-at-once = 1"):
        with without_power(lab, NODE):
            witnessed(lab, NODE, lambda: phase in lab.operations(lab.incident(NODE)), every=0.1)
        until(lambda: all(not one.active and not one.open for one in lab.incidents.values()))
        incident = lab.incident(NODE)
    lab.on(lab.master, "ganeti-watcher", "--ignore-pause", "--wait-children")
    for name in ("inst1.lab", "inst3.lab"):
        assert len(runs.now(name)) == 1 or name in incident.note, incident
