"""The usual policies for a job queue as rules, in a form that luxid evaluates as intended.

Jobs are let through by ACCEPT rules, which end the chain: what one rule accepts, no later rule
holds.  Therefore rules without exceptions come first, so that they hold for all jobs, and each
ACCEPT stands directly before the rule that it is an exception to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.plugins.filters.filter_rules import (
    ACCEPT,
    PAUSE,
    RATE_LIMIT,
    REJECT,
    FilterRule,
)
from ganeti_steward.plugins.model.incident import JOB_SOURCE

DRAIN: Final = "drain"
SOFT_DRAIN: Final = "soft-drain"
ONLY: Final = "only"
FORBID: Final = "forbid"
LIMIT: Final = "limit"

#: Recipe -> the priority of its first rule; with exceptions, and without.
PRIORITIES: Final = {
    DRAIN: (10, 0),
    FORBID: (1, 1),
    SOFT_DRAIN: (20, 2),
    ONLY: (30, 30),
    LIMIT: (99, 99),
}

#: What creates instances; a job with several of them submits one job for each.
CREATIONS: Final = ("OP_INSTANCE_CREATE", "OP_INSTANCE_MULTI_ALLOC")
REPLACEMENTS: Final = ("OP_INSTANCE_REPLACE_DISKS",)

#: Jobs that were submitted after the rule was written.
_NEW: Final = ["jobid", [">", "id", "watermark"]]


class Allowed(NamedTuple):
    """Jobs with one entry in their reason trail are let through."""

    source: str
    """of the entry"""
    text: str = ""
    """of the same entry, in full; empty: any"""

    @property
    def expression(self) -> list[Any]:
        """In luxid ``=~`` never matches a reason, so both are compared as a whole."""
        source = ["=", "source", self.source]
        return ["&", source, ["=", "reason", self.text]] if self.text else source


#: The jobs of the maintenance daemon.
DAEMON_JOBS: Final = Allowed(JOB_SOURCE)


def drain(allowed: Sequence[Allowed] = ()) -> list[FilterRule]:
    """Jobs that come from now on are cancelled; what is queued already runs."""
    return _excepting(DRAIN, allowed, REJECT, [_NEW])


def soft_drain(allowed: Sequence[Allowed] = ()) -> list[FilterRule]:
    """Jobs that come from now on wait; what is queued already runs."""
    return _excepting(SOFT_DRAIN, allowed, PAUSE, [_NEW])


def only(allowed: Sequence[Allowed], *, new: bool = False) -> list[FilterRule]:
    """All other jobs wait; ``new``: of those only the ones that come from now on."""
    return _excepting(ONLY, allowed, PAUSE, [_NEW] if new else [])


def forbid(opcodes: Sequence[str] = CREATIONS) -> list[FilterRule]:
    """Jobs with one of these opcodes are cancelled, those in the queue as well."""
    return [FilterRule("", PRIORITIES[FORBID][1], (_opcode(opcodes),), REJECT)]


def limit(number: int, opcodes: Sequence[str] = REPLACEMENTS) -> list[FilterRule]:
    """At most ``number`` jobs with one of these opcodes run at a time."""
    return [FilterRule("", PRIORITIES[LIMIT][1], (_opcode(opcodes),), RATE_LIMIT, number)]


def moved(rules: Sequence[FilterRule], priority: int) -> list[FilterRule]:
    """The same rules in the same order, the first one with this priority."""
    by = priority - rules[0].priority
    return [rule._replace(priority=rule.priority + by) for rule in rules]


def _excepting(
    recipe: str, allowed: Sequence[Allowed], action: str, predicates: Sequence[Any]
) -> list[FilterRule]:
    excepting, plain = PRIORITIES[recipe]
    if not allowed:
        return [FilterRule("", plain, tuple(predicates), action)]
    exception = ["reason", _any([one.expression for one in allowed])]
    return [
        FilterRule("", excepting, (exception,), ACCEPT),
        FilterRule("", excepting + 1, tuple(predicates), action),
    ]


def _opcode(opcodes: Sequence[str]) -> list[Any]:
    return ["opcode", _any([["=", "OP_ID", opcode] for opcode in opcodes])]


def _any(expressions: Sequence[list[Any]]) -> list[Any]:
    return expressions[0] if len(expressions) == 1 else ["|", *expressions]
