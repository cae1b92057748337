"""Why a job waits, starts or is canceled: each rule in order, and what the scheduler does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters import scheduling
from ganeti_steward.plugins.filters.analysis.blame import Evaluated, evaluated
from ganeti_steward.plugins.filters.chain import Applying, Chain, known
from ganeti_steward.plugins.filters.filter_rules import RATE_LIMIT, FilterRule
from ganeti_steward.plugins.filters.jobs import QUEUED, RUNNING, Job
from ganeti_steward.plugins.filters.language import Dialect
from ganeti_steward.plugins.filters.rule_notes import noted_action, shown_action


class RuleStep(NamedTuple):
    """One rule and the job."""

    rule: FilterRule
    predicates: tuple[Evaluated, ...]
    """of all predicates, also of those that luxid does not evaluate after the first false one"""

    @property
    def matched(self) -> bool | None:
        """Whether the rule matches; None: that is unknown."""
        found = [one.matched for one in self.predicates]
        return None if None in found and False not in found else all(found)


class JobExplanation(NamedTuple):
    """What happens to a job, and why."""

    job: Job
    steps: tuple[RuleStep, ...]
    """in the order in which the job meets the rules, those after the applying one included"""
    applying: Applying
    outcome: str
    """a sentence without its full stop"""


def explain(
    number: int, jobs: Iterable[Job], rules: Sequence[FilterRule], dialect: Dialect, most: int
) -> JobExplanation:
    """The job of this number, in a queue with these valid rules.

    ``most``: max_running_jobs.  Raises KeyError when there is no such job.
    """
    queue = {job.number: job for job in jobs}
    job, chain = queue[number], Chain(rules, dialect)
    steps = tuple(_step(link.rule, dialect, job) for link in chain.links)
    applying = chain.applying(job)
    result = scheduling.schedule(queue.values(), chain, most)
    return JobExplanation(job, steps, applying, outcome_text(job, applying, result, queue, dialect))


def _step(rule: FilterRule, dialect: Dialect, job: Job) -> RuleStep:
    return RuleStep(
        rule,
        tuple(
            evaluated(one, rule.watermark, dialect, job, f"predicates[{at}][1]")
            for at, one in enumerate(rule.predicates)
        ),
    )


#: How many jobs a sentence names.
_SHOWN: Final = 10


def outcome_text(
    job: Job,
    applying: Applying,
    result: scheduling.Pass,
    queue: Mapping[int, Job],
    dialect: Dialect,
) -> str:
    """What happens to the job; ``queue``: number -> job."""
    if job.status in RUNNING:
        return f"it was started, and rules do not stop it{_places(job, known(applying), dialect)}"
    if job.status != QUEUED:
        return f"it has ended ({job.status}), so that rules have no effect on it"
    if job.number in result.canceled:
        return f"{rule_name(result.canceled[job.number])} cancels it"
    if job.number in result.waiting:
        return _waits(result.waiting[job.number], result, queue)
    return "it starts in the next pass of the scheduler"


def rule_name(rule: FilterRule) -> str:
    """A rule in a sentence."""
    return f"rule {rule.uuid} ({shown_action(rule)})"


def _places(job: Job, applying: FilterRule | None, dialect: Dialect) -> str:
    """The limits for which a started job counts."""
    counts = [f"the bucket {quoted(name)}" for name in scheduling.buckets_of(job, dialect)]
    if applying is not None and applying.action == RATE_LIMIT:
        counts.append(rule_name(applying))
    return f"; it takes a place of {' and of '.join(counts)}" if counts else ""


def _waits(waiting: scheduling.Waiting, result: scheduling.Pass, queue: Mapping[int, Job]) -> str:
    behind = _jobs(waiting.behind, result, queue)
    if waiting.cause == scheduling.DEPENDS:
        return f"it waits for jobs that it depends on: {behind}"
    if waiting.cause == scheduling.BUCKET:
        most = _at_a_time(waiting.limit)
        return f"the bucket {quoted(waiting.bucket)} of its reasons allows {most}: {behind}"
    if waiting.cause == scheduling.FULL:
        return f"the cluster runs {_at_a_time(waiting.limit)}: {behind}"
    assert waiting.rule is not None
    if waiting.cause == scheduling.UNKNOWN:
        return f"it is unknown whether {rule_name(waiting.rule)} applies to it: {waiting.why}"
    if waiting.cause == scheduling.LIMIT:
        return f"{rule_name(waiting.rule)} allows {_at_a_time(waiting.limit)}: {behind}"
    assert waiting.cause == scheduling.PAUSED
    released = "the rule is replaced or deleted"
    if noted_action(waiting.rule) is not None:
        released = "the maintenance daemon releases it"
    return f"{rule_name(waiting.rule)} holds it until {released}"


def _at_a_time(limit: int) -> str:
    return "1 job at a time" if limit == 1 else f"{limit} jobs at a time"


def _jobs(numbers: Sequence[int], result: scheduling.Pass, queue: Mapping[int, Job]) -> str:
    shown = [f"{one} ({_state(one, result, queue)})" for one in numbers[:_SHOWN]]
    more = len(numbers) - _SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _state(number: int, result: scheduling.Pass, queue: Mapping[int, Job]) -> str:
    """Of a job that another one waits for."""
    job, waiting = queue[number], result.waiting.get(number)
    if waiting is None:
        return job.status if job.status in RUNNING else "starts first"
    if waiting.rule is not None:
        return f"queued: {rule_name(waiting.rule)}"
    return f"queued: {waiting.cause}"
