"""Which jobs that are held by actions of plugins are released, cancelled or held again.

A job is released by a rule of its own: ACCEPT by its number, directly before the first rule that
holds it.  An ACCEPT ends the chain, so a job is released only where no later rule would hold it
either.  The rule is removed when the job has ended, and earlier where the job is held again before
it has started.  Pure: takes rules, jobs and verdicts, returns what is to be changed.

One decision does a limited amount of work.  The jobs for which that was not enough stay held, and
come later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.plugins.filters.actions.changes import (
    BRAKE,
    CANCEL,
    FORGET,
    HOLD_AGAIN,
    LATER,
    RELEASE,
    JobChange,
    Releases,
    named,
    release_uuid,
    released_job,
    some_of,
)
from ganeti_steward.plugins.filters.actions.matching import Matches, Work, WorkOver
from ganeti_steward.plugins.filters.chain import Unknown, cannot_be_evaluated
from ganeti_steward.plugins.filters.filter_rules import RATE_LIMIT, FilterRule, Rules
from ganeti_steward.plugins.filters.jobs import QUEUED, Job
from ganeti_steward.plugins.filters.language import faults_of_form
from ganeti_steward.plugins.filters.rule_notes import noted_action
from ganeti_steward.plugins.filters.rule_text import action_text
from ganeti_steward.plugins.model.filter_action import Hold, Reject, Release, Verdict
from ganeti_steward.plugins.model.task import Held

#: The verdict of a rule on a job; the number: started jobs to which the rule applies.
VerdictOf = Callable[[FilterRule, Job, int], Verdict]

#: Rules with held jobs that are reported one by one.
_REPORTED: Final = 20
_UNSEEN: Final = "the work of one decision was not enough for"


class _HeldJob(NamedTuple):
    job: Job
    first: FilterRule
    """the first rule that holds it"""
    last: FilterRule
    """the rule with the verdict"""
    verdict: Verdict


def concerned(rules: Rules) -> bool:
    """Whether there is anything to decide."""
    return any(noted_action(rule) or released_job(rule) for rule in rules.rules)


def decide(
    rules: Rules,
    jobs: Sequence[Job],
    verdict_of: VerdictOf,
    work: Work | None = None,
    matches: Matches | None = None,
) -> Releases:
    """What is done; ``jobs``: all that are queued or have started and not ended.

    ``matches``: of the decision before.
    """
    present = {rule.uuid: rule for rule in rules.rules if released_job(rule)}
    others = [rule for rule in rules.rules if rule.uuid not in present]
    held = _HeldJobs(Rules(tuple(others), rules.unreadable), jobs, verdict_of, present)
    outcomes = list(held.outcomes(work or Work(), matches or Matches()))
    wanted = [_change(RELEASE, one) for one in outcomes if isinstance(one.verdict, Release)]
    cancels = [_change(CANCEL, one) for one in outcomes if isinstance(one.verdict, Reject)]
    known = {one.release for one in wanted if _is_there(one, present)}
    reasons = {one.job.number: one.verdict.reason for one in outcomes}
    reasons |= dict.fromkeys(held.unseen, f"{_UNSEEN} it")
    deletions = list(_deletions(present, {one.release for one in wanted}, jobs, reasons))
    changes = (
        *deletions,
        *(one for one in wanted if one.release not in known),
        *cancels,
    )
    return Releases(
        tuple(sorted(changes, key=_urgency)), (*_held(outcomes), *_about_unseen(held.unseen))
    )


def _urgency(change: JobChange) -> int:
    """What keeps a job from starting comes first; what has no effect any more comes last."""
    return {HOLD_AGAIN: 0, FORGET: 2}.get(change.kind, 1)


def _change(kind: str, one: _HeldJob) -> JobChange:
    number, first = one.job.number, one.first
    release = release_uuid(first.uuid, number) if kind == RELEASE else ""
    return JobChange(kind, number, first.uuid, release, first.priority - 1, one.verdict.reason)


def _is_there(wanted: JobChange, present: dict[str, FilterRule]) -> bool:
    """Whether the rule exists and does what it should."""
    rule = present.get(wanted.release)
    made = wanted.rule(0)
    return rule is not None and (rule.priority, rule.predicates, rule.action) == (
        made.priority,
        made.predicates,
        made.action,
    )


def _deletions(
    present: dict[str, FilterRule],
    wanted: set[str],
    jobs: Sequence[Job],
    reasons: Mapping[int, str],
) -> Iterator[JobChange]:
    """Rules of jobs that have ended, and of queued jobs that are not released any more.

    ``reasons``: number of a job -> why.
    """
    status = {job.number: job.status for job in jobs}
    for uuid, rule in present.items():
        holding, number = released_job(rule) or ("", 0)
        if number not in status:
            yield JobChange(FORGET, number, holding, uuid, rule.priority, "it has ended")
        elif status[number] == QUEUED and uuid not in wanted:
            reason = reasons.get(number, "the rule does not hold it any more")
            yield JobChange(HOLD_AGAIN, number, holding, uuid, rule.priority, reason)


class _HeldJobs:
    """The queued jobs that rules with actions hold, each with what becomes of it."""

    def __init__(
        self,
        rules: Rules,
        jobs: Sequence[Job],
        verdict_of: VerdictOf,
        present: dict[str, FilterRule],
    ) -> None:
        """``rules``: without those that release jobs, which are ``present``."""
        faulty = {rule.uuid: "; ".join(faults_of_form(rule.predicates)) for rule in rules.rules}
        self._unknown = {uuid: why for uuid, why in faulty.items() if why} | dict(rules.unreadable)
        self._rules = [rule for rule in rules.rules if not faulty[rule.uuid]]
        self._noted = {r.uuid for r in rules.rules if noted_action(r) is not None}
        self._jobs, self._verdict_of = jobs, verdict_of
        self._released = {found[1] for rule in present.values() if (found := released_job(rule))}
        self._pending = {job.number for job in jobs}
        self._occupied = Counter[str]()
        self.unseen: list[int] = []
        """the queued jobs for which the work was not enough"""
        self._uncounted: list[int] = []
        """the started ones"""

    def outcomes(self, work: Work, matches: Matches) -> Iterator[_HeldJob]:
        """Those that are released already come first, so that they keep their place in limits."""
        matches.begin(self._rules, self._jobs)
        for job in self._jobs:
            if job.status != QUEUED:
                try:
                    self._occupied[self._limiting(matches.of(job, work))] += 1
                except WorkOver:
                    self._uncounted.append(job.number)
        turns = matches.turns()
        queued = [job for job in self._jobs if job.status == QUEUED]
        for job in sorted(queued, key=lambda job: (turns.get(job.number, 0), *self._order(job))):
            try:
                outcome = self._outcome(job, matches.of(job, work), work)
            except WorkOver:
                self.unseen.append(job.number)
                continue
            if outcome:
                checked = self._checked(outcome)
                if isinstance(checked.verdict, Release) and checked.last.action == RATE_LIMIT:
                    self._occupied[checked.last.uuid] += 1
                yield checked

    def _order(self, job: Job) -> tuple[bool, int, int]:
        return job.number not in self._released, job.priority, job.number

    def _limiting(self, matching: Iterable[FilterRule | Unknown]) -> str:
        """The limit a started job counts for, also where it was released before the limit."""
        for found in matching:
            rule = found.rule if isinstance(found, Unknown) else found
            if rule.uuid in self._noted:
                continue
            if rule.action == RATE_LIMIT:
                # Also where it may apply: rather too few are released.
                return rule.uuid
            if not isinstance(found, Unknown):
                return ""
        return ""

    def _outcome(
        self, job: Job, matching: Iterable[FilterRule | Unknown], work: Work
    ) -> _HeldJob | None:
        """None where no rule with an action is reached: luxid decides alone."""
        first, unclear, reasons = None, None, list[str]()
        for found in matching:
            rule = found.rule if isinstance(found, Unknown) else found
            unclear = unclear or (found if isinstance(found, Unknown) else None)
            if first is None and rule.uuid not in self._noted:
                if not isinstance(found, Unknown):
                    return None
                continue
            first = first or rule
            if unclear:
                return _HeldJob(job, first, rule, Hold(unclear.sentence))
            work.take(1)
            verdict = self._verdict_of(rule, job, self._occupied[rule.uuid])
            if isinstance(verdict, Release) and not verdict.final:
                reasons.append(verdict.reason)
                continue
            if rule is not first:
                verdict = verdict._replace(reason=f"filter rule {rule.uuid}: {verdict.reason}")
            return _HeldJob(job, first, rule, verdict)
        return first and _HeldJob(job, first, first, Release(", ".join(reasons)))

    def _checked(self, outcome: _HeldJob) -> _HeldJob:
        """The outcome, held where what a release would do is not certain."""
        if isinstance(outcome.verdict, Hold):
            return outcome
        reason = ""
        if self._unknown:
            reason = cannot_be_evaluated(*min(self._unknown.items()))
        elif isinstance(outcome.verdict, Release):
            reason = self._not_yet(outcome)
        return outcome._replace(verdict=Hold(reason)) if reason else outcome

    def _not_yet(self, outcome: _HeldJob) -> str:
        """Why a release would have no effect now; the job could start when it is not wanted."""
        if self._uncounted:
            return f"{_UNSEEN} {named(self._uncounted)}, which may add to a limit"
        unended = sorted(self._pending & set(outcome.job.depends))
        if unended:
            return f"the job waits for job {unended[0]}"
        if outcome.first.priority == 0:
            return "no rule can come before the priority 0; replace it with --priority 1 or more"
        return ""


def _held(outcomes: Iterable[_HeldJob]) -> Iterator[Held]:
    """One entry for each rule: what reports them compares it with that of the round before."""
    found: dict[str, list[_HeldJob]] = {}
    for one in outcomes:
        if isinstance(one.verdict, Hold):
            found.setdefault(one.first.uuid, []).append(one)
    for uuid, some in list(found.items())[:_REPORTED]:
        noted = noted_action(some[0].first)
        text = noted.text if noted else action_text(some[0].first)
        yield Held(uuid, BRAKE, f"{text} holds {_by_reason(some)}")
    if len(found) > _REPORTED:
        numbers = [one.job.number for some in list(found.values())[_REPORTED:] for one in some]
        text = f"{len(found) - _REPORTED} more filter rules hold {named(sorted(numbers))}"
        yield Held("cluster", BRAKE, text)


def _about_unseen(numbers: Sequence[int]) -> Iterator[Held]:
    if numbers:
        text = f"{_UNSEEN} {named(sorted(numbers))}; the next rounds go on with what is left"
        yield Held("cluster", LATER, text)


def _by_reason(outcomes: Iterable[_HeldJob]) -> str:
    found: dict[str, list[int]] = {}
    for one in outcomes:
        found.setdefault(one.verdict.reason, []).append(one.job.number)
    return some_of([f"{named(sorted(numbers))}: {reason}" for reason, numbers in found.items()])
