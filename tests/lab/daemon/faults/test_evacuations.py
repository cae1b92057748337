"""An evacuation meets degraded disks, busy neighbours, a small group and a Ganeti that breaks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import pytest
from thorough import often

from ganeti_steward.plugins.model.incident import COMPLETED, FAILED

from ...cluster import until
from ..maintained_lab import MaintainedLab
from ..node_files import EVACUATE, FAILOVER, OK, REPAIR
from .breaking import (
    ARRIVE,
    ARRIVED,
    TRANSFER,
    held_job,
    in_group,
    kill_daemon,
    migrations,
    no_targets,
    start_daemon,
)
from .findings import (
    all_well,
    data,
    during,
    ids,
    ignores_consistency,
    operations,
    says,
)
from .watched import Runs

NODE: Final = "node2.lab"
MOVES: Final = ("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER", "OP_INSTANCE_REPLACE_DISKS")
SIX: Final = (
    ("inst1.lab", "drbd", f"{NODE}:node3.lab"),
    ("inst2.lab", "drbd", f"{NODE}:node3.lab"),
    ("inst3.lab", "sharedfile", NODE),
    ("inst4.lab", "ext", NODE),
    ("inst5.lab", "diskless", NODE),
    ("inst6.lab", "diskless", NODE),
)


def test_one_degraded_instance_does_not_keep_the_others(
    maintained: MaintainedLab, runs: Runs
) -> None:
    """Five leave; the sixth gets another secondary and leaves as well, or it is named."""
    lab, name = maintained, "inst1.lab"
    lab.place(*SIX)
    lab.storage("cut", name, node=NODE)
    new = data(lab, name)[NODE]
    lab.report(NODE, EVACUATE)
    with lab.daemon():
        until(lambda: any(one.tagged for one in lab.incidents.values()))
    incident = lab.incident(NODE)
    left = lab.node(NODE, "pinst_list")[0]
    named = [one for one, _ in incident.unmovable]
    assert (incident.status, left, named) in (
        (COMPLETED, [], []),
        (FAILED, [name], [name]),
    ), incident.note
    assert lab.node(NODE, "offline") == [not left]
    assert data(lab, name)[lab.nodes_of(name)[0]] == new
    assert all_well(lab, runs) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("report", [EVACUATE, FAILOVER])
def test_what_nothing_helps_is_tried_and_named(
    maintained: MaintainedLab, runs: Runs, report: Mapping[str, Any]
) -> None:
    """There is no third node for another copy, and the link stays down."""
    lab, name = maintained, "inst1.lab"
    lab.place(SIX[0], *SIX[2:])
    lab.storage("cut", name, node="node3.lab")
    lab.report(NODE, report)
    with no_targets(lab, "node1.lab"):
        with lab.daemon("move-attempts = 2"):
            incident = lab.ended(NODE, FAILED)
        assert [one for one, _ in incident.unmovable] == [name]
        assert lab.node(NODE, "pinst_list", "offline") == [[name], False]
        tried = ids(operations(lab, incident, name))
        assert "OP_INSTANCE_ACTIVATE_DISKS" in tried
        assert sum(one in MOVES for one in tried) <= 2
        assert ignores_consistency(lab) == []
        assert all_well(lab, runs) == {}


@pytest.mark.thorough
def test_degraded_disks_are_activated_and_then_it_leaves(
    maintained: MaintainedLab, runs: Runs
) -> None:
    lab, name = maintained, "inst1.lab"
    lab.place(*SIX[:3])
    lab.storage("disconnect", name, node=NODE)
    new = data(lab, name)[NODE]
    lab.storage("sync-time", "3")
    lab.report(NODE, EVACUATE)
    with lab.daemon():
        incident = lab.ended(NODE, COMPLETED)
    assert "OP_INSTANCE_ACTIVATE_DISKS" in ids(operations(lab, incident, name))
    assert {data(lab, name)[node] for node in lab.nodes_of(name)} == {new}
    assert lab.node(NODE, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
    assert all_well(lab, runs) == {}


@pytest.mark.thorough
def test_it_waits_for_a_neighbour_that_is_repaired(maintained: MaintainedLab) -> None:
    """The only target is in a repair that does not last long."""
    lab, target = maintained, "node3.lab"
    lab.place(("inst3.lab", "sharedfile", NODE))
    lab.repair_status(target, 0)
    with no_targets(lab, "node1.lab"), lab.daemon("most-nodes = 2"):
        with lab.held_repair(target):
            lab.report(target, REPAIR)
            until(lambda: lab.repaired(target))
            lab.report(NODE, EVACUATE)
            until(lambda: lab.node(NODE, "drained") == [True])
            says(lab, "inst3.lab", target)
            during(8, lambda: lab.incident(NODE).active, lab)
        lab.ended(target, COMPLETED)
        lab.report(target, OK)
        lab.ended(NODE, COMPLETED)
        assert lab.nodes_of("inst3.lab") == [target]


@pytest.mark.thorough
def test_it_waits_for_a_false_alarm_to_pass(maintained: MaintainedLab) -> None:
    """The only target reported a fault once, and not for as long as a fault has to be there."""
    lab, target = maintained, "node3.lab"
    lab.place(("inst3.lab", "sharedfile", NODE))
    with no_targets(lab, "node1.lab"), lab.daemon("hold-time = 15"):
        lab.report(NODE, EVACUATE)
        lab.incident(NODE)
        time.sleep(8)
        lab.report(target, EVACUATE)
        lab.incident(target)
        until(lambda: lab.node(NODE, "drained") == [True])
        during(4, lambda: lab.incident(NODE).active, lab)
        lab.report(target, OK)
        lab.ended(NODE, COMPLETED)
        assert lab.nodes_of("inst3.lab") == [target]


@pytest.mark.thorough
def test_a_group_of_two_nodes(maintained: MaintainedLab, runs: Runs) -> None:
    """The primaries go to the other node; there is no third one for the copies."""
    lab, node, other = maintained, "node6.lab", "node5.lab"
    with in_group(lab, "pair", other, node):
        lab.place(
            ("inst1.lab", "drbd", f"{node}:{other}"),
            ("inst2.lab", "drbd", f"{other}:{node}"),
            ("inst3.lab", "sharedfile", node),
        )
        lab.report(node, EVACUATE)
        with lab.daemon():
            incident = lab.ended(node, COMPLETED)
        assert lab.node(node, "drained", "offline", "pinst_cnt") == [True, False, 0]
        assert lab.nodes_of("inst1.lab") == lab.nodes_of("inst2.lab") == [other, node]
        sentence = f"{incident.note} {incident.unmovable}"
        assert all(word in sentence for word in ("inst1.lab", "inst2.lab", "cop")), sentence
        assert all_well(lab, runs) == {}


@pytest.mark.parametrize("point", [ARRIVED, ARRIVE, TRANSFER][: often(1, 3)])
def test_a_migration_that_was_cut_in_half_is_cleaned_up(
    maintained: MaintainedLab, runs: Runs, point: str
) -> None:
    """Where the instance is on its new node, a start on its primary would run it twice."""
    lab = maintained
    lab.place(*SIX[:2], SIX[3])
    where = ("node2.lab",) if point == TRANSFER else ("node1.lab", "node3.lab")
    with lab.daemon("moves-at-once = 1"):
        with migrations(lab, point, *where, fail=True):
            lab.report(NODE, EVACUATE)
            until(lambda: any(job.status == "error" for job in lab.jobs_of(lab.incident(NODE))))
        lab.ended(NODE, COMPLETED)
    assert lab.node(NODE, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
    assert ignores_consistency(lab) == []
    assert all_well(lab, runs) == {}


@pytest.mark.parametrize("name", ["wconfd", "luxid"][: often(1, 2)])
def test_a_daemon_of_ganeti_is_killed_during_moves(
    maintained: MaintainedLab, runs: Runs, name: str
) -> None:
    lab = maintained
    lab.place(*SIX[1:5])
    with lab.daemon():
        with migrations(lab, TRANSFER, NODE):
            lab.report(NODE, EVACUATE)
            held_job(lab, "OP_INSTANCE_MIGRATE")
            kill_daemon(lab, name)
            time.sleep(3)
            start_daemon(lab, name)
        lab.ended(NODE, COMPLETED, 400)
    assert lab.node(NODE, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
    assert all_well(lab, runs) == {}
