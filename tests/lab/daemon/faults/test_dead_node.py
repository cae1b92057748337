"""A node loses its power without a report: what is noted, what is a proof, what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
from ..maintained_lab import MaintainedLab
from ..node_files import FENCING
from .breaking import power_program
from .findings import all_well, during, ignores_consistency, says
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


@contextmanager
def unreachable(lab: MaintainedLab, node: str) -> Iterator[None]:
    """Nothing reaches the address of a node; what runs there goes on."""
    (address,) = lab.node(node, "pip")
    found = lab.on(lab.master, "ip", "-o", "-4", "addr", "show").splitlines()
    (device,) = {line.split()[1] for line in found if f" {address}/" in line}
    lab.on(lab.master, "ip", "addr", "del", f"{address}/24", "dev", device)
    try:
        yield
    finally:
        lab.on(lab.master, "ip", "addr", "add", f"{address}/24", "dev", device)


@contextmanager
def without_power(lab: MaintainedLab, node: str) -> Iterator[None]:
    """A node is off; it and its agent run again at the end."""
    with power_program(lab) as folder:
        lab.on(lab.master, str(folder / "oob"), "power-off", node)
        with unreachable(lab, node):
            yield


def test_a_dead_node_is_switched_off_and_its_instances_come_back(
    maintained: MaintainedLab, runs: Runs
) -> None:
    lab = maintained
    lab.place(EXT)
    with lab.daemon(f"{SETTINGS}{FENCING}"), without_power(lab, NODE):
        until(lambda: runs.now("inst1.lab") not in ([], [NODE]))
        incident = lab.ended(NODE, COMPLETED)
        assert incident.action == DEAD
        ran = lab.operations(incident)
        assert ran[:4] == [
            *["OP_OOB_COMMAND"] * 2,
            "OP_NODE_SET_PARAMS",
            FAILOVER,
        ]
        assert lab.node(NODE, "offline") == [True]


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
            until(lambda: "OP_OOB_COMMAND" in lab.operations(lab.incident(NODE)))
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
        until(lambda: runs.now("inst1.lab") not in ([], [NODE]))
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
