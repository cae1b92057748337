"""The jobs of routine work in the simulated queue, and the disks that they checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ganeti_steward.core.maintenance.disks import DiskHealth
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted
from ganeti_steward.plugins.maintenance.routine.disk_check import CHECK_DISKS, read_check
from ganeti_steward.plugins.maintenance.routine.jobs import RECENT, Seen


class RoutineLog:
    """Knows a job from its submission until an hour after its end, as the daemon does."""

    def __init__(self) -> None:
        self._jobs: dict[int, RoutineJob] = {}

    def add(self, number: int, started: RoutineStarted, copied: int, now: int) -> None:
        """A job of a task was submitted that copies so many MiB; ``now``: ns since the epoch."""
        task = started.task
        self._jobs[number] = RoutineJob(
            number,
            started.plugin,
            task.step,
            task.subject,
            tuple(sorted(task.nodes)),
            tuple(sorted(task.instances)),
            copied,
            now,
        )

    def seen(self, now: int, state: Callable[[int], JobState], ends: Mapping[int, int]) -> Seen:
        """What is known now; ``ends``: number -> when a job ended; all times ns since the epoch."""
        disks: dict[str, DiskHealth] = {}
        found = []
        for one in self._jobs.values():
            current, ended = state(one.number), ends.get(one.number, 0)
            job = one._replace(status=current.status, error=current.error, ended=ended)
            if not job.open and now - ended >= RECENT:
                continue
            found.append(job)
            if job.step == CHECK_DISKS and job.status == SUCCESS:
                disks |= read_check(current.results, job.submitted)
        self._jobs = {one.number: one for one in found}
        return Seen(tuple(found), disks=disks)
