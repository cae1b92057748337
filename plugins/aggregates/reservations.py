"""Reservations: hosts taken out of a free pool for the instances that name the reservation (6.5).

A reservation is an aggregate under a prefix that is default-forbidden.  The free pool is the
one called ``free`` there: ``reservation:free``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.plugins.aggregates.members import Members, aggregates
from ganeti_steward.plugins.aggregates.membership import Rules

#: What the free pool is called behind the prefix.
FREE: Final = "free"


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
    """The free pool and the reservations of every default-forbidden prefix."""
    found = aggregates(rules.membership)
    return tuple(_under(prefix, found, rules) for prefix in rules.settings.forbidden)


def free_pool(prefix: str) -> str:
    """The aggregate that is the free pool under a prefix."""
    return prefix + FREE


def _under(prefix: str, found: dict[str, Members], rules: Rules) -> Reservations:
    free = free_pool(prefix)
    taken = (m for name, m in found.items() if name.startswith(prefix) and name != free)
    claimable = any(prefix.startswith(required) for required in rules.settings.required)
    return Reservations(prefix, found.get(free, Members(free)), tuple(taken), claimable)
