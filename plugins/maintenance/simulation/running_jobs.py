"""The jobs of a simulated cluster: they wait for each other, take their time, and some fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from ganeti_steward.core.model.job_state import CANCELED, ERROR, SUCCESS, JobState
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.jobs import QUEUED, Job, read_job
from ganeti_steward.plugins.filters.scheduling import schedule
from ganeti_steward.plugins.maintenance.simulation.assumptions import Assumptions
from ganeti_steward.plugins.maintenance.simulation.measured import Measured
from ganeti_steward.plugins.maintenance.simulation.operations import Operation, Operations
from ganeti_steward.plugins.maintenance.simulation.schedule import Schedule
from ganeti_steward.plugins.maintenance.simulation.site import Site

#: Ganeti's default of max_running_jobs.
_MOST_RUNNING: Final = 20
_RUNNING: Final = "running"


class RunningJobs:
    """What luxid does with jobs; filter rules have no effect."""

    def __init__(
        self, site: Site, schedule: Schedule, measured: Measured, assumed: Assumptions
    ) -> None:
        self._site, self._schedule, self._measured = site, schedule, measured
        self._operations = Operations(site, assumed)
        self._share = assumed.job_failures
        self._random = Random(f"jobs {assumed.seed}")
        self._chain = Chain(())
        self._unfinished: dict[int, Job] = {}
        self._ended: dict[int, JobState] = {}
        self.ends: dict[int, int] = {}
        """number -> when the job ended, ns since the epoch"""
        self._last = 0

    def state(self, number: int) -> JobState:
        """The state of one job; one that was never added is lost."""
        job = self._unfinished.get(number)
        if job is not None:
            return JobState(number, job.status)
        return self._ended.get(number) or JobState.lost(number)

    def add(self, job: Sequence[Mapping[str, Any]]) -> int:
        """Queue a job; relative numbers of dependencies become absolute ones."""
        self._last += 1
        number = self._last
        ops = [
            {**one, "depends": [[n + number if n < 0 else n, s] for n, s in one.get("depends", ())]}
            for one in job
        ]
        self._unfinished[number] = read_job({"id": number, "ops": ops})
        return number

    def start(self) -> None:
        """One pass of luxid's scheduler."""
        for number in schedule(self._unfinished.values(), self._chain, _MOST_RUNNING).started:
            job = self._unfinished[number]
            if fault := self._failed_before(job):
                self._finish(number, JobState(number, ERROR, fault))
                continue
            self._unfinished[number] = job._replace(status=_RUNNING)
            self._site.busy |= _instances(job)
            self._begin(number, ())

    def cancel(self, number: int) -> bool:
        """Cancel a job that has not started; whether it was one."""
        job = self._unfinished.get(number)
        if job is None or job.status != QUEUED:
            return False
        self._finish(number, JobState(number, CANCELED))
        return True

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
            self.start()

    def _fail(self, number: int, fault: str) -> None:
        self._measured.failed_jobs += 1
        self._finish(number, JobState(number, ERROR, fault))
        # Not at once: this may be in the middle of a pass.
        self._schedule.after(0, self.start)

    def _finish(self, number: int, state: JobState) -> None:
        job = self._unfinished.pop(number)
        self._site.busy -= _instances(job)
        self._ended[number], self.ends[number] = state, self._schedule.now
        self._measured.job_ended()


def _instances(job: Job) -> set[str]:
    return {one["instance_name"] for one in job.opcodes if one["OP_ID"] in MOVES}
