"""All checks of a set of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.chain import Chain, link
from ganeti_steward.plugins.filters.filter_rules import ACCEPT, CONTINUE, PAUSE, REJECT, FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import faults_of
from ganeti_steward.plugins.filters.lint.opcode_table import NAME
from ganeti_steward.plugins.filters.lint.pairs import KnownRule, contradictions, shadowed
from ganeti_steward.plugins.filters.lint.reach import Reach, reach
from ganeti_steward.plugins.filters.lint.traps import traps, unset_fields
from ganeti_steward.plugins.filters.lint.witness import (
    made_up,
    number_for,
    opcodes_for,
)
from ganeti_steward.plugins.filters.rule_notes import (
    INCIDENT,
    altered,
    purpose_of,
    shown_action,
)
from ganeti_steward.plugins.model.incident import JOB_SOURCE

#: The rule cannot do what it is there for.
ERROR: Final = "error"
#: The rule probably does something else than was meant.
WARNING: Final = "warning"
#: Nothing is wrong, but it should be known.
NOTE: Final = "note"
LEVELS: Final = (ERROR, WARNING, NOTE)

#: The number of a cluster's first job.
_FIRST_JOB: Final = 1

#: Name of a check -> what it finds.
CHECKS: Final = {
    "invalid": "luxid would refuse the rule, or it cannot be read",
    "never": "no job can match",
    "always": "every job matches",
    "part": "a part of a predicate is never true, or always",
    "effect": "the rule has no effect on the jobs that match",
    "unset": "a parameter that is not set prevents the match",
    "shadowed": "an earlier rule applies to every job that would match",
    "overlap": "another rule of the same priority and with another action can match the same job",
    "daemon": "the rule holds or rejects jobs of the maintenance daemon",
    "altered": "another user has changed what a rule of the maintenance daemon does",
}


class Remark(NamedTuple):
    """One remark about one rule."""

    level: str
    """one of `LEVELS`"""
    uuid: str
    """of the rule"""
    check: str
    """one of `CHECKS`"""
    place: str
    """in the rule, such as ``predicates[0][1]``; empty: the rule as a whole"""
    text: str
    """a sentence without its full stop"""


def lint(rules: Sequence[FilterRule], unreadable: Mapping[str, str]) -> list[Remark]:
    """All findings, by rule in the order in which jobs meet them, errors first.

    ``unreadable``: uuid -> why the rule cannot be read.  Records of incidents, which apply to no
    job, are left out.  Rules that a program has made get no notes: their effect is intended.
    """
    purposes = {rule.uuid: purpose_of(rule).kind for rule in rules}
    checked = [
        # One that is not written yet gets the number of a job when it is.
        rule._replace(watermark=rule.watermark or _FIRST_JOB)
        for rule in sorted(rules, key=lambda rule: rule.order)
        if rule.action != CONTINUE or purposes[rule.uuid] != INCIDENT
    ]
    faults = {rule.uuid: faults_of(rule.predicates) for rule in checked}
    valid = [rule for rule in checked if not faults[rule.uuid]]
    found = [
        *(Remark(ERROR, uuid, "invalid", "", text) for uuid, text in unreadable.items()),
        *(_invalid(uuid, one) for uuid, texts in faults.items() for one in texts),
        *(finding for rule in valid for finding in check_predicates(rule)),
        *check_chain(valid),
        *check_daemon(valid),
        *(
            Remark(ERROR, rule.uuid, "altered", "", text)
            for rule in rules
            if (text := altered(rule))
        ),
    ]
    at = {rule.uuid: number for number, rule in enumerate(checked)}
    return sorted(
        (one for one in found if one.level != NOTE or not purposes.get(one.uuid)),
        key=lambda one: (at.get(one.uuid, len(at)), LEVELS.index(one.level)),
    )


def _invalid(uuid: str, text: str) -> Remark:
    place, _, sentence = text.partition(": ")
    return Remark(ERROR, uuid, "invalid", place, sentence)


def check_predicates(rule: FilterRule) -> Iterator[Remark]:
    """All findings about the predicates of a valid rule."""
    reaches = [reach(one, rule.watermark) for one in rule.predicates]
    for number, (predicate, found) in enumerate(zip(rule.predicates, reaches, strict=True)):
        yield from _predicate(rule, predicate, found, f"predicates[{number}][1]")
    if all(found.possible for found in reaches) and number_for([rule]) is None:
        text = "the predicates of job ids exclude each other"
        yield Remark(ERROR, rule.uuid, "never", "predicates", text)
    if rule.action == CONTINUE and rule.predicates:
        text = "the action is CONTINUE, which has no effect on the jobs that match"
        yield Remark(NOTE, rule.uuid, "effect", "", text)
    if rule.action != CONTINUE and all(found.certain for found in reaches):
        text = f"every job matches, so that no later rule applies; the action is {rule.action}"
        yield Remark(NOTE, rule.uuid, "always", "predicates", text)


def _predicate(rule: FilterRule, predicate: Any, found: Reach, place: str) -> Iterator[Remark]:
    name, expression = predicate
    caught = list(traps(name, expression, place))
    for where, text in caught:
        level, check = (WARNING, "part") if found.possible else (ERROR, "never")
        yield Remark(level, rule.uuid, check, where, text)
    if not found.possible and not caught:
        what = {"opcode": "opcode of Ganeti 3", "reason": "reason", "jobid": "job id"}[name]
        text = f"no {what} can satisfy the expression"
        yield Remark(ERROR, rule.uuid, "never", place, text)
    if found.certain and expression is not None:
        own = ": luxid adds a reason to each opcode, and one reason that satisfies it is enough"
        text = "every job satisfies the expression" + (own if name == "reason" else "")
        yield Remark(WARNING, rule.uuid, "always", place, text)
    if name == "opcode":
        for where, text in unset_fields(expression, place, found.opcodes):
            yield Remark(WARNING, rule.uuid, "unset", where, text)


def check_chain(rules: Sequence[FilterRule]) -> Iterator[Remark]:
    """All findings about valid rules in the order in which jobs meet them."""
    acting = [KnownRule(rule) for rule in rules if rule.action != CONTINUE and _can_match(rule)]
    covered = shadowed(acting)
    for later in acting:
        if earlier := covered.get(later.rule.uuid):
            level = NOTE if _harmless(earlier.rule, later.rule) else ERROR
            text = (
                f"rule {earlier.rule.uuid} comes before it and its action {earlier.action} "
                "applies to every job that this rule matches"
            )
            yield Remark(level, later.rule.uuid, "shadowed", "", text)
    left = [one for one in acting if one.rule.uuid not in covered]
    for earlier, later in contradictions(left):
        text = (
            f"rule {earlier.rule.uuid} has the same priority and the action {earlier.action}, and "
            "jobs exist that both match: which one applies depends on which was written last"
        )
        yield Remark(WARNING, later.rule.uuid, "overlap", "", text)


def _can_match(rule: FilterRule) -> bool:
    each = all(reach(one, rule.watermark).possible for one in rule.predicates)
    return each and number_for([rule]) is not None


def _harmless(earlier: FilterRule, later: FilterRule) -> bool:
    """Whether the later rule is meant to take effect once the earlier one is removed.

    Several owners can hold the same jobs: the jobs wait for the last of them.
    """
    same = shown_action(earlier) == shown_action(later)
    owned = bool(purpose_of(earlier).kind and purpose_of(later).kind)
    return same or (owned and earlier.action in (PAUSE, REJECT))


#: What the maintenance daemon's jobs consist of.
OPCODES: Final = (
    "OP_NODE_SET_PARAMS",
    "OP_INSTANCE_MIGRATE",
    "OP_INSTANCE_MOVE",
    "OP_INSTANCE_FAILOVER",
    "OP_INSTANCE_REPLACE_DISKS",
    "OP_TAGS_SET",
    "OP_TAGS_DEL",
    "OP_GROUP_VERIFY_DISKS",
    "OP_INSTANCE_ACTIVATE_DISKS",
    "OP_INSTANCE_QUERY_DATA",
    "OP_INSTANCE_RECREATE_DISKS",
    "OP_INSTANCE_REINSTALL",
    "OP_INSTANCE_SHUTDOWN",
    "OP_INSTANCE_STARTUP",
    "OP_NODE_MODIFY_STORAGE",
    "OP_NODE_QUERYVOLS",
    "OP_NODE_QUERY_STORAGE",
    "OP_OOB_COMMAND",
    "OP_REPAIR_NODE_STORAGE",
)


#: How many rules are evaluated for jobs of the daemon, in all, which takes about 2 s.  100 rules
#: usually need fewer.
_EVALUATIONS: Final = 300_000


def check_daemon(rules: Sequence[FilterRule]) -> Iterator[Remark]:
    """A note for each valid rule that is the one that applies to such a job."""
    applies = _Applies(rules)
    for rule in rules:
        if rule.action in (ACCEPT, CONTINUE):
            continue
        names = [
            name
            for name in _daemon_opcodes(rule)
            if any(applies.to(job, rule) for job in _daemon_jobs(rule, name))
        ]
        if not names:
            continue
        every = len(names) == len(OPCODES)
        what = "all kinds of jobs" if every else f"jobs with {', '.join(names)}"
        text = (
            f"{shown_action(rule)} also applies to {what} of the maintenance daemon; an earlier "
            f'rule with action ACCEPT and [["reason", ["=", "source", "{JOB_SOURCE}"]]] excepts '
            "them"
        )
        yield Remark(NOTE, rule.uuid, "daemon", "", text)


class _Applies:
    """Which rule applies to jobs, until that has taken too long."""

    def __init__(self, rules: Sequence[FilterRule]) -> None:
        self._chain, self._left = Chain(rules), _EVALUATIONS

    def to(self, job: Job, rule: FilterRule) -> bool:
        """Whether the rule does."""
        self._left -= self._chain.work(job)
        return self._left >= 0 and self._chain.applying(job) == rule


def _daemon_opcodes(rule: FilterRule) -> Iterator[str]:
    """Names of opcodes with which a job of the daemon may match."""
    reached = [reach(one, 0).opcodes for one in rule.predicates if one[0] == "opcode"]
    names = [name for name in OPCODES if all(name in one for one in reached)]
    about = [one for one in rule.predicates if one[0] == "reason"]
    reasons = link(rule._replace(predicates=tuple(about)))
    return (name for name in names if reasons.matched(_daemon_job(_FIRST_JOB, {NAME: name})))


def _daemon_jobs(rule: FilterRule, name: str) -> Iterator[Job]:
    """Jobs of the daemon that may match."""
    number = number_for([rule])
    predicates = [predicate for predicate in rule.predicates if predicate[0] == "opcode"]
    if number is not None:
        yield from (_daemon_job(number, opcode) for opcode in opcodes_for(name, predicates))


def _daemon_job(number: int, opcode: Mapping[str, Any]) -> Job:
    return made_up(number, opcode, [Reason(JOB_SOURCE, "an incident", 10**18)])
