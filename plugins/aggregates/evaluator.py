"""The verdict on the nodes of a cluster, for the requirements of an instance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.plugins.aggregates.known import KnownAggregates
from ganeti_steward.plugins.aggregates.language.tags import GROUP, NODE
from ganeti_steward.plugins.aggregates.membership import Rules
from ganeti_steward.plugins.aggregates.requirements import Requirements
from ganeti_steward.plugins.aggregates.verdict import Reason
from ganeti_steward.plugins.aggregates.verdicts import Verdicts

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Node

#: What things with a tag that cannot be understood are counted under.
FAULTY: Final = "faulty tag"


class Evaluator:
    """Evaluates the nodes of one cluster, each kind of node once for equal requirements."""

    def __init__(self, rules: Rules, cluster: Cluster) -> None:
        self._rules, self._cluster = rules, cluster
        self._known = KnownAggregates(rules.membership, cluster)
        closed = rules.closed()
        self._closed_groups = {
            group.uuid: Reason(FAULTY, fault.sentence)
            for group in cluster.groups
            if (fault := closed.get((GROUP, group.name)))
        }
        self._closed_nodes = {
            name: Reason(FAULTY, fault.sentence)
            for (kind, name), fault in closed.items()
            if kind == NODE
        }
        self._cache: dict[tuple[Requirements, str], Verdicts] = {}

    def node(
        self, requirements: Requirements, template: str, node: Node, role: str
    ) -> Reason | None:
        """Why a node may not serve an instance in a role; None when it may.

        ``template``: the instance's disk template, which decides where its disks are.
        """
        return self._closed(node) or self._verdicts(requirements, template).node(node, role)

    def all(self, requirements: Requirements, template: str) -> Iterator[tuple[Node, str, Reason]]:
        """Every node that may not serve, with the role and the reason."""
        verdicts = self._verdicts(requirements, template)
        for role in (PRIMARY, SECONDARY):
            for node in self._cluster.nodes:
                reason = self._closed(node) or verdicts.node(node, role)
                if reason is not None:
                    yield node, role, reason

    def _closed(self, node: Node) -> Reason | None:
        """Why the node takes no instance at all."""
        if not self._closed_nodes and not self._closed_groups:
            return None
        return self._closed_nodes.get(node.name) or self._closed_groups.get(node.group)

    def _verdicts(self, requirements: Requirements, template: str) -> Verdicts:
        verdicts = self._cache.get((requirements, template))
        if verdicts is None:
            verdicts = Verdicts(self._rules, self._known, requirements, template)
            self._cache[requirements, template] = verdicts
        return verdicts
