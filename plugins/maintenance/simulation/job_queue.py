"""Ganeti's job queue over the simulated cluster: jobs take their time, and some fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from ganeti_steward.core.maintenance.incident import Incident, Submission
from ganeti_steward.core.model.job_state import CANCELED, ERROR, SUCCESS, JobState
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.jobs import QUEUED, Job, read_job
from ganeti_steward.plugins.filters.scheduling import schedule
from ganeti_steward.plugins.maintenance.daemon.parts import Store
from ganeti_steward.plugins.maintenance.edges.submit import HandedOver, Outcome, noted
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.routine.jobs import Seen, tagged_numbers
from ganeti_steward.plugins.maintenance.simulation.assumptions import Assumptions
from ganeti_steward.plugins.maintenance.simulation.measured import Measured
from ganeti_steward.plugins.maintenance.simulation.operations import Operation, Operations
from ganeti_steward.plugins.maintenance.simulation.routine_log import RoutineLog
from ganeti_steward.plugins.maintenance.simulation.schedule import Schedule
from ganeti_steward.plugins.maintenance.simulation.site import Site

#: Ganeti's default of max_running_jobs.
_MOST_RUNNING: Final = 20
_RUNNING: Final = "running"


class SimulatedQueue:
    """The part `Queue` of the daemon's loop."""

    def __init__(
        self,
        site: Site,
        store: Store,
        schedule: Schedule,
        measured: Measured,
        assumed: Assumptions,
    ) -> None:
        self._site, self._store, self._schedule, self._measured = site, store, schedule, measured
        self._operations = Operations(site, assumed)
        self._share = assumed.job_failures
        self._random = Random(f"jobs {assumed.seed}")
        self._chain = Chain(())
        self._unfinished: dict[int, Job] = {}
        self._ended: dict[int, JobState] = {}
        self._ends: dict[int, int] = {}
        """number -> when the job ended, ns since the epoch"""
        self._routine = RoutineLog()
        self._last = 0

    # What the loop calls

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        """Take the jobs of all tasks, and record their numbers."""
        changed: dict[str, Incident] = {}
        for one in started:
            numbers = tuple(self._add(job) for job in one.task.jobs)
            before = changed.get(one.incident, incidents[one.incident])
            changed[one.incident] = noted(before, one.submission, numbers)
            self._store.write(changed[one.incident])
        own = {one.submission: Outcome(tuple(self._add_routine(one))) for one in routine}
        self._pass()
        return HandedOver(changed, {}, own)

    def _add_routine(self, started: RoutineStarted) -> Iterator[int]:
        for job, copied in zip(started.task.jobs, started.copied, strict=True):
            number = self._add(job)
            self._routine.add(number, started, copied, self._schedule.now)
            yield number

    def routine(self, now: int, *, wanted: bool) -> Seen:
        """The jobs of routine work: those that have not ended, and those of the last hour."""
        return self._routine.seen(now, self._state, self._ends)

    def tagged_jobs(self) -> Mapping[int, JobState]:
        """Number -> state of each job that a tag of an instance names."""
        numbers = tagged_numbers(t for one in self._site.instances.values() for t in one.tags)
        return {number: self._state(number) for number in numbers}

    def ended(self, numbers: Iterable[int]) -> bool:
        """Whether one of these jobs has ended."""
        return any(number in self._ended for number in numbers)

    def look_up(self, submissions: Iterable[Submission], now: int) -> Mapping[str, tuple[int, ...]]:
        """None is lost: the simulated daemon does not stop in between."""
        return {}

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission."""
        numbers = {n for one in incidents for each in one.open for n in each.jobs}
        return {number: self._state(number) for number in sorted(numbers)}

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started."""
        canceled = [n for n in numbers if n in self._unfinished and self._is_queued(n)]
        for number in canceled:
            self._finish(number, JobState(number, CANCELED))
        return dict.fromkeys(canceled, "canceled")

    # Jobs

    def _state(self, number: int) -> JobState:
        job = self._unfinished.get(number)
        if job is not None:
            return JobState(number, job.status)
        return self._ended.get(number) or JobState.lost(number)

    def _is_queued(self, number: int) -> bool:
        return self._unfinished[number].status == QUEUED

    def _add(self, job: Sequence[Mapping[str, Any]]) -> int:
        """Queue a job; relative numbers of dependencies become absolute ones."""
        self._last += 1
        number = self._last
        ops = [
            {**one, "depends": [[n + number if n < 0 else n, s] for n, s in one.get("depends", ())]}
            for one in job
        ]
        self._unfinished[number] = read_job({"id": number, "ops": ops})
        return number

    def _pass(self) -> None:
        """One pass of luxid's scheduler."""
        for number in schedule(self._unfinished.values(), self._chain, _MOST_RUNNING).started:
            job = self._unfinished[number]
            if fault := self._failed_before(job):
                self._finish(number, JobState(number, ERROR, fault))
                continue
            self._unfinished[number] = job._replace(status=_RUNNING)
            self._site.busy |= _instances(job)
            self._begin(number, ())

    def _failed_before(self, job: Job) -> str:
        """Why it cannot start: a job that it depends on ended in another state."""
        for operation in job.opcodes:
            for number, states in operation["depends"]:
                status = self._ended[number].status
                if states and status not in states:
                    return f"job {number} ended with status {status}"
        return ""

    def _begin(self, number: int, before: tuple[Any, ...]) -> None:
        """Start the next operation of a job; it ends, or fails, after its time.

        ``before``: the results of those before.
        """
        operation = self._operations.resolved(self._unfinished[number].opcodes[len(before)])
        fault = self._operations.fault(operation)
        if not fault and self._random.random() < self._share:
            fault = "it failed for a reason of its own"
        if fault:
            self._fail(number, fault)
            return
        self._operations.begin(operation)
        self._schedule.after(
            self._operations.duration(operation), lambda: self._end(number, before, operation)
        )

    def _end(self, number: int, before: tuple[Any, ...], operation: Operation) -> None:
        fault = self._operations.fault(operation)
        self._operations.end(operation, failed=bool(fault))
        if fault:
            self._fail(number, fault)
            return
        self._measured.did(operation, self._site)
        results = (*before, self._operations.result(operation))
        if len(results) < len(self._unfinished[number].opcodes):
            self._begin(number, results)
        else:
            self._finish(number, JobState(number, SUCCESS, results=results))
            self._pass()

    def _fail(self, number: int, fault: str) -> None:
        self._measured.failed_jobs += 1
        self._finish(number, JobState(number, ERROR, fault))
        # Not at once: this may be in the middle of a pass.
        self._schedule.after(0, self._pass)

    def _finish(self, number: int, state: JobState) -> None:
        job = self._unfinished.pop(number)
        self._site.busy -= _instances(job)
        self._ended[number], self._ends[number] = state, self._schedule.now
        self._measured.job_ended()


def _instances(job: Job) -> set[str]:
    return {one["instance_name"] for one in job.opcodes if one["OP_ID"] in MOVES}
