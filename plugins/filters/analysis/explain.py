"""Why a job waits, starts or is canceled: each rule in order, and what the scheduler does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ganeti_steward.plugins.filters.analysis.blame import Evaluated, evaluated
from ganeti_steward.plugins.filters.analysis.sentences import outcome_text
from ganeti_steward.plugins.filters.chain import Applying, Chain
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import Dialect
from ganeti_steward.plugins.filters.scheduling import schedule


class Step(NamedTuple):
    """One rule and the job."""

    rule: FilterRule
    predicates: tuple[Evaluated, ...]
    """of all predicates, also of those that luxid does not evaluate after the first false one"""

    @property
    def matched(self) -> bool | None:
        """Whether the rule matches; None: that is unknown."""
        found = [one.matched for one in self.predicates]
        return None if None in found and False not in found else all(found)


class Explanation(NamedTuple):
    """What happens to a job, and why."""

    job: Job
    steps: tuple[Step, ...]
    """in the order in which the job meets the rules, those after the applying one included"""
    applying: Applying
    outcome: str
    """a sentence without its full stop"""


def explain(
    number: int, jobs: Iterable[Job], rules: Sequence[FilterRule], dialect: Dialect, most: int
) -> Explanation:
    """The job of this number, in a queue with these valid rules.

    ``most``: max_running_jobs.  Raises KeyError when there is no such job.
    """
    queue = {job.number: job for job in jobs}
    job, chain = queue[number], Chain(rules, dialect)
    steps = tuple(_step(link.rule, dialect, job) for link in chain.links)
    applying = chain.applying(job)
    result = schedule(queue.values(), chain, most)
    return Explanation(job, steps, applying, outcome_text(job, applying, result, queue, dialect))


def _step(rule: FilterRule, dialect: Dialect, job: Job) -> Step:
    return Step(
        rule,
        tuple(
            evaluated(one, rule.watermark, dialect, job, f"predicates[{at}][1]")
            for at, one in enumerate(rule.predicates)
        ),
    )
