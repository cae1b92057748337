"""Ganeti's job queue over the simulated cluster, as the daemon's loop calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ganeti_steward.core.maintenance.disks import DiskHealth
from ganeti_steward.core.maintenance.incident import Incident, Submission
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.maintenance.daemon.parts import Store
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.queue.calls import Outcome
from ganeti_steward.plugins.maintenance.queue.orphans import Unrecorded
from ganeti_steward.plugins.maintenance.queue.submit import HandedOver, LookedUp, noted
from ganeti_steward.plugins.maintenance.repairs.disk_check import CHECK_DISKS, read_check
from ganeti_steward.plugins.maintenance.routine.jobs import RECENT, Seen, tagged_numbers
from ganeti_steward.plugins.maintenance.simulation.running_jobs import RunningJobs
from ganeti_steward.plugins.maintenance.simulation.schedule import Schedule
from ganeti_steward.plugins.maintenance.simulation.site import Site


class SimulatedQueue:
    """The part `Queue` of the daemon's loop."""

    def __init__(self, site: Site, store: Store, schedule: Schedule, jobs: RunningJobs) -> None:
        self._site, self._store, self._schedule, self._jobs = site, store, schedule, jobs
        self._routine = _RoutineLog()

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        """Take the jobs of all tasks, and record their numbers."""
        changed: dict[str, Incident] = {}
        for one in started:
            numbers = tuple(self._jobs.add(job) for job in one.task.jobs)
            before = changed.get(one.incident, incidents[one.incident])
            changed[one.incident] = noted(before, one.submission, numbers)
            self._store.write(changed[one.incident])
        own = {one.submission: Outcome(tuple(self._add_routine(one))) for one in routine}
        self._jobs.start()
        return HandedOver(changed, {}, own)

    def _add_routine(self, started: RoutineStarted) -> Iterator[int]:
        for job, copied in zip(started.task.jobs, started.copied, strict=True):
            number = self._jobs.add(job)
            self._routine.add(number, started, copied, self._schedule.now)
            yield number

    def routine(self, now: int, *, wanted: bool) -> Seen:
        """The jobs of routine work: those that have not ended, and those of the last hour."""
        return self._routine.seen(now, self._jobs.state, self._jobs.ends)

    def tagged_jobs(self) -> Mapping[int, JobState]:
        """Number -> state of each job that a tag of an instance names."""
        numbers = tagged_numbers(t for one in self._site.instances.values() for t in one.tags)
        return {number: self._jobs.state(number) for number in numbers}

    def ended(self, numbers: Iterable[int]) -> bool:
        """Whether one of these jobs has ended."""
        return any(self._jobs.state(number).ended for number in numbers)

    def withdraw(self, submission: str, reason: str) -> None:
        """Each is handed over."""

    def look_up(self, submissions: Iterable[Submission]) -> LookedUp:
        """None is lost: the simulated daemon does not stop in between."""
        return LookedUp()

    def unrecorded(self, incidents: Iterable[Incident]) -> Unrecorded:
        """No record is lost either."""
        return Unrecorded()

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission."""
        numbers = {n for one in incidents for each in one.open for n in each.jobs}
        return {number: self._jobs.state(number) for number in sorted(numbers)}

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started."""
        return {number: "canceled" for number in numbers if self._jobs.cancel(number)}


class _RoutineLog:
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
