"""An uneven cluster is evened out in rounds, with an incident that arrives in the middle."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Final

import pytest

from ganeti_steward.core.model.job_state import FINAL
from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason
from ganeti_steward.plugins.maintenance.queue.submit import read_trail
from ganeti_steward.plugins.model.incident import COMPLETED
from ganeti_steward.plugins.model.routine import ROUTINE_SOURCE, RoutineJob

from ..cluster import op, until
from .maintained_lab import WITH_AGENT, MaintainedLab, signal_program
from .node_files import EVACUATE

pytestmark = pytest.mark.thorough

#: MiB that the disk of one instance takes on a node.
DISK = 640
BALANCING = """
routine = ["rebalance"]
[rebalance]
threshold = 0.05
min-gain = 0.1
hold-time = 0
copy-per-hour = {ceiling}
"""
#: GiB: one disk.
CEILING = 0.7
#: Nothing is left to do for the group; the other one is even from the start.
ENDS: Final = re.compile(r"no move gain|the score is not above the threshold of [^\"]*rack2 ")


def routine(lab: MaintainedLab) -> dict[int, tuple[RoutineJob, str]]:
    """Number -> job of routine work and its status."""
    jobs = jobs_with_reason(lab.luxi, ROUTINE_SOURCE)
    return {job.number: (found, job.status) for job in jobs if (found := read_trail(job))}


def copied(lab: MaintainedLab) -> int:
    """MiB."""
    return sum(job.copied for job, status in routine(lab).values() if status != "canceled")


def unfinished(lab: MaintainedLab) -> bool:
    """Whether a job of routine work has not ended."""
    return any(status not in FINAL for _, status in routine(lab).values())


def held(lab: MaintainedLab) -> str:
    """Everything that the daemon holds back now."""
    done = lab.steward("maintd", "status", "--json")
    return done.stdout if done.returncode == 0 else ""


@pytest.fixture
def larger_group(maintained: MaintainedLab) -> Iterator[MaintainedLab]:
    """A lab with five nodes in one group."""

    def assign(group: str) -> None:
        moved = op("GROUP_ASSIGN_NODES", group_name=group, nodes=["node2.lab", "node3.lab"])
        maintained.do({**moved, "force": True})

    assign("rack2")
    yield maintained
    maintained.reset()
    assign("default")


def test_repairs_first_then_balancing_within_its_ceiling(larger_group: MaintainedLab) -> None:
    lab, pairs = larger_group, ("node4.lab:node5.lab", "node5.lab:node4.lab")
    lab.place(*((f"inst{k}.lab", "drbd", pairs[k % 2]) for k in range(4)))
    with lab.daemon(BALANCING.format(ceiling=CEILING)) as daemon:
        with lab.held_jobs("OP_INSTANCE_REPLACE_DISKS"):
            until(lambda: bool(routine(lab)))
            # All instances have the same two nodes: one job at a time.
            ((first, _),) = routine(lab).values()
            ill = min({*first.nodes} & {*WITH_AGENT})
            # The repair goes first: the job makes way.
            lab.report(ill, EVACUATE)
            until(lambda: lab.node(ill, "drained") == [True])
            assert routine(lab)[first.number][1] == "canceled"
        incident = lab.ended(ill, COMPLETED)
        # Balancing goes on, off that node, and no further than the ceiling.
        until(lambda: "GiB were copied within the last hour" in held(lab))
        assert DISK <= copied(lab) <= CEILING * 1024
        begun = [job for job, _ in routine(lab).values() if job.number != first.number]
        assert all(ill not in job.nodes for job in begun), begun
        plan = lab.steward("maintd", "plan").stdout
        assert "at most 0.7 GiB are copied in an hour" in plan
        # Without a ceiling it comes to its end.
        lab.configure_daemon(BALANCING.format(ceiling=0))
        signal_program(daemon, signal.SIGHUP)
        until(lambda: bool(ENDS.search(held(lab))) and not unfinished(lab))
    assert copied(lab) > CEILING * 1024
    found = routine(lab)
    assert {status for _, status in found.values()} == {"success", "canceled"}
    assert min(incident.jobs) < max(found)
    hbal = lab.ok("hbal -L -G rack2 -g 0.1 --min-gain-limit=1000 -C")
    assert "gnt-instance" not in hbal.text, hbal.text
