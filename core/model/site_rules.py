"""Site rules: what the hooks ``steward_constrain`` and ``steward_weigh`` return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance

PRIMARY: Final = "primary"
SECONDARY: Final = "secondary"
ROLES: Final = (PRIMARY, SECONDARY)

#: What every tag begins with that is meant for the program itself.
TAG_PREFIX: Final = "steward:"


class Ban(NamedTuple):
    """One node may not serve an instance in one role, and why.

    ``rule`` is the word refusals are counted under, ``reason`` the sentence shown for
    the node.  ``role`` is "primary" or "secondary".
    """

    node: str
    role: str
    rule: str
    reason: str


class NoPlace(NamedTuple):
    """No node may serve the instance, whatever the role, and why: a sentence."""

    reason: str
    everything: bool = False
    """whether the same holds for all instances; then a request to balance is refused, because a
    plan without moves would read as "balanced" """


class Cost(NamedTuple):
    """What having the instance on a node in a role costs, before the configured weight."""

    node: str
    role: str
    cost: float


class SiteRules(Protocol):
    """The rules of all plugins for one request, as an allocator reads them."""

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        """Nodes that may not serve; raises PluginError."""

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str, str], float]:
        """(node, role, plugin) -> weighted cost to add to the score; raises PluginError."""


class NoSiteRules:
    """No rules: every node may serve, at no cost."""

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        """None."""
        return ()

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str, str], float]:
        """None."""
        return {}
