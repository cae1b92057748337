"""The same kind of scenarios as in test_evacuations, which take minutes."""

from __future__ import annotations

import time
from typing import Final

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED

from ...cluster import until
from ...drbd_lab import NODES
from ..maintained_lab import MaintainedLab
from ..node_files import EVACUATE
from .breaking import TRANSFER, held_job, in_group, kill_daemon, migrations, start_daemon
from .findings import all_well, data, ignores_consistency
from .watched import Runs

pytestmark = pytest.mark.thorough

NODE: Final = "node2.lab"


def test_wconfd_is_away_for_longer_than_jobs_try(maintained: MaintainedLab, runs: Runs) -> None:
    """Each of the jobs fails after its instance has arrived, so Ganeti has it on the old node."""
    lab = maintained
    lab.place(("inst1.lab", "drbd", f"{NODE}:node3.lab"), ("inst2.lab", "ext", NODE))
    with lab.daemon():
        with migrations(lab, TRANSFER, NODE):
            lab.report(NODE, EVACUATE)
            held_job(lab, "OP_INSTANCE_MIGRATE")
            kill_daemon(lab, "wconfd")
        time.sleep(70)
        start_daemon(lab, "wconfd")
        lab.ended(NODE, COMPLETED, 600)
    assert lab.node(NODE, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
    assert all_well(lab, runs) == {}


def test_another_node_becomes_the_master_in_the_middle_of_migrations(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """The incident goes on, and nothing is left in a state Ganeti calls an error."""
    lab, node = maintained, "node3.lab"
    lab.place(
        ("inst1.lab", "drbd", f"{node}:node1.lab"),
        ("inst2.lab", "drbd", f"{node}:{NODE}"),
        ("inst3.lab", "ext", node),
        ("inst4.lab", "sharedfile", node),
    )
    with lab.daemon() as old:
        with migrations(lab, TRANSFER, node):
            lab.report(node, EVACUATE)
            held_job(lab, "OP_INSTANCE_MIGRATE")
            lab.fail_over(NODE)
        assert old.wait(300) == 11
    try:
        with lab.daemon(node=NODE):
            lab.ended(node, COMPLETED, 900)
        assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
        assert ignores_consistency(lab) == []
        assert all_well(lab, runs) == {}
    finally:
        lab.fail_over("node1.lab")


CASCADE: Final = {
    "inst1.lab": ("node2.lab", "node5.lab"),
    "inst2.lab": ("node3.lab", "node2.lab"),
    "inst3.lab": ("node6.lab", "node3.lab"),
    "inst4.lab": ("node1.lab", "node6.lab"),
    "inst5.lab": ("node2.lab", "node4.lab"),
    "inst6.lab": ("node3.lab", "node5.lab"),
}


def test_a_cascade(maintained: MaintainedLab, runs: Runs) -> None:
    """Three nodes are ill within a minute and a fourth is dead: two are left for all copies."""
    lab, ill, left = maintained, ("node2.lab", "node3.lab", "node6.lab"), {"node1.lab", "node4.lab"}
    with in_group(lab, "default", *NODES):
        lab.place(*((name, "drbd", ":".join(nodes)) for name, nodes in CASCADE.items()))
        with lab.without_power("node5.lab"), lab.daemon("most-nodes = 3\nmost-waiting = 3"):
            for node in ill:
                lab.report(node, EVACUATE)
                time.sleep(15)
            for node in ill:
                lab.ended(node, COMPLETED, 900)
            assert {name: set(lab.nodes_of(name)) for name in CASCADE} == dict.fromkeys(
                CASCADE, left
            )
            assert two_good_copies(lab) == set(CASCADE)
            assert all_well(lab, runs) == {}
    until(lambda: lab.instances() == [])


def two_good_copies(lab: MaintainedLab) -> set[str]:
    """The instances with the same data on both of their nodes."""
    return {
        name
        for name in lab.instances()
        if len({data(lab, name).get(node) for node in lab.nodes_of(name)}) == 1
    }
