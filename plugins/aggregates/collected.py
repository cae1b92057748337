"""What is read of tags and configuration, until it becomes `Rules`; faults are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ganeti_steward.plugins.aggregates.language.automatic import Ask
from ganeti_steward.plugins.aggregates.language.entitlement import Entitled
from ganeti_steward.plugins.aggregates.language.expression import Term
from ganeti_steward.plugins.aggregates.language.soft import Soft
from ganeti_steward.plugins.aggregates.language.tags import (
    FORBIDDEN_PREFIX,
    REQUIRED_PREFIX,
    UNCLAIMABLE,
    VERSION,
    Fault,
)
from ganeti_steward.plugins.aggregates.membership import Membership, Names, Rules, Settings

if TYPE_CHECKING:
    from ganeti_steward.plugins.aggregates.config import Aggregates


class Collected:
    """Everything that was declared so far."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.groups: dict[str, set[str]] = {}
        """uuid -> aggregates"""
        self.nodes: dict[str, set[str]] = {}
        self.units: dict[str, dict[str, set[str]]] = {}
        """node -> unit -> aggregates"""
        self.pools: dict[str, set[str]] = {}
        self.settings: dict[str, set[str]] = {
            FORBIDDEN_PREFIX: set(),
            REQUIRED_PREFIX: set(),
            UNCLAIMABLE: set(),
        }
        self.configured: dict[str, tuple[Term | Soft, ...]] = {}
        self.automatic: list[Ask] = []
        self.entitled: set[Entitled] = set()
        self.until: dict[str, str] = {}
        self.version = VERSION

    def ends(self, name: str, date: str) -> None:
        """An aggregate has a last day; of several the first one counts."""
        self.until[name] = min(date, self.until.get(name, date))

    def put(self, members: dict[str, set[str]], owner: str, name: str) -> None:
        """A unit or a pool is there, and in an aggregate unless the name is empty."""
        members.setdefault(owner, set()).update({name} - {""})

    def rules(self, config: Aggregates) -> Rules:
        """All that was read."""
        settings = Settings(
            forbidden=tuple(sorted(self.settings[FORBIDDEN_PREFIX])),
            required=tuple(sorted(self.settings[REQUIRED_PREFIX])),
            unclaimable=frozenset(self.settings[UNCLAIMABLE]),
            combine=config.combine,
            on_evacuation=config.on_evacuation,
            version=self.version,
        )
        bare = self.version >= VERSION
        membership = Membership(
            _frozen(self.groups),
            _frozen(self.nodes),
            {node: _frozen(units, bare=bare) for node, units in self.units.items()},
            _frozen(self.pools, bare=bare),
        )
        return Rules(
            membership,
            settings,
            tuple(self.faults),
            tuple(self.notes),
            self.configured,
            tuple(self.automatic),
            tuple(sorted(self.entitled)),
            self.until,
        )


def _frozen(members: Mapping[str, set[str]], *, bare: bool = False) -> dict[str, Names]:
    """``bare``: with those in nothing."""
    return {name: frozenset(names) for name, names in members.items() if names or bare}
