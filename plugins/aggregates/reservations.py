"""Reservations: hosts taken out of a free pool for the instances that name the reservation (6.5).

A reservation is an aggregate under a prefix that is default-forbidden and has a free pool, the
aggregate called ``free`` there: ``reservation:free``.  A prefix without one is for something else,
licences for example.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ganeti_steward.plugins.aggregates.members import Members, aggregates
from ganeti_steward.plugins.aggregates.membership import Rules

#: What the free pool is called behind the prefix.
FREE: Final = "free"
#: What transit aggregates are called behind the prefix; a random word follows.
TRANSIT: Final = "moving-"
#: The usual prefix, which is one of reservations even while its free pool has no members.
USUAL: Final = "reservation:"


class Reservations(NamedTuple):
    """What is under one default-forbidden prefix."""

    prefix: str
    free: Members
    """the free pool; perhaps without members"""
    taken: tuple[Members, ...]
    """the reservations, by name"""
    claimable: bool
    """whether a tag that begins so requests the aggregate (it is a required prefix, too)"""


def reservations(rules: Rules) -> tuple[Reservations, ...]:
    """The free pool and the reservations of every prefix of reservations."""
    found = aggregates(rules.membership)
    prefixes = (p for p in rules.settings.forbidden if _has_pool(p, found, rules))
    return tuple(_under(prefix, found, rules) for prefix in prefixes)


def _has_pool(prefix: str, found: Collection[str], rules: Rules) -> bool:
    """Whether a prefix has a free pool: one with members, or one that no instance may request."""
    free = free_pool(prefix)
    if prefix == USUAL or free in found or free in rules.settings.unclaimable:
        return True
    return any(name.startswith(prefix + TRANSIT) for name in found)


def free_pool(prefix: str) -> str:
    """The aggregate that is the free pool under a prefix."""
    return prefix + FREE


def _under(prefix: str, found: dict[str, Members], rules: Rules) -> Reservations:
    free = free_pool(prefix)
    taken = (m for name, m in found.items() if name.startswith(prefix) and name != free)
    claimable = any(prefix.startswith(required) for required in rules.settings.required)
    return Reservations(prefix, found.get(free, Members(free)), tuple(taken), claimable)
