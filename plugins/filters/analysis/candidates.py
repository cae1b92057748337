"""Queued jobs, of which only those are given to the scheduler that could start in its next pass.

A pass over thousands of waiting jobs for each job that ends would take hours for a day.  Jobs are
therefore grouped by what can hold them; of a group, only the first ones in the scheduler's order
can start, or take a place that another job needs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ganeti_steward.plugins.filters.chain import Applying, Unknown
from ganeti_steward.plugins.filters.filter_rules import PAUSE, RATE_LIMIT
from ganeti_steward.plugins.filters.jobs import Job


class Group(NamedTuple):
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


def group_of(rule: Applying, buckets: Mapping[str, int]) -> Group:
    """The group of a job to which this rule applies, which does not reject it."""
    names = tuple(sorted(buckets.items()))
    if isinstance(rule, Unknown):
        return Group(rule.rule.uuid, buckets=names)
    if rule is None or rule.action not in (PAUSE, RATE_LIMIT):
        return Group(buckets=names)
    return Group(rule.uuid, rule.limit, names)


class Candidates:
    """Queued jobs that do not wait for other jobs to end."""

    def __init__(self) -> None:
        self._groups: dict[Group, list[tuple[int, int]]] = {}

    def add(self, job: Job, group: Group) -> None:
        """A job that no unfinished job is in the way of."""
        insort(self._groups.setdefault(group, []), (job.priority, job.number))

    def remove(self, job: Job, group: Group) -> None:
        """A job that has started or was canceled."""
        self._groups[group].remove((job.priority, job.number))

    def first(self, free: int, running: Mapping[str, int]) -> Iterator[int]:
        """Numbers of the jobs that matter for a pass.

        ``running``: uuid of a rule -> how many jobs run to which it applies.
        """
        for group, waiting in self._groups.items():
            most = group.most(free, running.get(group.rule, 0))
            yield from (number for _, number in waiting[:most])
