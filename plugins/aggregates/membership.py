"""Who is in which aggregate, the settings, and what could not be understood: as values.

What is done about a fault depends on where it is.  A fault of the cluster or the
configuration closes everything, because a lost prefix would open the reserved nodes; one of a node
or a group closes that thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ganeti_steward.plugins.aggregates.language.automatic import Ask
from ganeti_steward.plugins.aggregates.language.entitlement import Entitled
from ganeti_steward.plugins.aggregates.language.expression import Term
from ganeti_steward.plugins.aggregates.language.soft import Soft
from ganeti_steward.plugins.aggregates.language.tags import CLUSTER, VERSION, Fault

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


class Settings(NamedTuple):
    """How instances and aggregates are read."""

    forbidden: tuple[str, ...] = ()
    """prefixes of aggregates closed to instances that do not request one"""
    required: tuple[str, ...] = ()
    """prefixes of instance tags that request an aggregate"""
    unclaimable: Names = _NONE
    combine: str = "union"
    on_evacuation: str = "strict"
    version: int = VERSION
    """of the tags"""


class Rules(NamedTuple):
    """All that holds for every instance, with everything that could not be understood."""

    membership: Membership
    settings: Settings
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

    def closed(self) -> Mapping[tuple[str, str], Fault]:
        """(kind, name) of each node and group with a fault -> its first one."""
        found: dict[tuple[str, str], Fault] = {}
        for fault in self.faults:
            found.setdefault((fault.kind, fault.name), fault)
        return found
