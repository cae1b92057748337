"""The daemon is killed, and another node becomes the master (``--thorough`` only)."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any, Final

from thorough import often

from ganeti_steward.core.maintenance.incident import COMPLETED, FAILED, Incident
from ganeti_steward.plugins.maintenance.edges.submit import SUBMISSION_SOURCE

from ..cluster import until
from .maintained_lab import MaintainedLab
from .node_files import EVACUATE, REPAIR

KILLS: Final = often(10, 40)


def submissions(lab: MaintainedLab, incident: Incident) -> list[str]:
    """The submission that each job of the incident belongs to."""
    return [
        found
        for job in lab.jobs_of(incident)
        for found in {
            reason.text for reason in job.reasons[0] if reason.source == SUBMISSION_SOURCE
        }
    ]


def moved(lab: MaintainedLab, incident: Incident) -> Counter[str]:
    """Instance -> the jobs of the incident that move it."""
    numbers = {job.number for job in lab.jobs_of(incident)}
    rows: list[Any] = [ops for number, ops in lab.rows("job", "id", "ops") if number in numbers]
    return Counter(ops[0]["instance_name"] for ops in rows if "instance_name" in ops[0])


def test_a_stopped_daemon_goes_on_where_the_cluster_is(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(*((f"inst{i}.lab", "sharedfile", node) for i in range(1, 5)))
    lab.report(node, EVACUATE)
    for step in ("drain", "move", "final-role"):
        with lab.daemon() as daemon:
            until(lambda step=step: step in lab.open_steps())  # type: ignore[misc]
            lab.kill(daemon)
    with lab.daemon():
        incident = lab.ended(node, COMPLETED)
    assert lab.operations(incident).count("OP_INSTANCE_MIGRATE") == 4
    assert lab.operations(incident).count("OP_NODE_SET_PARAMS") == 2
    assert lab.node(node, "offline", "pinst_cnt") == [True, 0]


def test_killed_at_random_moments(maintained: MaintainedLab) -> None:
    """No job twice, no incident lost, the end state right."""
    lab, rng, kills = maintained, random.Random(11), 0
    nodes, names = ("node2.lab", "node3.lab", "node6.lab"), [f"inst{i}.lab" for i in range(1, 7)]
    while kills < KILLS:
        lab.place(
            *((name, "diskless", "node2.lab") for name in names[:3]),
            *((name, "sharedfile", "node6.lab") for name in names[3:]),
        )
        lab.repair_status("node3.lab", 0)
        lab.report("node2.lab", EVACUATE)
        lab.report("node3.lab", REPAIR)
        lab.report("node6.lab", EVACUATE)
        more = "moves-at-once = 1\nmost-nodes = 3"
        while ended(lab) != set(nodes):
            with lab.daemon(more) as daemon:
                time.sleep(rng.uniform(0.3, 3))
                lab.kill(daemon)
                kills += 1
            assert kills < 4 * KILLS, lab.incidents
        with lab.daemon(more):
            until(lambda: all(one.tagged for one in lab.incidents.values()))
        found = {node: lab.incident(node) for node in nodes}
        check_jobs(lab, found, names)
        repair = found["node3.lab"]
        # Killed while the command ran: nothing is known about it, and it is not run again.
        assert (
            repair.status == COMPLETED or "whether lab-repair was run is not known" in repair.note
        )
        lab.reset()
    print(f"killed {kills} times")


def check_jobs(lab: MaintainedLab, found: dict[str, Incident], names: list[str]) -> None:
    """Each job was submitted once, and each instance moved once."""
    for incident in found.values():
        each = submissions(lab, incident)
        assert len(each) == len(set(each)) == len(lab.jobs_of(incident))
    for node, on_it in (("node2.lab", names[:3]), ("node6.lab", names[3:])):
        assert found[node].status == COMPLETED, found[node].note
        assert moved(lab, found[node]) == dict.fromkeys(on_it, 1)
        assert lab.node(node, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]


def ended(lab: MaintainedLab) -> set[str]:
    """The nodes whose incidents have ended."""
    return {one.node_name for one in lab.incidents.values() if one.status in (COMPLETED, FAILED)}


def test_another_node_becomes_the_master(maintained: MaintainedLab) -> None:
    """The old daemon ends by itself, the new one goes on where the cluster is."""
    lab, node = maintained, "node3.lab"
    lab.place(*((f"inst{i}.lab", "diskless", node) for i in range(1, 6)))
    lab.report(node, EVACUATE)
    with lab.daemon("moves-at-once = 1") as old:
        until(lambda: "move" in lab.open_steps())
        known = lab.incident(node)
        lab.fail_over("node2.lab")
        assert old.wait(300) == 11
    assert lab.incident(node).uuid == known.uuid
    with lab.daemon("moves-at-once = 1", node="node2.lab"):
        incident = lab.ended(node, COMPLETED)
    assert incident.uuid == known.uuid
    # What a job wrote just before the failover can be lost, then its instance is moved again.
    assert set(moved(lab, incident)) == {f"inst{i}.lab" for i in range(1, 6)}
    each = submissions(lab, incident)
    assert len(each) == len(set(each)) == len(lab.jobs_of(incident))
    assert lab.node(node, "offline", "pinst_cnt") == [True, 0]
    lab.fail_over("node1.lab")
