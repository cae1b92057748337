"""The chain of rules: which rule applies to a job (job-filters 2.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ganeti_steward.core.ganeti.filter_rules import CONTINUE, FilterRule
from ganeti_steward.plugins.filters.dialect import LUXID, Dialect
from ganeti_steward.plugins.filters.expressions import Note
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.predicates import Predicate


class Link(NamedTuple):
    """A rule with its predicates, ready to be evaluated."""

    rule: FilterRule
    predicates: tuple[Predicate, ...]

    def matches(self, job: Job) -> bool:
        """Whether all predicates are true of the job."""
        for one in self.predicates:  # noqa: SIM110
            if not one.matches(job):
                return False
        return True


def link(rule: FilterRule, dialect: Dialect = LUXID, note: Note | None = None) -> Link:
    """A valid rule, to be evaluated in a dialect."""
    predicates = tuple(Predicate(one, rule.watermark, dialect, note) for one in rule.predicates)
    return Link(rule, predicates)


class Chain:
    """All valid rules of a cluster, in the order jobs meet them."""

    def __init__(self, rules: Iterable[FilterRule], dialect: Dialect = LUXID) -> None:
        self.dialect = dialect
        self.links = tuple(
            link(rule, dialect) for rule in sorted(rules, key=lambda rule: rule.order)
        )
        self._acting = tuple(one for one in self.links if one.rule.action != CONTINUE)

    def applying(self, job: Job) -> FilterRule | None:
        """The first rule that matches the job and does not let it go on; None: it is accepted."""
        for one in self._acting:
            if one.matches(job):
                return one.rule
        return None

    def matching(self, job: Job) -> Iterator[FilterRule]:
        """All rules that match the job, those after the applying one included."""
        return (one.rule for one in self.links if one.matches(job))
