"""Random histories: roles of nodes, jobs that end in any way, tag jobs that fail, lost rounds."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest
from harep_worlds import AT, one_instance, plans
from thorough import seeds
from worlds import SECOND

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.config import Harep
from ganeti_steward.plugins.maintenance.harep.health import TYPE_OF
from ganeti_steward.plugins.maintenance.harep.tags import (
    PENDING,
    PREFIX,
    read_marks,
    repair_state_of,
)
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import TAG, Task

_SETTINGS: Final = Harep(job_delay=0, replace_after=50)
_ROLES: Final = ({}, {}, {"drained": True}, {"offline": True})
_ENDS: Final = ("success", "success", "success", "error", "canceled")


class _History:
    """One instance, its tags and the job queue."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = AT
        self.tags = {"reinstall"}
        self.jobs: dict[int, RoutineJob] = {}
        self.tasks: dict[int, tuple[Task, list[dict[str, Any]]]] = {}
        self.disks: DiskHealth | None = None
        self.named: set[int] = set()
        """the jobs that some tag has named"""
        self.roles: list[dict[str, bool]] = [{}, {}]

    def world(self) -> Any:
        named = {n for one in read_marks(map(PREFIX.__add__, self.tags)) for n in one.mark.jobs}
        return one_instance(
            tuple(self.tags),
            primary=self.roles[0],
            secondary=self.roles[1],
            seconds=self.now,
            routine=tuple(self.jobs.values()),
            disks={"i1": self.disks} if self.disks else {},
        )._replace(tagged_jobs={n: self.state(n) for n in named})

    def state(self, number: int) -> JobState:
        return (
            JobState(number, self.jobs[number].status)
            if number in self.jobs
            else JobState.lost(number)
        )

    def outside(self) -> None:
        """Time passes: jobs end, nodes change, disks degrade."""
        self.now += self.random.randint(1, 40)
        for number, job in [*self.jobs.items()]:
            if job.open and self.random.random() < 0.6:
                self.end_task(number, self.random.choice(_ENDS))
        if self.random.random() < 0.2:
            self.roles[self.random.randrange(2)] = dict(self.random.choice(_ROLES))
        if self.random.random() < 0.2:
            failed = [tag for tag in self.tags if ":failure:" in tag]
            self.tags.difference_update(failed)

    def end_task(self, number: int, status: str) -> None:
        """A job ends, and with it those of its task: the last ones depend on the first."""
        task, _ = self.tasks[number]
        for other, (one, _) in self.tasks.items():
            if one is task and self.jobs[other].open:
                self.end(other, status)

    def end(self, number: int, status: str) -> None:
        task, job = self.tasks[number]
        done = self.jobs[number]._replace(status=status, ended=self.now * SECOND)
        self.jobs[number] = done
        if status != "success":
            return
        for operation in job:
            ends = {tag.removeprefix(PREFIX) for tag in operation.get("tags", ())}
            if operation["OP_ID"] == "OP_TAGS_SET":
                self.tags |= ends
                marks = read_marks(operation["tags"])
                self.named |= {number for one in marks for number in one.mark.jobs}
            elif operation["OP_ID"] == "OP_TAGS_DEL":
                self.tags -= ends
        if task.step == "check-disks":
            faults = ("disk/0 is faulty on n2",) if self.random.random() < 0.5 else ()
            self.disks = DiskHealth(done.submitted, faults)

    def round(self) -> None:
        for task in plans(self.world(), _SETTINGS):
            if not isinstance(task, Task) or (task.instances and self.open_repairs()):
                # The step holds what another task uses.
                continue
            if task.step in TYPE_OF:
                assert self.repairs() <= self.named, "a repair without a tag is forgotten"
            for job in task.jobs:
                number = len(self.tasks) + 1
                at = self.now * SECOND
                self.tasks[number] = task, list(job)
                names = tuple(sorted(task.nodes)), tuple(task.instances)
                made = RoutineJob(number, "harep", task.step, task.subject, *names, submitted=at)
                self.jobs[number] = made._replace(status="queued")

    def repairs(self) -> set[int]:
        return {n for n, job in self.jobs.items() if job.step in TYPE_OF}

    def open_repairs(self) -> list[int]:
        return [n for n, job in self.jobs.items() if job.open and job.step in TYPE_OF]

    def settle(self) -> None:
        """All jobs end well, nodes are fine, and nothing degrades any more."""
        self.roles = [{}, {}]
        for _ in range(40):
            self.now += 1000
            for number, job in [*self.jobs.items()]:
                if job.open:
                    self.end(number, "success")
            self.disks = DiskHealth(self.now * SECOND)
            self.round()


@pytest.mark.parametrize("seed", seeds(10, 400))
def test_repairs_and_their_tags(seed: int) -> None:
    history = _History(seed)
    for _ in range(60):
        history.outside()
        if history.random.random() < 0.8:
            history.round()
        assert len(history.open_repairs()) <= 1
        # It raises where harep would end.
        repair_state_of([PREFIX + tag for tag in history.tags])
    history.settle()
    found = repair_state_of([PREFIX + tag for tag in history.tags])
    assert found.status != PENDING
    assert len(found.outdated) <= 1
    steps = [task.step for task, _ in history.tasks.values()]
    assert TAG in steps or not TYPE_OF.keys() & {*steps}
