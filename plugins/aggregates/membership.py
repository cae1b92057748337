"""Who is in which aggregate, the settings, and what could not be understood: as values.

What is done about a fault depends on where it is.  A fault of the cluster or the configuration
closes everything, because a lost prefix would open the reserved nodes; one of a node or a group
closes that thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.plugins.aggregates.language.expression import Term
from ganeti_steward.plugins.aggregates.language.limits import Entitled
from ganeti_steward.plugins.aggregates.language.requests import Ask, Soft
from ganeti_steward.plugins.aggregates.language.tags import CLUSTER, Fault

CONFIGURATION: Final = "configuration"

Names = frozenset[str]
_NONE: Final[Names] = frozenset()


class Membership(NamedTuple):
    """What everything itself was put into.

    Groups and nodes in nothing are left out; units and pools that are declared are not.
    """

    groups: Mapping[str, Names]
    """by uuid"""
    nodes: Mapping[str, Names]
    units: Mapping[str, Mapping[str, Names]]
    """node -> unit -> aggregates"""
    pools: Mapping[str, Names]

    def names(self) -> Names:
        """Every aggregate there is: those that have a member."""
        units = (names for owned in self.units.values() for names in owned.values())
        plain = (self.groups, self.nodes, self.pools)
        return _NONE.union(*(names for part in plain for names in part.values()), *units)


class ReadingSettings(NamedTuple):
    """How instances and aggregates are read."""

    forbidden: tuple[str, ...] = ()
    """prefixes of aggregates closed to instances that do not request one"""
    required: tuple[str, ...] = ()
    """prefixes of instance tags that request an aggregate"""
    unclaimable: Names = _NONE
    combine: str = "union"
    on_evacuation: str = "strict"


class MembershipRules(NamedTuple):
    """All that holds for every instance, with everything that could not be understood."""

    membership: Membership
    settings: ReadingSettings
    faults: tuple[Fault, ...] = ()
    """of the cluster, groups, nodes and the configuration"""
    notes: tuple[str, ...] = ()
    """entries of the configuration about things the cluster does not have"""
    configured: Mapping[str, tuple[Term | Soft, ...]] = {}
    """instance -> what the configuration requests for it"""
    automatic: tuple[Ask, ...] = ()
    """what instances request by what they are"""
    entitled: tuple[Entitled, ...] = ()
    """who may request some aggregates"""
    until: Mapping[str, str] = {}
    """aggregate -> its last day, as ``2026-12-31``"""

    def closing(self) -> tuple[Fault, ...]:
        """The faults that close everything."""
        return tuple(fault for fault in self.faults if fault.kind in (CLUSTER, CONFIGURATION))

    def check_usable(self) -> None:
        """Raise StewardError where anything closes everything."""
        if faults := self.closing():
            raise StewardError(join_faults([fault.sentence for fault in faults]))

    def closed(self) -> Mapping[tuple[str, str], Fault]:
        """(kind, name) of each node and group with a fault -> its first one."""
        found: dict[tuple[str, str], Fault] = {}
        for fault in self.faults:
            found.setdefault((fault.kind, fault.name), fault)
        return found


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
