"""Ganeti's job queue over time: which jobs start when others are submitted, canceled or end.

The one model of the queue: `gnt-steward filter simulate`, the simulated clusters and the tests'
stand-in for luxid use it.  What a job does, and for how long, is up to its user.

A pass of the scheduler over thousands of waiting jobs for each job that ends would take hours for a
day.  Jobs are therefore grouped by what can hold them; of a group, only the first ones in the
scheduler's order can start, or take a place that another job needs.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ganeti_steward.plugins.filters.chain import Applying, Chain, Unknown, known
from ganeti_steward.plugins.filters.filter_rules import PAUSE, RATE_LIMIT, REJECT, FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID, Dialect
from ganeti_steward.plugins.filters.scheduling import Waiting, buckets_of, schedule

#: Ganeti's default of max_running_jobs.
MOST_RUNNING: Final = 20

Event = Callable[[], None]


class Schedule:
    """The events that are still to come, and the time now; times are ns since the epoch.

    Of several at the same time, those of a lower rank happen first, and then those that were added
    first.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self._events: list[tuple[int, int, int, Event]] = []
        self._added = 0

    def after(self, delay: float, event: Event, rank: int = 0) -> None:
        """Have something happen after so many ns."""
        self._added += 1
        at = self.now + max(int(delay), 0)
        heapq.heappush(self._events, (at, rank, self._added, event))

    @property
    def next(self) -> int | None:
        """When the next event happens; None: nothing happens any more."""
        return self._events[0][0] if self._events else None

    def run(self) -> None:
        """Let the next event happen; it becomes the time now."""
        self.now, _, _, event = heapq.heappop(self._events)
        event()

    def run_until(self, now: int) -> None:
        """Let everything happen up to a time, which becomes the time now."""
        while self._events and self._events[0][0] <= now:
            self.run()
        self.now = max(now, self.now)


class _JobGroup(NamedTuple):
    """What can hold the jobs of a group."""

    rule: str = ""
    """uuid of a rule with a limit, or of one that holds all of them; empty: none"""
    limit: int = 0
    """of the rule; 0: it holds all of them, or there is none"""
    buckets: tuple[tuple[str, int], ...] = ()
    """names and limits"""

    def most(self, free: int, running: int) -> int:
        """How many of its first jobs matter, at most.

        ``free``: how many jobs can start; ``running``: how many run to which the rule applies.
        """
        if self.buckets:
            # Also a job that a rule holds takes its place in the buckets.
            return min(limit for _, limit in self.buckets)
        if not self.rule:
            return free
        return min(free, max(0, self.limit - running))


class _CachedChain(Chain):
    """A chain that evaluates each job once: neither jobs nor rules change."""

    def __init__(self, rules: Iterable[FilterRule], dialect: Dialect) -> None:
        super().__init__(rules, dialect)
        self._known: dict[int, Applying] = {}

    def applying(self, job: Job) -> Applying:
        """The rule that applies."""
        if job.number not in self._known:
            self._known[job.number] = super().applying(job)
        return self._known[job.number]

    def group(self, job: Job) -> _JobGroup:
        """What can hold a job that no rule rejects."""
        rule, names = self.applying(job), tuple(sorted(buckets_of(job, self.dialect).items()))
        if isinstance(rule, Unknown):
            return _JobGroup(rule.rule.uuid, buckets=names)
        if rule is None or rule.action not in (PAUSE, RATE_LIMIT):
            return _JobGroup(buckets=names)
        return _JobGroup(rule.uuid, rule.limit, names)


class JobQueue:
    """The jobs that have not ended; `advance` is one pass of luxid's scheduler."""

    def __init__(
        self,
        rules: Iterable[FilterRule],
        started: Callable[[Job], None],
        rejected: Callable[[Job], None],
        most_running: int = MOST_RUNNING,
        dialect: Dialect = LUXID,
    ) -> None:
        """``rules``: without faults of form; ``most_running``: max_running_jobs.

        ``started`` and ``rejected`` are called with each job that starts, or that a rule rejects;
        a rejected job is not in the queue then.
        """
        self._chain, self._most = _CachedChain(rules, dialect), most_running
        self._on_start, self._on_reject = started, rejected
        self.jobs: dict[int, Job] = {}
        """number -> job with its status"""
        self._running: dict[int, Job] = {}
        self._by_rule: Counter[str] = Counter()
        """uuid of a rule -> how many jobs run to which it applies"""
        self._candidates: dict[_JobGroup, list[tuple[int, int]]] = {}
        """priorities and numbers of the queued jobs that do not wait for others to end"""
        self._behind: dict[int, set[int]] = {}
        """number -> the unfinished jobs that it depends on"""
        self._before: dict[int, set[int]] = {}
        """number -> the jobs that depend on it"""

    def submit(self, job: Job) -> None:
        """Add a job, without a pass."""
        if self._is_rejected(job):
            self._on_reject(job)
            return
        self.jobs[job.number] = job
        self._behind[job.number] = {one for one in job.depends if one in self.jobs} - {job.number}
        for one in self._behind[job.number]:
            self._before.setdefault(one, set()).add(job.number)
        self._offer(job)

    def _is_rejected(self, job: Job) -> bool:
        rule = known(self._chain.applying(job))
        return rule is not None and rule.action == REJECT

    def _offer(self, job: Job) -> None:
        if not self._behind[job.number]:
            group = self._candidates.setdefault(self._chain.group(job), [])
            insort(group, (job.priority, job.number))

    def _withhold(self, job: Job) -> None:
        if not self._behind[job.number]:
            self._candidates[self._chain.group(job)].remove((job.priority, job.number))

    def is_queued(self, number: int) -> bool:
        """Whether a job has neither started nor ended."""
        return number in self.jobs and number not in self._running

    def end(self, number: int) -> None:
        """Take a job out of the queue that has ended or was canceled, without a pass."""
        job = self.jobs.pop(number)
        if self._running.pop(number, None) is None:
            self._withhold(job)
        elif (rule := known(self._chain.applying(job))) is not None:
            self._by_rule[rule.uuid] -= 1
        for one in self._behind.pop(number):
            self._before[one].discard(number)
        for one in self._before.pop(number, ()):
            self._behind[one].discard(number)
            self._offer(self.jobs[one])

    def use(self, rules: Iterable[FilterRule]) -> None:
        """Have other rules from now on, without a pass."""
        queued = [job for job in self.jobs.values() if job.number not in self._running]
        self._chain = _CachedChain(rules, self._chain.dialect)
        applying = (known(self._chain.applying(job)) for job in self._running.values())
        self._by_rule = Counter(rule.uuid for rule in applying if rule is not None)
        self._candidates = {}
        for job in queued:
            self._offer(job)
        for job in [job for job in queued if self._is_rejected(job)]:
            self.end(job.number)
            self._on_reject(job)

    def advance(self) -> None:
        """Start what can start."""
        free = self._most - len(self._running)
        if free <= 0:
            return
        waiting = [self.jobs[one] for one in self._first(free)]
        if not waiting:
            return
        jobs = [*self._running.values(), *waiting]
        for number in schedule(jobs, self._chain, self._most).started:
            job = self.jobs[number]
            self._withhold(job)
            self.jobs[number] = self._running[number] = job._replace(status="running")
            if (rule := known(self._chain.applying(job))) is not None:
                self._by_rule[rule.uuid] += 1
            self._on_start(self.jobs[number])

    def _first(self, free: int) -> Iterator[int]:
        """Numbers of the queued jobs that matter for a pass."""
        for group, waiting in self._candidates.items():
            most = group.most(free, self._by_rule[group.rule])
            yield from (number for _, number in waiting[:most])

    def waiting(self) -> Mapping[int, Waiting]:
        """Why the queued jobs wait."""
        return schedule(self.jobs.values(), self._chain, self._most).waiting

    def rule(self, job: Job) -> FilterRule | None:
        """The rule that applies to a job, where that is known."""
        return known(self._chain.applying(job))
