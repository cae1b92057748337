"""A job queue over time: when jobs start and end, and which wait, under rules that do not change.

A pass of the scheduler happens when jobs are submitted or end.  It does not when a user cancels a
queued job: what that lets through waits for the next pass, at the latest for that of the timer
(job-filters 4).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ganeti_steward.plugins.filters.analysis.candidates import Candidates, Group, group_of
from ganeti_steward.plugins.filters.analysis.load import TimedJob
from ganeti_steward.plugins.filters.chain import Applying, Chain, known
from ganeti_steward.plugins.filters.filter_rules import REJECT, FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import Dialect
from ganeti_steward.plugins.filters.scheduling import Waiting, buckets_of, schedule

#: Seconds between the passes that happen in any case.
PERIOD: Final = 307

ENDED: Final = "ended"
REJECTED: Final = "rejected"
CANCELED: Final = "canceled"
WAITING: Final = "waiting"

# Kinds of events, in the order in which they happen at the same time.
_END, _CANCEL, _SUBMIT, _TIMER = range(4)


class Course(NamedTuple):
    """What becomes of one job; times in s since the first submission."""

    timed: TimedJob
    rule: FilterRule | None
    """the one that applies; None: no rule, or that is unknown"""
    outcome: str
    """`ENDED`; `REJECTED` by its rule; `CANCELED` by a user; `WAITING` when all else is over"""
    started: float | None = None
    ended: float | None = None
    """also when it was rejected or canceled"""
    waiting: Waiting | None = None
    """of `WAITING`: why"""


class _Known(Chain):
    """A chain that evaluates each job once: neither jobs nor rules change."""

    def __init__(self, rules: Iterable[FilterRule], dialect: Dialect) -> None:
        super().__init__(rules, dialect)
        self._known: dict[int, Applying] = {}

    def applying(self, job: Job) -> Applying:
        """The rule that applies."""
        if job.number not in self._known:
            self._known[job.number] = super().applying(job)
        return self._known[job.number]


def simulate(
    timed: Sequence[TimedJob], rules: Iterable[FilterRule], dialect: Dialect, most_running: int
) -> list[Course]:
    """What becomes of the jobs, by number; ``most_running``: max_running_jobs."""
    queue = _Queue(timed, _Known(rules, dialect), most_running)
    queue.run()
    return queue.courses()


class _Queue:
    """The state at one time."""

    def __init__(self, timed: Sequence[TimedJob], chain: _Known, most_running: int) -> None:
        self._chain, self._most = chain, most_running
        self._timed = {one.job.number: one for one in timed}
        self._groups: dict[int, Group] = {}
        self._queued: dict[int, Job] = {}
        self._running: dict[int, Job] = {}
        self._by_rule: Counter[str] = Counter()
        self._candidates = Candidates()
        self._behind: dict[int, set[int]] = {}
        """number -> the unfinished jobs that it depends on"""
        self._before: dict[int, set[int]] = {}
        """number -> the jobs that depend on it"""
        self._started: dict[int, float] = {}
        self._ended: dict[int, tuple[str, float]] = {}
        self._events = [(one.submitted, _SUBMIT, one.job.number) for one in timed]
        heapq.heapify(self._events)

    def run(self) -> None:
        """Until nothing happens any more."""
        while self._events:
            now, needed = self._events[0][0], False
            while self._events and self._events[0][0] == now:
                _, kind, number = heapq.heappop(self._events)
                needed = self._happens(kind, number, now) or needed
            if needed:
                self._pass(now)

    def courses(self) -> list[Course]:
        """What became of the jobs, by number."""
        waiting = schedule(self._queued.values(), self._chain, self._most).waiting
        return [
            self._course(one, waiting.get(number)) for number, one in sorted(self._timed.items())
        ]

    def _course(self, timed: TimedJob, waiting: Waiting | None) -> Course:
        number = timed.job.number
        outcome, ended = self._ended.get(number, (WAITING, None))
        rule = known(self._chain.applying(timed.job))
        return Course(timed, rule, outcome, self._started.get(number), ended, waiting)

    def _happens(self, kind: int, number: int, now: float) -> bool:
        """One event; whether a pass follows."""
        if kind == _SUBMIT:
            self._submit(number, now)
        elif kind == _END:
            del self._running[number]
            if (rule := known(self._chain.applying(self._timed[number].job))) is not None:
                self._by_rule[rule.uuid] -= 1
            self._finish(number, ENDED, now)
        elif kind == _CANCEL:
            self._cancel(number, now)
        return kind != _CANCEL

    def _submit(self, number: int, now: float) -> None:
        timed = self._timed[number]
        rule = self._chain.applying(timed.job)
        if isinstance(rule, FilterRule) and rule.action == REJECT:
            # Before anything else in the pass that the submission causes.
            self._finish(number, REJECTED, now)
            return
        if timed.canceled is not None:
            heapq.heappush(self._events, (max(now, timed.canceled), _CANCEL, number))
        self._queued[number] = timed.job
        self._groups[number] = group_of(rule, buckets_of(timed.job, self._chain.dialect))
        known = {one for one in timed.job.depends if one in self._queued or one in self._running}
        self._behind[number] = known - {number}
        for one in self._behind[number]:
            self._before.setdefault(one, set()).add(number)
        if not self._behind[number]:
            self._candidates.add(timed.job, self._groups[number])

    def _cancel(self, number: int, now: float) -> None:
        if number not in self._queued:
            return
        self._leave(number)
        self._finish(number, CANCELED, now)
        after = (now // PERIOD + 1) * PERIOD
        heapq.heappush(self._events, (after, _TIMER, number))

    def _leave(self, number: int) -> Job:
        job = self._queued.pop(number)
        if not self._behind[number]:
            self._candidates.remove(job, self._groups[number])
        return job

    def _finish(self, number: int, outcome: str, now: float) -> None:
        self._ended[number] = outcome, now
        for one in self._before.pop(number, ()):
            if one not in self._queued:
                continue
            self._behind[one].discard(number)
            if not self._behind[one]:
                self._candidates.add(self._queued[one], self._groups[one])

    def _pass(self, now: float) -> None:
        free = self._most - len(self._running)
        if free <= 0:
            return
        numbers = self._candidates.first(free, self._by_rule)
        jobs = [*self._running.values(), *(self._queued[one] for one in numbers)]
        for number in schedule(jobs, self._chain, self._most).started:
            job = self._leave(number)
            self._running[number] = job._replace(status="running")
            if (rule := known(self._chain.applying(job))) is not None:
                self._by_rule[rule.uuid] += 1
            self._started[number] = now
            heapq.heappush(self._events, (now + self._timed[number].duration, _END, number))
