"""Which nodes may serve an instance: each kind of node is evaluated once for equal requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.model.cluster import LOCAL_STORAGE
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.plugins.aggregates import verdict
from ganeti_steward.plugins.aggregates.language.expression import ROLES, STORAGE, UNIT, Expression
from ganeti_steward.plugins.aggregates.language.tags import GROUP, NODE
from ganeti_steward.plugins.aggregates.membership import Membership, MembershipRules, Names
from ganeti_steward.plugins.aggregates.requirements import Requirements

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Node


_NONE: Final[Names] = frozenset()
#: Templates whose disks are files on the nodes themselves, or blocks there.
_ON_NODES: Final = LOCAL_STORAGE | {"file"}
_NO_STORAGE: Final = frozenset({"diskless"})


class Verdicts:
    """One set of requirements with the verdicts found so far."""

    def __init__(
        self,
        rules: MembershipRules,
        known: KnownAggregates,
        requirements: Requirements,
        template: str,
    ) -> None:
        self._membership, self._combine = rules.membership, rules.settings.combine
        self._known, self._requirements, self._template = known, requirements, template
        self._implied = {role: known.under(requirements.prefixes(role)) for role in ROLES}
        plain = requirements.plain
        self._plain = {
            role: plain._replace(ban=plain.ban.union(self._implied[role])) for role in ROLES
        }
        self._own = {role: requirements.role(role) for role in ROLES}
        self._found: dict[tuple[str, Names, Names], verdict.Objection | None] = {}
        self._pools: dict[str, verdict.Objection | None] = {}
        self._simple = not (self._own[UNIT] or self._own[STORAGE] or rules.membership.pools)
        """whether only the node itself and its group matter"""

    def node(self, node: Node, role: str) -> verdict.Objection | None:
        """Why a node may not serve in a role; None when it may."""
        own = self._membership.nodes.get(node.name, _NONE)
        root = self._membership.groups.get(node.group, _NONE)
        key = role, own, root
        if key not in self._found:
            self._found[key] = self._plain_reason(own, root, role)
        reason = self._found[key]
        if reason is not None or self._simple:
            return reason
        return self._unit(node, root) or self._storage(node.group, own, root)

    def _plain_reason(self, own: Names, root: Names, role: str) -> verdict.Objection | None:
        """Plain expression with the group spanning, then the role's without (6.4)."""
        expression = self._plain[role]
        reason = verdict.in_tree(expression, own, root, self._combine)
        if reason is not None:
            return self._worded(reason, own, root, role)
        required = self._own[role]
        return None if required is None else self._for_role(required, own, role)

    def _for_role(self, required: Expression, own: Names, role: str) -> verdict.Objection | None:
        reason = verdict.by_itself(required, own)
        if reason is None:
            return None
        reason = self._known.unknown(reason, required)
        return verdict.Objection(f"{role}: {reason.rule}", f"as {role}: {reason.text}")

    def _worded(
        self, reason: verdict.Objection, own: Names, root: Names, role: str
    ) -> verdict.Objection:
        """The reason with its cause: a ban that no requirement holds is one of a prefix."""
        plain, implied = self._requirements.plain, self._implied[role]
        ban = verdict.banned(plain, own, root)
        if ban is not None:
            return ban
        found = implied.keys() & (own | root)
        if not found:
            return self._known.unknown(reason, plain)
        name = min(found)
        prefix = implied[name]
        return verdict.Objection(
            f"reserved ({prefix}*)",
            f"{verdict.where(name, own)}; an instance must request one of {prefix}*",
        )

    # -- units

    def _unit(self, node: Node, root: Names) -> verdict.Objection | None:
        """Some unit of the node must do; a node without any has one of no aggregates."""
        required = self._own[UNIT]
        if required is None:
            return None
        units = self._membership.units.get(node.name)
        if not units:
            return self._for_role(required, _NONE, UNIT)
        plain = self._plain[UNIT]
        reasons = {
            name: verdict.in_tree(plain, own, root, self._combine)
            or self._for_role(required, own, UNIT)
            for name, own in sorted(units.items())
        }
        if None in reasons.values():
            return None
        texts = "; ".join(f"{name}: {reason.text}" for name, reason in reasons.items() if reason)
        rule = f"unit: none of the node will do ({_rules(reasons.values())})"
        return verdict.Objection(rule, f"none of its units will do ({texts})")

    # -- storage

    def _storage(self, group: str, own: Names, root: Names) -> verdict.Objection | None:
        """Where the disks are: on the node itself, or in a pool that reaches its group."""
        required = self._own[STORAGE]
        if self._template in _NO_STORAGE:
            return None
        if self._template in _ON_NODES:
            return None if required is None else self._for_role(required, own, STORAGE)
        if required is None and not self._membership.pools:
            return None
        if group not in self._pools:
            self._pools[group] = self._pool(group, root, required or Expression())
        return self._pools[group]

    def _pool(self, group: str, root: Names, required: Expression) -> verdict.Objection | None:
        pools = self._reaching(group)
        if pools is None:
            # Nothing is known of the pool but that it is in no aggregate.
            return self._for_role(required, _NONE, STORAGE)
        plain = self._plain[STORAGE]
        reasons = {
            name: verdict.pool_from(plain, own, root) or self._for_role(required, own, STORAGE)
            for name, own in pools.items()
        }
        if None in reasons.values():
            return None
        if not pools:
            text = f"storage pool {self._requirements.pool} does not reach its group"
            return verdict.Objection(f"storage: pool {self._requirements.pool} out of reach", text)
        texts = "; ".join(f"{name}: {reason.text}" for name, reason in reasons.items() if reason)
        rule = f"storage: no pool will do ({_rules(reasons.values())})"
        return verdict.Objection(rule, f"no storage pool there will do ({texts})")

    def _reaching(self, group: str) -> dict[str, Names] | None:
        """The declared pools that may hold the disks; None when it is one never declared."""
        pools, named = self._membership.pools, self._requirements.pool
        tree = (self._known.tree(group),)
        if named:
            if named not in pools:
                return None
            return {named: pools[named]} if verdict.reaches(pools[named], tree) else {}
        found = {name: own for name, own in sorted(pools.items()) if verdict.reaches(own, tree)}
        return found or None


def _rules(reasons: Iterable[verdict.Objection | None]) -> str:
    """The rules that refuse the parts of one thing, each once, without the role."""
    rules = (reason.rule.rpartition(": ")[2] for reason in reasons if reason)
    return ", ".join(dict.fromkeys(rules))


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

    def unknown(self, reason: verdict.Objection, expression: Expression) -> verdict.Objection:
        """The same reason, or another one where a required aggregate has no member at all."""
        for need in expression.need:
            if not need & self._known:
                names = ", ".join(sorted(need))
                return verdict.Objection(
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


#: What things with a tag that cannot be understood are counted under.
FAULTY: Final = "faulty tag"


class Evaluator:
    """Evaluates the nodes of one cluster, each kind of node once for equal requirements."""

    def __init__(self, rules: MembershipRules, cluster: Cluster) -> None:
        self._rules, self._cluster = rules, cluster
        self._known = KnownAggregates(rules.membership, cluster)
        closed = rules.closed()
        self._closed_groups = {
            group.uuid: verdict.Objection(FAULTY, fault.sentence)
            for group in cluster.groups
            if (fault := closed.get((GROUP, group.name)))
        }
        self._closed_nodes = {
            name: verdict.Objection(FAULTY, fault.sentence)
            for (kind, name), fault in closed.items()
            if kind == NODE
        }
        self._cache: dict[tuple[Requirements, str], Verdicts] = {}

    def node(
        self, requirements: Requirements, template: str, node: Node, role: str
    ) -> verdict.Objection | None:
        """Why a node may not serve an instance in a role; None when it may.

        ``template``: the instance's disk template, which decides where its disks are.
        """
        return self._closed(node) or self._verdicts(requirements, template).node(node, role)

    def all(
        self, requirements: Requirements, template: str
    ) -> Iterator[tuple[Node, str, verdict.Objection]]:
        """Every node that may not serve, with the role and the reason."""
        verdicts = self._verdicts(requirements, template)
        for role in (PRIMARY, SECONDARY):
            for node in self._cluster.nodes:
                reason = self._closed(node) or verdicts.node(node, role)
                if reason is not None:
                    yield node, role, reason

    def _closed(self, node: Node) -> verdict.Objection | None:
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
