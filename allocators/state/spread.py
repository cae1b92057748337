"""Tags ``steward:spread:NAME``: instances of one service that are to run in different places.

A place is a tag of nodes that begins with ``NAME:``, such as ``rack:a``; a node without one is a
place of its own.  A service is a tag of instances.  Only primaries are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints

#: What the tags of the cluster begin with.
PREFIX: Final = "steward:spread:"


class SpreadRule(NamedTuple):
    """What one tag of the cluster says."""

    tag: str
    """the tag itself"""
    prefix: str
    """what the tags of places begin with: ``rack:``"""
    services: str
    """shell pattern of the tags of instances; empty: Ganeti's exclusion tags"""
    most: int
    """number of instances of a service that may run in one place"""
    hard: bool
    """whether no place is better than one too many"""

    def serves(self, tag: str, exclusion: tuple[str, ...]) -> bool:
        """Whether a tag of an instance names a service; ``exclusion``: prefixes."""
        return fnmatchcase(tag, self.services) if self.services else tag.startswith(exclusion)


class Places(NamedTuple):
    """Where the nodes are, for one rule."""

    rule: SpreadRule
    names: tuple[str, ...]
    """places: its tag, or the name of the node that has none"""
    nodes: Ints
    """nodes x places: 1 where the node is in the place"""


def spread_rules(tags: Iterable[str]) -> tuple[SpreadRule, ...]:
    """The rules of a cluster's tags.

    One that cannot be read is left out: the plugin ``aggregates`` refuses every request then.
    """
    rules = []
    for tag in sorted(tags):
        if tag.startswith(PREFIX):
            with suppress(StewardError):
                rules.append(spread_rule(tag))
    return tuple(rules)


def spread_rule(tag: str) -> SpreadRule:
    """Read a tag that begins with `PREFIX`; raises StewardError with everything wrong with it."""
    text, plus, services = tag.removeprefix(PREFIX).partition("+")
    name, *words = text.split(":")
    hard, most, faults = False, 1, list[str]()
    if not name:
        faults.append("the name of the places is missing")
    if plus and not services:
        faults.append("the service after + is missing")
    left = iter(words)
    for word in left:
        if word == "hard":
            hard = True
        elif word == "max":
            number = next(left, "")
            if number.isascii() and number.isdigit() and 0 < int(number) < 10**6:
                most = int(number)
            else:
                faults.append(f"max must be a number above 0, found {number!a}")
        else:
            faults.append(f"{word!a} is neither hard nor max")
    if faults:
        raise StewardError(f"{'; '.join(faults)} (meant: {PREFIX}NAME[:hard][:max:N][+SERVICE])")
    return SpreadRule(tag, f"{name}:", services, most, hard)
