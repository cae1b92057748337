"""A job queue over time: when jobs start and end, and which wait, under rules that do not change.

A pass of the scheduler happens when jobs are submitted or end.  It does not when a user cancels a
queued job: what that lets through waits for the next pass, at the latest for that of the timer
(job-filters 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.model.job_state import CANCELED
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import QUEUED, Job, read_job
from ganeti_steward.plugins.filters.language import Dialect
from ganeti_steward.plugins.filters.queue import JobQueue, Schedule
from ganeti_steward.plugins.filters.scheduling import Waiting

_SECOND: Final = 10**9
#: ns between the passes that happen in any case.
_PERIOD: Final = 307 * _SECOND

ENDED: Final = "ended"
REJECTED: Final = "rejected"
WAITING: Final = "waiting"

# Ranks of the events.
_END, _CANCEL, _SUBMIT, _PASS = range(4)


class TimedJob(NamedTuple):
    """A job that is submitted during a simulation; times in s, from any beginning."""

    job: Job
    submitted: float
    duration: float
    """s from its start to its end"""
    canceled: float | None = None
    """when a user cancels it if it is still queued; None: never"""


class Course(NamedTuple):
    """What becomes of one job; times in s since the first submission."""

    timed: TimedJob
    rule: FilterRule | None
    """the one that applies; None: no rule, or that is unknown"""
    outcome: str
    """`ENDED`; `REJECTED` by its rule; `CANCELED` by a user or with a job that it depends on;
    `WAITING` when all else is over"""
    started: float | None = None
    ended: float | None = None
    """also when it was rejected or canceled"""
    waiting: Waiting | None = None
    """of `WAITING`: why"""


def simulate(
    timed: Sequence[TimedJob], rules: Iterable[FilterRule], dialect: Dialect, most_running: int
) -> list[Course]:
    """What becomes of the jobs, by number; ``most_running``: max_running_jobs."""
    simulation = _QueueSimulation(timed, rules, dialect, most_running)
    while simulation.schedule.next is not None:
        simulation.schedule.run()
    return simulation.courses()


class _QueueSimulation:
    def __init__(
        self,
        timed: Sequence[TimedJob],
        rules: Iterable[FilterRule],
        dialect: Dialect,
        most_running: int,
    ) -> None:
        self.schedule = Schedule(0)
        self._timed = {one.job.number: one for one in sorted(timed, key=lambda one: one.job.number)}
        self._queue = JobQueue(rules, self._start, self._reject, most_running, dialect)
        self._started: dict[int, int] = {}
        self._ended: dict[int, tuple[str, int]] = {}
        self._pass_is_due = False
        for one in self._timed.values():
            self.schedule.after(_ns(one.submitted), partial(self._submit, one), _SUBMIT)

    def courses(self) -> list[Course]:
        """What became of the jobs, by number."""
        waiting = self._queue.waiting()
        return [self._course(one, waiting.get(number)) for number, one in self._timed.items()]

    def _course(self, timed: TimedJob, waiting: Waiting | None) -> Course:
        number = timed.job.number
        outcome, ended = self._ended.get(number, (WAITING, None))
        started = _seconds(self._started.get(number))
        rule = self._queue.rule(timed.job)
        return Course(timed, rule, outcome, started, _seconds(ended), waiting)

    def _submit(self, timed: TimedJob) -> None:
        self._queue.submit(timed.job)
        if timed.canceled is not None:
            delay = _ns(timed.canceled) - self.schedule.now
            self.schedule.after(delay, partial(self._cancel, timed.job), _CANCEL)
        self._have_pass()

    def _reject(self, job: Job) -> None:
        self._ended[job.number] = REJECTED, self.schedule.now

    def _cancel(self, job: Job) -> None:
        if self._queue.is_queued(job.number):
            self._queue.end(job.number)
            self._ended[job.number] = CANCELED, self.schedule.now
            self.schedule.after(_PERIOD - self.schedule.now % _PERIOD, self._queue.advance, _PASS)

    def _start(self, job: Job) -> None:
        if any(self._was_canceled(one) for one in job.canceled_with):
            self._queue.end(job.number)
            self._ended[job.number] = CANCELED, self.schedule.now
            self._have_pass()
            return
        self._started[job.number] = self.schedule.now
        self.schedule.after(_ns(self._timed[job.number].duration), partial(self._end, job), _END)

    def _was_canceled(self, number: int) -> bool:
        return self._ended.get(number, ("",))[0] in (REJECTED, CANCELED)

    def _end(self, job: Job) -> None:
        self._queue.end(job.number)
        self._ended[job.number] = ENDED, self.schedule.now
        self._have_pass()

    def _have_pass(self) -> None:
        """Have one when everything has happened that happens now."""
        if not self._pass_is_due:
            self._pass_is_due = True
            self.schedule.after(0, self._pass, _PASS)

    def _pass(self) -> None:
        self._pass_is_due = False
        self._queue.advance()


def _ns(seconds: float) -> int:
    return round(seconds * _SECOND)


def _seconds(time: int | None) -> float | None:
    return None if time is None else time / _SECOND


# Jobs of files


def timed_jobs(rows: Sequence[Mapping[str, Any]], duration: float | None) -> list[TimedJob]:
    """The jobs of a file's rows, all to be submitted; the first submission is at 0.

    ``duration`` (s) is for jobs for which the file has none.  Raises ValueError with one sentence.
    """
    found = [_timed(row, duration) for row in rows]
    begin = min((one.submitted for one in found), default=0.0)
    return [
        one._replace(
            submitted=one.submitted - begin,
            canceled=None if one.canceled is None else one.canceled - begin,
        )
        for one in found
    ]


def _timed(row: Mapping[str, Any], usual: float | None) -> TimedJob:
    job = read_job(row)._replace(status=QUEUED)

    def time(key: str) -> float | None:
        return _time(row.get(key), key)

    try:
        submitted, start, end = time("submitted"), time("start_ts"), time("end_ts")
        if submitted is None:
            submitted = time("received_ts") or 0.0
        duration = time("duration")
        if duration is None and start is not None and end is not None:
            duration = max(0.0, end - start)
        duration = usual if duration is None else duration
        if duration is None:
            raise ValueError(
                "nothing gives its duration: neither 'duration' nor start_ts and end_ts"
            )
        return TimedJob(job, submitted, duration, time("canceled"))
    except ValueError as err:
        raise ValueError(f"job {job.number}: {err}") from None


def _time(value: Any, key: str) -> float | None:
    """A number, or seconds and microseconds as Ganeti has times."""
    if value is None:
        return None
    parts = value if isinstance(value, list) and len(value) == 2 else [value, 0]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in parts):
        raise ValueError(f"key {key!r}: seconds are expected, found {describe(value)}")
    seconds = parts[0] + parts[1] / 1e6
    if not 0 <= seconds < 1e12:
        raise ValueError(f"key {key!r}: {describe(value)} is out of range")
    return float(seconds)
