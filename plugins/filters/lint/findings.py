"""What lint reports."""

from __future__ import annotations

from typing import Final, NamedTuple

#: The rule cannot do what it is there for.
ERROR: Final = "error"
#: The rule probably does something else than was meant.
WARNING: Final = "warning"
#: Nothing is wrong, but it should be known.
NOTE: Final = "note"
LEVELS: Final = (ERROR, WARNING, NOTE)

#: Name of a check -> what it finds.
CHECKS: Final = {
    "invalid": "luxid would refuse the rule, or it cannot be read",
    "never": "no job can match",
    "always": "every job matches",
    "part": "a part of a predicate is never true, or always",
    "unset": "a parameter that is not set prevents the match",
    "shadowed": "an earlier rule applies to every job that would match",
    "overlap": "another rule of the same priority and with another action can match the same job",
    "daemon": "the rule holds or rejects jobs of the maintenance daemon",
}


class Finding(NamedTuple):
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
