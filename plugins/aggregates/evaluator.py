"""The verdict on the nodes of a cluster, for whatever an instance asks (aggregates 6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.model.cluster import LOCAL_STORAGE
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.plugins.aggregates.expression import Expression
from ganeti_steward.plugins.aggregates.membership import Names, Rules
from ganeti_steward.plugins.aggregates.requirements import Wishes
from ganeti_steward.plugins.aggregates.roles import ROLES, STORAGE, UNIT
from ganeti_steward.plugins.aggregates.tags import GROUP, NODE
from ganeti_steward.plugins.aggregates.verdict import (
    Reason,
    banned,
    by_itself,
    in_tree,
    pool_from,
    reaches,
    where,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Node

#: What things with a tag that cannot be understood are counted under.
FAULTY: Final = "faulty tag"

_NONE: Final[Names] = frozenset()
#: Templates whose disks are files on the nodes themselves, or blocks there.
_ON_NODES: Final = LOCAL_STORAGE | {"file"}
_NO_STORAGE: Final = frozenset({"diskless"})


class Judge:
    """Judges the nodes of one cluster, each kind of node once for all that ask the same."""

    def __init__(self, rules: Rules, cluster: Cluster) -> None:
        self._rules, self._cluster = rules, cluster
        self._known = rules.membership.names()
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
        self._trees: dict[str, Names] = {}
        self._asked: dict[tuple[Wishes, str], _Asking] = {}

    def node(self, wishes: Wishes, template: str, node: Node, role: str) -> Reason | None:
        """Why a node may not serve an instance in a role; None when it may.

        ``template``: the instance's disk template, which says where its disks are.
        """
        return self._closed(node) or self._asking(wishes, template).node(node, role)

    def all(self, wishes: Wishes, template: str) -> Iterator[tuple[Node, str, Reason]]:
        """Every node that may not serve, with the role and the reason."""
        asking = self._asking(wishes, template)
        for role in (PRIMARY, SECONDARY):
            for node in self._cluster.nodes:
                reason = self._closed(node) or asking.node(node, role)
                if reason is not None:
                    yield node, role, reason

    def _closed(self, node: Node) -> Reason | None:
        """Why the node takes nothing, whoever asks."""
        if not self._closed_nodes and not self._closed_groups:
            return None
        return self._closed_nodes.get(node.name) or self._closed_groups.get(node.group)

    def _asking(self, wishes: Wishes, template: str) -> _Asking:
        asking = self._asked.get((wishes, template))
        if asking is None:
            asking = _Asking(self._rules, self, wishes, template)
            self._asked[wishes, template] = asking
        return asking

    def under(self, prefixes: Iterable[str]) -> dict[str, str]:
        """Every aggregate under default-forbidden prefixes -> the prefix."""
        return {
            name: prefix for prefix in prefixes for name in self._known if name.startswith(prefix)
        }

    def unknown(self, reason: Reason, expression: Expression) -> Reason:
        """The same reason; where what is asked for has no member at all, that is said."""
        for need in expression.need:
            if not need & self._known:
                names = ", ".join(sorted(need))
                return Reason(
                    f"not in aggregate {names} (nobody is)", f"nobody is in aggregate {names}"
                )
        return reason

    def tree(self, group: str) -> Names:
        """The aggregates of a group, its nodes and their units together."""
        if not self._trees:
            membership = self._rules.membership
            trees = {g.uuid: set(membership.groups.get(g.uuid, ())) for g in self._cluster.groups}
            for node in self._cluster.nodes:
                trees[node.group].update(membership.nodes.get(node.name, ()))
                trees[node.group].update(*membership.units.get(node.name, {}).values())
            self._trees = {uuid: frozenset(names) for uuid, names in trees.items()}
        return self._trees[group]


class _Asking:
    """One set of wishes with the verdicts found so far."""

    def __init__(self, rules: Rules, judge: Judge, wishes: Wishes, template: str) -> None:
        self._membership, self._combine = rules.membership, rules.settings.combine
        self._judge, self._wishes, self._template = judge, wishes, template
        self._implied = {role: judge.under(wishes.prefixes(role)) for role in ROLES}
        plain = wishes.plain
        self._plain = {
            role: plain._replace(ban=plain.ban.union(self._implied[role])) for role in ROLES
        }
        self._own = {role: wishes.role(role) for role in ROLES}
        self._found: dict[tuple[str, Names, Names], Reason | None] = {}
        self._pools: dict[str, Reason | None] = {}
        self._simple = not (self._own[UNIT] or self._own[STORAGE] or rules.membership.pools)
        """whether only the node itself and its group matter"""

    def node(self, node: Node, role: str) -> Reason | None:
        own = self._membership.nodes.get(node.name, _NONE)
        root = self._membership.groups.get(node.group, _NONE)
        key = role, own, root
        if key not in self._found:
            self._found[key] = self._judged(own, root, role)
        reason = self._found[key]
        if reason is not None or self._simple:
            return reason
        return self._unit(node, root) or self._storage(node.group, own, root)

    def _judged(self, own: Names, root: Names, role: str) -> Reason | None:
        """Plain expression with the group spanning, then the role's without (6.4)."""
        expression = self._plain[role]
        reason = in_tree(expression, own, root, self._combine)
        if reason is not None:
            return self._worded(reason, own, root, role)
        asked = self._own[role]
        return None if asked is None else self._for_role(asked, own, role)

    def _for_role(self, asked: Expression, own: Names, role: str) -> Reason | None:
        reason = by_itself(asked, own)
        if reason is None:
            return None
        told = self._judge.unknown(reason, asked)
        return Reason(f"{role}: {told.rule}", f"as {role}: {told.text}")

    def _worded(self, reason: Reason, own: Names, root: Names, role: str) -> Reason:
        """The reason as it is told: bans nobody spoke of are the prefix's."""
        plain, implied = self._wishes.plain, self._implied[role]
        said = banned(plain, own, root)
        if said is not None:
            return said
        found = implied.keys() & (own | root)
        if not found:
            return self._judge.unknown(reason, plain)
        name = min(found)
        prefix = implied[name]
        return Reason(
            f"reserved ({prefix}*)",
            f"{where(name, own)}; an instance must ask for one of {prefix}*",
        )

    # -- units

    def _unit(self, node: Node, root: Names) -> Reason | None:
        """Some unit of the node must do; a node without any has one of no aggregates."""
        asked = self._own[UNIT]
        if asked is None:
            return None
        units = self._membership.units.get(node.name)
        if not units:
            return self._for_role(asked, _NONE, UNIT)
        plain = self._plain[UNIT]
        reasons = {
            name: in_tree(plain, own, root, self._combine) or self._for_role(asked, own, UNIT)
            for name, own in sorted(units.items())
        }
        if None in reasons.values():
            return None
        told = "; ".join(f"{name}: {reason.text}" for name, reason in reasons.items() if reason)
        return Reason("unit: none of the node will do", f"none of its units will do ({told})")

    # -- storage

    def _storage(self, group: str, own: Names, root: Names) -> Reason | None:
        """Where the disks are: on the node itself, or in a pool that reaches its group."""
        asked = self._own[STORAGE]
        if self._template in _NO_STORAGE:
            return None
        if self._template in _ON_NODES:
            return None if asked is None else self._for_role(asked, own, STORAGE)
        if asked is None and not self._membership.pools:
            return None
        if group not in self._pools:
            self._pools[group] = self._pool(group, root, asked or Expression())
        return self._pools[group]

    def _pool(self, group: str, root: Names, asked: Expression) -> Reason | None:
        pools = self._reaching(group)
        if pools is None:
            # Nothing is known of the pool but that it is in no aggregate.
            return self._for_role(asked, _NONE, STORAGE)
        plain = self._plain[STORAGE]
        reasons = {
            name: pool_from(plain, own, root) or self._for_role(asked, own, STORAGE)
            for name, own in pools.items()
        }
        if None in reasons.values():
            return None
        if not pools:
            text = f"storage pool {self._wishes.pool} does not reach its group"
            return Reason("storage: out of reach", text)
        told = "; ".join(f"{name}: {reason.text}" for name, reason in reasons.items() if reason)
        return Reason("storage: no pool will do", f"no storage pool there will do ({told})")

    def _reaching(self, group: str) -> dict[str, Names] | None:
        """The declared pools that may hold the disks; None when it is one never declared."""
        pools, named = self._membership.pools, self._wishes.pool
        tree = (self._judge.tree(group),)
        if named:
            if named not in pools:
                return None
            return {named: pools[named]} if reaches(pools[named], tree) else {}
        found = {name: own for name, own in sorted(pools.items()) if reaches(own, tree)}
        return found or None
