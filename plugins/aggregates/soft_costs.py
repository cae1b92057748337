"""What soft membership costs on each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.model.site_rules import ROLES, Cost
from ganeti_steward.plugins.aggregates.language.soft import Soft
from ganeti_steward.plugins.aggregates.membership import Membership, Names

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster

_NONE: Final[Names] = frozenset()


def soft_costs(membership: Membership, cluster: Cluster, soft: Sequence[Soft]) -> Iterator[Cost]:
    """The cost of each node in each role, where there is any."""
    for role in ROLES:
        own = [one for one in soft if one.term.role in ("", role)]
        for node in cluster.nodes if own else ():
            mine = membership.nodes.get(node.name, _NONE)
            around = membership.groups.get(node.group, _NONE)
            cost = sum(one.cost(mine, around) for one in own)
            if cost:
                yield Cost(node.name, role, cost)
