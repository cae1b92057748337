"""Rules that apply to the jobs with which the maintenance daemon repairs nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.maintenance.incident import JOB_SOURCE
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.filter_rules import ACCEPT, FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.lint.findings import NOTE, Finding
from ganeti_steward.plugins.filters.lint.witness import made_up, number_for, opcodes_for
from ganeti_steward.plugins.filters.noted_action import shown_action

#: What its jobs consist of.
OPCODES: Final = (
    "OP_NODE_SET_PARAMS",
    "OP_INSTANCE_MIGRATE",
    "OP_INSTANCE_FAILOVER",
    "OP_INSTANCE_REPLACE_DISKS",
    "OP_TAGS_SET",
    "OP_TAGS_DEL",
)


def check_daemon(rules: Sequence[FilterRule]) -> Iterator[Finding]:
    """A note for each valid rule that is the one that applies to such a job."""
    chain = Chain(rules)
    for rule in rules:
        names = [
            name for name in OPCODES if any(_applies(chain, rule, one) for one in _jobs(rule, name))
        ]
        if names and rule.action != ACCEPT:
            yield Finding(NOTE, rule.uuid, "daemon", "", _text(rule, names))


def _jobs(rule: FilterRule, name: str) -> Iterator[Job]:
    """Jobs of the daemon that may match."""
    number = number_for([rule])
    predicates = [one for one in rule.predicates if one[0] == "opcode"]
    if number is not None:
        for opcode in opcodes_for(name, predicates):
            yield made_up(number, opcode, [Reason(JOB_SOURCE, "an incident", 10**18)])


def _applies(chain: Chain, rule: FilterRule, job: Job) -> bool:
    return chain.applying(job) == rule


def _text(rule: FilterRule, names: Sequence[str]) -> str:
    what = "all kinds of jobs" if len(names) == len(OPCODES) else f"jobs with {', '.join(names)}"
    return (
        f"{shown_action(rule)} also applies to {what} of the maintenance daemon; an earlier rule "
        f'with action ACCEPT and [["reason", ["=", "source", "{JOB_SOURCE}"]]] excepts them'
    )
