"""Which rules match which jobs, found out within a budget and remembered.

A job keeps its opcodes and its reasons, so what matches it is found out once for each set of rules.
A budget that is too small for all jobs is therefore enough after some rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from ganeti_steward.plugins.filters.chain import Chain, Unknown
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.rule_notes import noted_action

#: Steps of one decision: a step is a comparison or search in one opcode or reason, or a verdict.
#: They take one to ten microseconds each.
STEPS: Final = 500_000
#: The part of them that one job may take while others wait for theirs.
_SHARE: Final = 20
#: Steps between two looks at the clock.
_LOOK: Final = 1000


class WorkOver(Exception):
    """A decision has done all the work that it may do, or all for one job."""


class Work:
    """What one decision may do."""

    def __init__(self, steps: int = STEPS, late: Callable[[], bool] = lambda: False) -> None:
        """``late``: whether its time is over."""
        self._left, self._late = steps, late
        self._of_job = self._share = max(steps // _SHARE, 1)
        self._looked = steps
        self.is_over = late()
        """whether nothing more may be done"""

    def begin_job(self, *, late: bool) -> None:
        """Work on another job; ``late``: one that comes after all others, and may take the rest."""
        self._of_job = self._left if late else self._share

    def take(self, steps: int) -> None:
        """Count steps that come next; raises WorkOver where they are too many."""
        if self._looked - self._left >= _LOOK:
            self._looked = self._left
            self.is_over = self.is_over or self._late()
        self.is_over = self.is_over or self._left < steps <= self._share
        if self.is_over or steps > min(self._left, self._of_job):
            raise WorkOver
        self._left -= steps
        self._of_job -= steps


class Matches:
    """The rules that match each job of one queue, up to the one after which no other matters."""

    def __init__(self) -> None:
        self._chain = Chain(())
        self._rules: tuple[FilterRule, ...] = ()
        self._known: dict[int, tuple[int, tuple[FilterRule, ...]]] = {}
        """number of a job -> its content, and the rules that match it"""
        self._late: dict[int, None] = {}
        """the jobs that took too much work the last time, or of which something is unknown"""

    def begin(self, rules: Iterable[FilterRule], jobs: Iterable[Job]) -> None:
        """Begin a decision about these jobs, with rules without faults of form."""
        given = tuple(rule for rule in rules if rule.action != CONTINUE)
        if given != self._rules:
            self._rules, self._chain, self._known = given, Chain(given), {}
        self._chain.renew()
        numbers = {job.number for job in jobs}
        self._late = {number: None for number in self._late if number in numbers}
        self._known = {number: one for number, one in self._known.items() if number in numbers}

    def turns(self) -> Mapping[int, int]:
        """The jobs that come after all others, so that they cannot keep them, and their order."""
        return {number: at for at, number in enumerate(self._late, 1)}

    def of(self, job: Job, work: Work) -> tuple[FilterRule | Unknown, ...]:
        """The rules that match the job, or may, in their order; raises WorkOver."""
        content, known = hash(repr((job.opcodes, job.reasons))), self._known.get(job.number)
        if known and known[0] == content:
            return known[1]
        if work.is_over:
            raise WorkOver
        work.begin_job(late=job.number in self._late)
        self._late.pop(job.number, None)
        self._late[job.number] = None
        found = tuple(self._until_the_last(job, work))
        sure = tuple(one for one in found if isinstance(one, FilterRule))
        if len(sure) == len(found):
            del self._late[job.number]
            self._known[job.number] = content, sure
        return found

    def _until_the_last(self, job: Job, work: Work) -> Iterator[FilterRule | Unknown]:
        for found in self._chain.matching(job, work.take):
            yield found
            if isinstance(found, FilterRule) and noted_action(found) is None:
                return
