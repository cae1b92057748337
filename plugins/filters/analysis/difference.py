"""Which jobs of a queue two sets of rules treat differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ganeti_steward.plugins.filters.chain import Applying, Chain, Unknown
from ganeti_steward.plugins.filters.filter_rules import PAUSE, RATE_LIMIT, REJECT, FilterRule
from ganeti_steward.plugins.filters.jobs import RUNNING, Job
from ganeti_steward.plugins.filters.language import Dialect
from ganeti_steward.plugins.filters.scheduling import Pass, schedule


class Treatment(NamedTuple):
    """What a set of rules does to a job in one pass of the scheduler."""

    rule: Applying
    """the one that applies"""
    outcome: str
    """``starts``, ``canceled``, ``waits: CAUSE``, ``running``; of a finished job what its rule
    would do: ``accepted``, ``rejected``, ``paused``, ``limited``, ``unknown``"""

    @property
    def effect(self) -> tuple[str, int | FilterRule]:
        """Equal where it makes no difference which rule applies."""
        if isinstance(self.rule, Unknown):
            return self.outcome, self.rule.rule
        limited = self.rule is not None and self.rule.action == RATE_LIMIT
        return self.outcome, self.rule.limit if limited and self.rule is not None else 0


class Difference(NamedTuple):
    """A job that is treated differently."""

    job: Job
    before: Treatment
    after: Treatment


def difference(
    jobs: Sequence[Job],
    old: Sequence[FilterRule],
    new: Sequence[FilterRule],
    dialect: Dialect,
    most_running: int,
) -> list[Difference]:
    """The jobs that valid rules treat differently, in their order.

    ``most_running``: max_running_jobs.
    """
    before, after = (_treatments(jobs, Chain(rules, dialect), most_running) for rules in (old, new))
    return [
        Difference(job, one, other)
        for job, one, other in zip(jobs, before, after, strict=True)
        if one.effect != other.effect
    ]


def _treatments(jobs: Sequence[Job], chain: Chain, most_running: int) -> list[Treatment]:
    result = schedule(jobs, chain, most_running)
    return [_treatment(job, chain, result) for job in jobs]


def _treatment(job: Job, chain: Chain, result: Pass) -> Treatment:
    if job.number not in result.applying:
        rule = chain.applying(job)
        return Treatment(rule, _verdict(rule))
    rule = result.applying[job.number]
    if job.status in RUNNING:
        return Treatment(rule, "running")
    if job.number in result.canceled:
        return Treatment(rule, "canceled")
    waiting = result.waiting.get(job.number)
    return Treatment(rule, "starts" if waiting is None else f"waits: {waiting.cause}")


def _verdict(rule: Applying) -> str:
    if isinstance(rule, Unknown):
        return "unknown"
    words = {PAUSE: "paused", REJECT: "rejected", RATE_LIMIT: "limited"}
    return "accepted" if rule is None else words.get(rule.action, "accepted")
