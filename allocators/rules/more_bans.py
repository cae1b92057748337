"""Site rules with bans of a program's own: nodes it must not use, whatever the site says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.rules.checks import PASSING, RESERVED
from ganeti_steward.core.model.site_rules import ROLES, Ban, NoPlace, SiteRules

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance


#: What the nodes that must not be used are counted under in a refusal.
_AVOIDED: Final = "under repair"


class MoreBans:
    """Site rules, and bans of nodes that must not be used."""

    def __init__(self, rules: SiteRules, bans: tuple[Ban, ...]) -> None:
        self._rules, self._bans = rules, bans

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        """What the rules return, with the own bans first."""
        return (*self._bans, *self._rules.bans(cluster, instance))

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str, str], float]:
        """What the rules return."""
        return self._rules.costs(cluster, instance)


def unused_nodes(
    avoided: Mapping[str, str],
    reserved: frozenset[str],
    cluster: Cluster,
    passing: frozenset[str] = frozenset(),
) -> Iterator[Ban]:
    """Bans of nodes by name: of those to be avoided (-> why), and of those others use now.

    ``passing``: those not used for a short time only, although they may be avoided, too.
    """
    nodes = dict.fromkeys(reserved, (RESERVED, "another task uses it"))
    nodes |= {name: (_AVOIDED, why) for name, why in avoided.items()}
    nodes |= dict.fromkeys(passing, (PASSING, "it is under repair for a short time"))
    for name, (rule, why) in sorted(nodes.items()):
        if name in cluster.node_index:
            yield from (Ban(name, role, rule, why) for role in ROLES)
