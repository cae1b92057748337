"""One pass of luxid's scheduler: which queued jobs start, are canceled, or wait for what.

The order of the steps is luxid's and has consequences: a job that a filter pauses has already
taken its place in its buckets in that pass (job-filters 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.plugins.filters import filter_rules
from ganeti_steward.plugins.filters.chain import Applying, Chain, Unknown, known
from ganeti_steward.plugins.filters.jobs import QUEUED, RUNNING, Job
from ganeti_steward.plugins.filters.language import Dialect

#: Why a job is not started.
DEPENDS: Final = "depends"
BUCKET: Final = "bucket"
PAUSED: Final = "paused"
LIMIT: Final = "limit"
FULL: Final = "full"
UNKNOWN: Final = "unknown"


class Waiting(NamedTuple):
    """Why a queued job is not started in a pass."""

    cause: str
    """one of the six above"""
    rule: filter_rules.FilterRule | None = None
    """of `PAUSED` and `LIMIT`; of `UNKNOWN` the one that may apply"""
    bucket: str = ""
    """of `BUCKET`"""
    limit: int = 0
    """the most at a time; of `BUCKET`, `LIMIT` and `FULL`"""
    behind: tuple[int, ...] = ()
    """numbers of the jobs it waits for, or that have the places; not of `PAUSED`, `UNKNOWN`"""
    why: str = ""
    """of `UNKNOWN`: why it is not known whether the rule applies"""


class Pass(NamedTuple):
    """The result of one pass."""

    canceled: Mapping[int, filter_rules.FilterRule]
    """number -> the rule that rejects the job"""
    started: tuple[int, ...]
    """in the order in which they start"""
    waiting: Mapping[int, Waiting]
    applying: Mapping[int, Applying]
    """number -> the rule that applies; of all queued and running jobs"""


class _Places:
    """Who has the places of buckets, or of rules with a limit."""

    def __init__(self) -> None:
        self._taken: dict[str, list[int]] = {}

    def take(self, key: str, number: int) -> None:
        self._taken.setdefault(key, []).append(number)

    def full(self, key: str, limit: int) -> tuple[int, ...]:
        """The jobs that have the places; empty when one is free."""
        taken = self._taken.get(key, [])
        return tuple(taken) if len(taken) >= limit else ()


def schedule(jobs: Iterable[Job], chain: Chain, most_running: int) -> Pass:
    """One pass over the unfinished jobs of a queue; ``most_running`` is max_running_jobs.

    A job of which it is unknown which rule applies is taken to wait.
    """
    ordered = sorted(jobs, key=lambda job: (job.priority, job.number))
    running = [job for job in ordered if job.status in RUNNING]
    queued = [job for job in ordered if job.status == QUEUED]
    applying = {job.number: chain.applying(job) for job in (*running, *queued)}
    canceled = {
        job.number: rule
        for job in queued
        if (rule := known(applying[job.number])) is not None and rule.action == filter_rules.REJECT
    }
    left = [job for job in queued if job.number not in canceled]
    waiting: dict[int, Waiting] = {}
    left = _without_dependencies(left, running, waiting)
    left = _within_buckets(left, running, chain, waiting)
    left = _within_rules(left, running, applying, waiting)
    free = max(0, most_running - len(running))
    for job in left[free:]:
        behind = tuple(one.number for one in (*running, *left[:free]))
        waiting[job.number] = Waiting(FULL, limit=most_running, behind=behind)
    started = tuple(job.number for job in left[:free])
    return Pass(canceled, started, waiting, applying)


def _without_dependencies(
    left: Sequence[Job], running: Sequence[Job], waiting: dict[int, Waiting]
) -> list[Job]:
    unfinished = {job.number for job in (*left, *running)}
    found = []
    for job in left:
        behind = tuple(one for one in job.depends if one in unfinished)
        if behind:
            waiting[job.number] = Waiting(DEPENDS, behind=behind)
        else:
            found.append(job)
    return found


def _within_buckets(
    left: Sequence[Job], running: Sequence[Job], chain: Chain, waiting: dict[int, Waiting]
) -> list[Job]:
    places, found = _Places(), []
    for job in running:
        for name in buckets_of(job, chain.dialect):
            places.take(name, job.number)
    for job in left:
        buckets = buckets_of(job, chain.dialect)
        full = {name: places.full(name, limit) for name, limit in buckets.items()}
        name = next((name for name, behind in full.items() if behind), "")
        if name:
            waiting[job.number] = Waiting(
                BUCKET, bucket=name, limit=buckets[name], behind=full[name]
            )
            continue
        for each in buckets:
            places.take(each, job.number)
        found.append(job)
    return found


def _within_rules(
    left: Sequence[Job],
    running: Sequence[Job],
    applying: Mapping[int, Applying],
    waiting: dict[int, Waiting],
) -> list[Job]:
    places, found = _Places(), []
    for job in running:
        if (rule := known(applying[job.number])) is not None:
            places.take(rule.uuid, job.number)
    for job in left:
        applied = applying[job.number]
        if isinstance(applied, Unknown):
            waiting[job.number] = Waiting(UNKNOWN, applied.rule, why=applied.why)
            continue
        rule = applied
        if rule is not None and rule.action == filter_rules.PAUSE:
            waiting[job.number] = Waiting(PAUSED, rule)
            continue
        if rule is not None and rule.action == filter_rules.RATE_LIMIT:
            behind = places.full(rule.uuid, rule.limit)
            if behind:
                waiting[job.number] = Waiting(LIMIT, rule, limit=rule.limit, behind=behind)
                continue
            places.take(rule.uuid, job.number)
        found.append(job)
    return found


def buckets_of(job: Job, dialect: Dialect) -> Mapping[str, int]:
    """Bucket -> the most of its jobs that may run at a time."""
    found = (dialect.bucket.fullmatch(reason.text) for reason in job.reasons)
    return {one["name"]: int(one["limit"]) for one in found if one is not None}
