"""The aggregates there are, each with its members: for people and for commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ganeti_steward.plugins.aggregates.membership import Membership, Names


class Members(NamedTuple):
    """Who is in one aggregate."""

    name: str
    groups: tuple[str, ...] = ()
    """uuids"""
    nodes: tuple[str, ...] = ()
    units: tuple[tuple[str, str], ...] = ()
    """node and unit"""
    pools: tuple[str, ...] = ()


def aggregates(membership: Membership) -> dict[str, Members]:
    """Every aggregate with its members, all sorted by name."""
    return {name: _members(membership, name) for name in sorted(membership.names())}


def _members(membership: Membership, name: str) -> Members:
    return Members(
        name,
        _with(membership.groups, name),
        _with(membership.nodes, name),
        tuple(
            (node, unit)
            for node, units in sorted(membership.units.items())
            for unit in _with(units, name)
        ),
        _with(membership.pools, name),
    )


def _with(members: Mapping[str, Names], name: str) -> tuple[str, ...]:
    return tuple(sorted(one for one, names in members.items() if name in names))
