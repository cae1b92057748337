"""Which nodes may take an instance: the rules of every kind, per role."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.rules.checks import (
    VOLUME_GROUP,
    Check,
    first_failing,
    policy_fault,
    primary_checks,
    secondary_checks,
)
from ganeti_steward.allocators.rules.tag_checks import migration_check, spread_checks
from ganeti_steward.core.model.site_rules import PRIMARY, ROLES, SECONDARY, NoPlace, SiteRules
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand, Frame
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Instance, Node


#: What a place costs that is used last: more than anything else can differ by.
LAST: Final = 1e8


class Terms(NamedTuple):
    """What holds for one instance whatever the state: site rules, restrictions."""

    bans: Mapping[str, list[Check]]
    """role -> the checks of the site rules"""
    costs: Mapping[str, Floats]
    """role -> what each node costs in it"""
    restricted: Check | None = None
    forced: bool = False
    """drop the soft rules of the primary (--ignore-soft-errors)"""
    fault: str = ""
    """why a plugin lets no node serve at all; every node is banned then, too"""
    shares: Mapping[tuple[str, str, str], float] = MappingProxyType({})
    """(node, role, plugin or reason) -> its part of the costs"""


class Verdicts(NamedTuple):
    """The result of the rules for all nodes in one role."""

    role: str
    checks: list[Check]
    verdict: Ints
    """nodes: 0 where the node fits, otherwise 1 + position of the first failing check"""
    after: Ints
    """rows x nodes: the figures of each node with the instance on it"""
    forced: bool
    """whether soft rules were dropped"""

    @property
    def fits(self) -> Mask:
        """nodes: whether no rule refuses the node."""
        fits: Mask = self.verdict == 0
        return fits

    def failure(self, node: int) -> str:
        """hail's class of the check that refuses the node."""
        return self.checks[int(self.verdict[node]) - 1].failure

    def check(self, node: int) -> Check | None:
        """The check that refuses the node."""
        position = int(self.verdict[node])
        return self.checks[position - 1] if position else None


def terms_of(
    frame: Frame,
    instance: Instance,
    site_rules: SiteRules,
    restrict_to: tuple[str, ...] | None = None,
    *,
    forced: bool = False,
) -> Terms:
    """Collect the site rules for all nodes once; raises PluginError."""
    cluster = frame.cluster
    bans: dict[str, list[Check]] = {role: [] for role in ROLES}
    by_rule: dict[tuple[str, str], dict[int, str]] = {}
    faults: list[str] = []
    for ban in site_rules.bans(cluster, instance):
        if isinstance(ban, NoPlace):
            faults.append(ban.reason)
            continue
        node = cluster.node_index[ban.node]
        by_rule.setdefault((ban.role, ban.rule), {}).setdefault(node, ban.reason)
    fault = "; ".join(faults)
    if fault:
        everywhere = dict.fromkeys(range(frame.size), fault)
        by_rule = {(role, "no place allowed"): everywhere for role in ROLES}
    for (role, rule), reasons in by_rule.items():
        bans[role].append(_ban_check(rule, "FailTags", reasons, frame.size))
    costs = {role: np.zeros(frame.size) for role in ROLES}
    shares = site_rules.costs(cluster, instance)
    for (name, role, _), cost in shares.items():
        costs[role][cluster.node_index[name]] += cost
    return Terms(bans, costs, _restriction(frame, restrict_to), forced, fault, shares)


def used_last(frame: Frame, terms: Terms, nodes: Mask, why: str) -> Terms:
    """The same, with nodes that are used only where no other one fits; ``why``: a few words."""
    costs = {role: cost + LAST * nodes for role, cost in terms.costs.items()}
    names = frame.node_names(np.flatnonzero(nodes).tolist())
    shares = {(name, role, f"used last, {why}"): LAST for name in names for role in ROLES}
    return terms._replace(costs=costs, shares={**terms.shares, **shares})


def doubted(frame: Frame, instance: Instance, terms: Terms) -> Terms:
    """The same, with copies on nodes with unsure disk figures only where no other node fits."""
    if instance.local and frame.doubtful.any():
        terms = used_last(frame, terms, frame.doubtful, "its disk figures are doubtful")
    return kept_for_last(frame, instance, terms)


def suspects_last(frame: Frame, terms: Terms) -> Terms:
    """The same for suspect nodes alone."""
    return used_last(frame, terms, frame.suspect, "it is suspect") if frame.suspect.any() else terms


def kept_for_last(frame: Frame, instance: Instance, terms: Terms) -> Terms:
    """The same for suspect nodes, and those of which only the cluster's volume group is known."""
    terms = suspects_last(frame, terms)
    unknown = frame.pools_unknown
    if not instance.elsewhere or not unknown.any():
        return terms
    return used_last(frame, terms, unknown, "the free space of its volume groups is not known")


def known_only(frame: Frame, instance: Instance, terms: Terms) -> Terms:
    """The same without these nodes: capacity counts known room only."""
    if not instance.elsewhere or not frame.pools_unknown.any():
        return terms
    text = "the free space of its volume groups is not known"
    check = Check(VOLUME_GROUP, "FailDisk", True, frame.pools_unknown, lambda i: text)
    bans = {role: [*checks, check] for role, checks in terms.bans.items()}
    return terms._replace(bans=bans)


def _ban_check(rule: str, failure: str, reasons: Mapping[int, str], size: int) -> Check:
    failing = np.zeros(size, np.bool_)
    failing[list(reasons)] = True
    return Check(rule, failure, True, failing, reasons.__getitem__)


def _restriction(frame: Frame, names: tuple[str, ...] | None) -> Check | None:
    if names is None:
        return None
    index = frame.cluster.node_index
    outside = np.ones(frame.size, np.bool_)
    outside[[index[name] for name in names if name in index]] = False
    return Check(
        "restriction", "FailInternal", True, outside, lambda i: "not among the nodes allowed"
    )


def entry_checks(frame: Frame, terms: Terms) -> list[Check]:
    """What makes a node no candidate at all (allocation 4.5, 6)."""
    nodes = frame.cluster.nodes
    checks = [
        Check(word, "", True, failing, lambda i: _condition_text(nodes[i]))
        for word, failing in frame.conditions
    ]
    return [*checks, terms.restricted] if terms.restricted else checks


def _condition_text(node: Node) -> str:
    text = f"the node is {node.condition}"
    return f"{text}: it {node.lack}" if node.silent else text


def policy_check(frame: Frame, demand: Demand) -> Check:
    """The instance policy of each node's group (allocation 4.3)."""
    failing = np.zeros(frame.size, np.bool_)
    texts: list[tuple[Mask, str]] = []
    failure = ""
    for group, exclusive, nodes in frame.kinds:
        policy = frame.cluster.groups[group].policy
        fault = policy_fault(demand.instance, policy, exclusive)
        if fault:
            failing |= nodes
            failure = failure or fault[0]
            texts.append((nodes, fault[1]))
    return Check(
        "instance policy",
        failure,
        True,
        failing,
        lambda i: next(text for nodes, text in texts if nodes[i]),
    )


def reserve_checks(
    state: State, demand: Demand, after: Ints, role: str, *, has_copy: bool = False
) -> list[Check]:
    """The rules on what stays free (allocation 4.6); none where nothing is configured.

    ``has_copy``: the disks are there already.
    """
    if state.frame.reserves is None:
        return []
    from ganeti_steward.allocators.rules import reserve_checks as rules  # few clusters need them

    return rules.reserve_checks(state, demand, after, role, has_copy=has_copy)


def group_checks(state: State, demand: Demand, source: int = -1) -> list[Check]:
    """The same on what new instances leave in a node group.

    ``source``: the node that an instance leaves for another group; -1: it is new.
    """
    if state.frame.reserves is None or not any(state.frame.reserves.hosts):
        return []
    from ganeti_steward.allocators.rules import reserve_checks as rules

    return [rules.host_check(state, demand, source)]


def primary_verdicts(state: State, demand: Demand, terms: Terms) -> Verdicts:
    """All nodes as new primary of a new instance."""
    checks = [
        *entry_checks(state.frame, terms),
        policy_check(state.frame, demand),
        *spread_checks(state, demand),
    ]
    known = demand.instance.name in state.frame.cluster.instance_index
    checks += [] if known else group_checks(state, demand)
    return _primary_verdicts(state, demand, terms, checks, forced=terms.forced)


def move_verdicts(state: State, demand: Demand, terms: Terms, source: int) -> Verdicts:
    """All nodes as new primary of an instance that leaves ``source`` (allocation 4.4).

    ``state`` is without the instance.  Strict unless the node left is unusable.
    """
    checks = [
        *entry_checks(state.frame, terms),
        migration_check(state, source),
        *spread_checks(state, demand, source),
    ]
    forced = terms.forced or not bool(state.frame.usable[source])
    return _primary_verdicts(state, demand, terms, checks, forced=forced)


def stay_verdicts(state: State, demand: Demand, node: int, *, policy: bool) -> Verdicts:
    """The instance's own primary, which keeps it while its secondary changes.

    ``state`` is without the instance.  Only ``node`` can fit; whether it is usable does not
    matter, the instance lives there already.  ``policy``: also check the instance policy
    and the soft rules, as for a new instance (allocation 9.5), else only the hard ones.
    """
    after = state.after_primary(demand)
    checks = primary_checks(state, demand, after)
    if policy:
        checks.insert(0, policy_check(state.frame, demand))
    others = np.ones(state.frame.size, np.bool_)
    others[node] = False
    checks.insert(0, Check("primary", "FailInternal", True, others, lambda i: "not its primary"))
    verdict = first_failing(checks, state.frame.size, forced=not policy)
    return Verdicts(PRIMARY, checks, verdict, after, not policy)


def _primary_verdicts(
    state: State, demand: Demand, terms: Terms, first: list[Check], *, forced: bool
) -> Verdicts:
    after = state.after_primary(demand)
    checks = [
        *first,
        *terms.bans[PRIMARY],
        *primary_checks(state, demand, after),
        *reserve_checks(state, demand, after, PRIMARY),
    ]
    verdict = first_failing(checks, state.frame.size, forced=forced)
    return Verdicts(PRIMARY, checks, verdict, after, forced)


def secondary_verdicts(
    state: State, demand: Demand, terms: Terms, kept: Ints | int, *, forced: bool = False
) -> Verdicts:
    """All nodes as new secondary of a primary for which they keep ``kept`` MiB already."""
    after = state.after_secondary(demand, kept)
    checks = [
        *entry_checks(state.frame, terms),
        *terms.bans[SECONDARY],
        *secondary_checks(state, demand, after),
        *(reserve_checks(state, demand, after, SECONDARY) if demand.drbd else ()),
    ]
    verdict = first_failing(checks, state.frame.size, forced=forced)
    return Verdicts(SECONDARY, checks, verdict, after, forced)
