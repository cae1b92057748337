"""The chain of rules: which rule applies to a job (job-filters 2.5).

Whether a rule matches can be unknown (see `regex`).  Then it is also unknown which rule applies to
the job, unless an earlier one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID, Dialect
from ganeti_steward.plugins.filters.pins import Candidates
from ganeti_steward.plugins.filters.predicates import Predicate
from ganeti_steward.plugins.filters.regex import ALTOGETHER, Effort, Undecided


def cannot_be_evaluated(uuid: str, why: str) -> str:
    """A sentence, without its full stop, about a rule and a job."""
    return f"filter rule {uuid} cannot be evaluated, it may apply to the job: {why}"


class Unknown(NamedTuple):
    """A rule of which it is not known whether it matches a job."""

    rule: FilterRule
    why: str

    @property
    def sentence(self) -> str:
        """A sentence without its full stop, which names the rule."""
        return cannot_be_evaluated(self.rule.uuid, self.why)


#: The rule that applies to a job; None: no rule does, it is accepted.
Applying = FilterRule | Unknown | None


class Link(NamedTuple):
    """A rule with its predicates, ready to be evaluated."""

    rule: FilterRule
    predicates: tuple[Predicate, ...]
    effort: Effort
    """of its regular expressions"""

    def steps(self, job: Job) -> int:
        """How many comparisons and searches `matches` makes at most."""
        return sum(one.size * len(one.subjects(job)) for one in self.predicates)

    def matches(self, job: Job) -> bool:
        """Whether all predicates are true of the job; raises Undecided."""
        undecided = None
        for one in self.predicates:
            try:
                if not one.matches(job):
                    return False
            except Undecided as err:
                undecided = err
        if undecided:
            raise undecided
        return True

    def matched(self, job: Job) -> Applying:
        """The rule, where it matches or that is unknown; else None."""
        try:
            return self.rule if self.matches(job) else None
        except Undecided as err:
            return Unknown(self.rule, str(err))


def link(rule: FilterRule, dialect: Dialect = LUXID, effort: Effort | None = None) -> Link:
    """A rule without faults of form, to be evaluated in a dialect."""
    effort = effort or Effort()
    predicates = (Predicate(one, rule.watermark, dialect, effort) for one in rule.predicates)
    return Link(rule, tuple(predicates), effort)


def known(found: Applying) -> FilterRule | None:
    """The rule that applies where that is known; else None."""
    return found if isinstance(found, FilterRule) else None


class Chain:
    """All rules of a cluster without faults of form, in the order jobs meet them."""

    def __init__(self, rules: Iterable[FilterRule], dialect: Dialect = LUXID) -> None:
        self.dialect = dialect
        self._effort = Effort()
        self.links = tuple(
            link(rule, dialect, Effort(of_all=self._effort))
            for rule in sorted(rules, key=lambda rule: rule.order)
        )
        self.renew()
        self._acting = tuple(one for one in self.links if one.rule.action != CONTINUE)
        self._candidates = Candidates([one.predicates for one in self._acting])

    def applying(self, job: Job) -> Applying:
        """The first rule that matches the job, or may, and does not let it go on."""
        for at in self._candidates.of(job):
            if found := self._acting[at].matched(job):
                return found
        return None

    def work(self, job: Job) -> int:
        """How many rules `applying` evaluates at most."""
        return len(self._candidates.of(job))

    def renew(self) -> None:
        """Let the slow searches begin again with all their time."""
        self._effort.renew(ALTOGETHER)
        for one in self.links:
            one.effort.renew()

    def matching(
        self, job: Job, take: Callable[[int], None] = lambda steps: None
    ) -> Iterator[FilterRule | Unknown]:
        """All rules that match the job, or may, those after the applying one included.

        ``take`` is called with the number of steps that come next; what it raises ends the work.
        """
        for at in self._of_all.of(job, take):
            one = self.links[at]
            take(one.steps(job))
            if found := one.matched(job):
                yield found

    @cached_property
    def _of_all(self) -> Candidates:
        return Candidates([one.predicates for one in self.links])
