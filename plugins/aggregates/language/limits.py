"""Which instances may request an aggregate, and until when it is meant to be used.

An aggregate that no entry is about may be requested by every instance.  The other ones may be
requested by instances with one of the tags, or with a name that fits one of the patterns, and by
the configuration: what ``[aggregates.instances]`` and ``[aggregates.ask]`` request was written by
the administrator, not by the owner of the instance.

The last day of a reservation is a date as ``2026-12-31``; the day itself still counts, in the time
zone of the machine.  Nothing happens by itself at the end: it is shown, and there are notes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.plugins.aggregates.language.expression import TAG, ExpressionError, checked_name

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance


class Entitled(NamedTuple):
    """Who may request an aggregate: instances with a tag, or those of some names."""

    aggregate: str
    """its name; with ``*`` at the end those that begin so"""
    tag: str = ""
    """``*`` in it stands for what the one in ``aggregate`` stands for"""
    instance: str = ""
    """pattern of names, as the shell's"""

    def concerns(self, aggregate: str) -> bool:
        """Whether it is about an aggregate."""
        if self.aggregate.endswith("*"):
            return aggregate.startswith(self.aggregate[:-1])
        return aggregate == self.aggregate

    def admits(self, aggregate: str, instance: Instance) -> bool:
        """Whether it lets an instance request an aggregate that it concerns."""
        if self.instance and fnmatchcase(instance.name, self.instance):
            return True
        return bool(self.tag) and self.wanted(aggregate) in instance.tags

    def wanted(self, aggregate: str) -> str:
        """The tag that entitles to an aggregate."""
        if not self.aggregate.endswith("*"):
            return self.tag
        return self.tag.replace("*", aggregate.removeprefix(self.aggregate[:-1]))


def lacking(rules: Iterable[Entitled], aggregate: str, instance: Instance) -> str:
    """Why an instance may not request an aggregate; empty when it may."""
    found = [rule for rule in rules if rule.concerns(aggregate)]
    if not found or any(rule.admits(aggregate, instance) for rule in found):
        return ""
    return f"only {entitled_text(found, aggregate)} may request aggregate {aggregate}"


def entitled_text(rules: Iterable[Entitled], aggregate: str) -> str:
    """Who may request an aggregate, for people; empty where everybody may."""
    found = [rule for rule in rules if rule.concerns(aggregate)]
    tags = sorted({rule.wanted(aggregate) for rule in found if rule.tag})
    names = sorted({rule.instance for rule in found if rule.instance})
    parts = [f"instances with the tag {' or '.join(tags)}"] if tags else []
    parts += [f"instances named {' or '.join(names)}"] if names else []
    return " and ".join(parts)


def checked_pattern(name: str) -> str:
    """The name of an aggregate, or the beginning of names and ``*``; raises ExpressionError."""
    if name.endswith("*"):
        checked_name(name[:-1] + "x", TAG)
    else:
        checked_name(name, TAG)
    return name


def entitled_by(aggregate: str, *, tag: str = "", instance: str = "") -> Entitled:
    """One entry, checked; raises ExpressionError."""
    if not tag and not instance:
        raise ExpressionError("names no tag and no instance")
    return Entitled(checked_pattern(aggregate), tag, instance)


#: Days before the end from which on there are notes.
SOON: Final = 7

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)

#: Returns seconds since 1970.
Clock = Callable[[], float]


def checked_date(text: str) -> str:
    """A date that exists, ``YYYY-MM-DD``; raises ExpressionError."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        time.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise ExpressionError(f"{text!a} is not a date (YYYY-MM-DD)") from None
    return text


def day(clock: Clock, later: int = 0) -> str:
    """The day it is, or one ``later`` days from now, as ``2026-12-31``."""
    # At noon: no change of the clocks makes another day of it.
    now = time.localtime(clock())
    then = time.mktime((now.tm_year, now.tm_mon, now.tm_mday + later, 12, 0, 0, 0, 0, -1))
    return time.strftime("%Y-%m-%d", time.localtime(then))


def ended(until: Mapping[str, str], name: str, clock: Clock) -> bool:
    """Whether the last day of an aggregate is over."""
    return name in until and until[name] < day(clock)


def warning(until: Mapping[str, str], name: str, clock: Clock) -> str:
    """What is to be known about the end of an aggregate; empty when there is nothing now."""
    if name not in until:
        return ""
    if until[name] < day(clock):
        return f"{name} ended on {until[name]}"
    return f"{name} ends on {until[name]}" if until[name] <= day(clock, SOON) else ""
