"""Ganeti's own watcher starts an instance that crashes, and gives up; the daemon only says so."""

from __future__ import annotations

from typing import Final

from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason

from ..cluster import until
from .faults.findings import lacking, says, status
from .maintained_lab import MaintainedLab

NODE: Final = "node2.lab"
NAME: Final = "inst1.lab"
#: Starts after which the watcher gives up an instance that stays down.
TRIES: Final = 5


def test_the_watcher_starts_what_has_crashed(maintained: MaintainedLab) -> None:
    lab, before = maintained, max(maintained.jobs(), default=0)
    lab.place((NAME, "drbd", f"{NODE}:node3.lab"))
    crash(lab)
    assert lacking(plan(lab), (f"{NAME} is down though {NODE} answers", "has not started it")) == []
    lab.ok("gnt-cluster watcher pause 1h")
    assert "ganeti-watcher, which would start it, is paused until 20" in plan(lab)
    lab.ok("gnt-cluster watcher continue")
    watch(lab)
    assert lab.running(NODE) == {NAME}
    assert f"{NAME} is down" not in plan(lab)
    with lab.daemon('routine = ["harep", "rebalance"]\nround-interval = 1'):
        for _ in range(TRIES - 1):
            crash(lab)
            watch(lab)
        crash(lab)
        says(lab, "(crash-loop) inst1.lab:", f"has started it {TRIES} times since", "console")
        watch(lab)
        log = lab.directory / "nodes" / lab.master / "var-log-ganeti/watcher.log"
        assert f"'{NAME}' after {TRIES} attempts, giving up" in log.read_text()
        assert lab.running(NODE) == set()
        lab.ok(f"gnt-instance startup {NAME}")
        until(lambda: "crash-loop" not in status(lab))
    assert len(starts(lab, before)) == TRIES
    assert lab.incidents == {}
    assert lab.nodes_of(NAME) == [NODE, "node3.lab"]
    jobs = jobs_with_reason(lab.luxi, "gnt:daemon:maintd", after=before)
    touched = {name for job in jobs if job.instances for name in job.operations}
    assert touched <= {"OP_INSTANCE_QUERY_DATA"}


def plan(lab: MaintainedLab) -> str:
    """What ``maintd plan`` prints, in one line."""
    return " ".join(lab.steward("maintd", "plan").stdout.split())


def crash(lab: MaintainedLab) -> None:
    """The process of the instance ends without Ganeti."""
    assert lab.running(NODE) == {NAME}
    lab.end_instances(NODE)
    assert lab.rows("instance", "name", "status") == [[NAME, "ERROR_down"]]


def watch(lab: MaintainedLab) -> None:
    """Ganeti's watcher runs once, as cron has it run, for the node group of the instance."""
    ((group,),) = lab.rows("instance", "pnode.group.uuid")
    lab.on(lab.master, "ganeti-watcher", "--node-group", group, "--no-verify-disks")


def starts(lab: MaintainedLab, before: int) -> list[int]:
    """The watcher's jobs after that one which start the instance."""
    found = jobs_with_reason(lab.luxi, "gnt:watcher", after=before)
    return [one.number for one in found if one.operations == ("OP_INSTANCE_STARTUP",)]
