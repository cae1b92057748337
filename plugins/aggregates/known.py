"""The aggregates that a cluster has, for the evaluation of its nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ganeti_steward.plugins.aggregates.language.expression import Expression
from ganeti_steward.plugins.aggregates.membership import Membership, Names
from ganeti_steward.plugins.aggregates.verdict import Reason

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster


class KnownAggregates:
    """The aggregates with members, and those of each node group."""

    def __init__(self, membership: Membership, cluster: Cluster) -> None:
        self._membership, self._cluster = membership, cluster
        self._known = membership.names()
        self._trees: dict[str, Names] = {}

    def under(self, prefixes: Iterable[str]) -> dict[str, str]:
        """Every aggregate under default-forbidden prefixes -> the prefix."""
        return {
            name: prefix for prefix in prefixes for name in self._known if name.startswith(prefix)
        }

    def unknown(self, reason: Reason, expression: Expression) -> Reason:
        """The same reason, or another one where a required aggregate has no member at all."""
        for need in expression.need:
            if not need & self._known:
                names = ", ".join(sorted(need))
                return Reason(
                    f"not in aggregate {names} (no members)", f"aggregate {names} has no members"
                )
        return reason

    def tree(self, group: str) -> Names:
        """The aggregates of a group, its nodes and their units together."""
        if not self._trees:
            membership = self._membership
            trees = {g.uuid: set(membership.groups.get(g.uuid, ())) for g in self._cluster.groups}
            for node in self._cluster.nodes:
                trees[node.group].update(membership.nodes.get(node.name, ()))
                trees[node.group].update(*membership.units.get(node.name, {}).values())
            self._trees = {uuid: frozenset(names) for uuid, names in trees.items()}
        return self._trees[group]
