"""A planned maintenance of many nodes: its rounds, what leaves, and what is in the way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.rolling.away import Away, Shortage
from ganeti_steward.allocators.rolling.fleet import REFUSE, SHUT_DOWN, Fleet
from ganeti_steward.allocators.rolling.rounds import EFFORT, FoundRounds, RoundLimits, find_rounds

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.obstacles import NodeObstacle
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node
    from ganeti_steward.core.model.site_rules import SiteRules


class RollOptions(NamedTuple):
    """What a plan is to be like."""

    choice: str = REFUSE
    """what is done with instances that cannot migrate, see `fleet.CHOICES`"""
    limits: RoundLimits = RoundLimits()
    returns: bool = True
    """whether instances go home after each round"""
    kvm_memory: int = 0
    """MiB that the system of a KVM node itself takes; 0: as the node reports"""


_USUAL: Final = RollOptions()


class Leave(NamedTuple):
    """How one instance leaves its node for the time of a round."""

    instance: str
    how: str
    """``migrate``, ``failover``, ``shutdown`` or ``move``"""
    source: str
    target: str
    """empty where it stays on its node, shut down"""
    memory: int
    """MiB of its memory"""
    copied: int
    """MiB of its disks that are copied; once more where it goes home"""


class Round(NamedTuple):
    """Nodes that are away at the same time."""

    nodes: tuple[str, ...]
    leaves: tuple[Leave, ...]
    """by node and name; the rest of the instances stay where they are"""
    one_copy: tuple[str, ...]
    """drbd instances that have one copy only, meanwhile"""
    shortages: tuple[Shortage, ...]
    """nodes that do not fail N+1 otherwise"""


class Roll(NamedTuple):
    """All rounds, in order."""

    rounds: tuple[Round, ...]
    impossible: tuple[NodeObstacle, ...]
    """one for each node that cannot be away at all"""
    left_out: tuple[tuple[str, str], ...]
    """nodes that are not looked at, each with the reason"""


def plan_roll(
    cluster: Cluster,
    names: Sequence[str],
    options: RollOptions = _USUAL,
    site_rules: SiteRules | None = None,
) -> Roll:
    """Plan the maintenance of these nodes; raises PluginError.

    The same input gives the same plan.
    """
    out = {name: why for name in names if (why := _left_out(cluster.node(name)))}
    nodes = [name for name in dict.fromkeys(names) if name not in out]
    search = _RollPlanner(options, site_rules)
    rounds, impossible = (search.returning if options.returns else search.staying)(cluster, nodes)
    return Roll(tuple(_master_last(cluster, rounds)), tuple(impossible), tuple(out.items()))


def _left_out(node: Node) -> str:
    return "it is offline" if node.offline else ""


class _RollPlanner:
    def __init__(self, options: RollOptions, site_rules: SiteRules | None) -> None:
        self._options, self._site_rules = options, site_rules
        self._rng = random.Random(0)

    def returning(
        self, cluster: Cluster, names: Sequence[str]
    ) -> tuple[list[Round], Sequence[NodeObstacle]]:
        """Each round begins with the cluster as it is now."""
        found = self._found(cluster, names, EFFORT)
        return [_round(cluster, one) for one in found.rounds], found.impossible

    def staying(
        self, cluster: Cluster, names: Sequence[str]
    ) -> tuple[list[Round], list[NodeObstacle]]:
        """Each round begins with what the one before has left."""
        rounds: list[Round] = []
        left = list(names)
        while True:
            wanted = _cheapest(cluster, left) if self._options.limits.at_once == 1 else [left]
            for some in wanted:
                found = self._found(cluster, some, 0)
                if found.rounds:
                    break
            else:
                return rounds, [*self._found(cluster, left, 0).impossible]
            rounds.append(_round(cluster, found.rounds[0]))
            cluster = moved(cluster, rounds[-1].leaves)
            left = [name for name in left if name not in rounds[-1].nodes]

    def _found(self, cluster: Cluster, names: Sequence[str], effort: int) -> FoundRounds:
        options = self._options
        fleet = Fleet(cluster, options.choice, self._site_rules, options.kvm_memory)
        nodes = [cluster.node_index[name] for name in names]
        return find_rounds(fleet, nodes, options.limits, self._rng, effort)


def _cheapest(cluster: Cluster, left: Sequence[str]) -> Iterator[list[str]]:
    """One node each, first those after which least memory is moved a second time.

    An instance moves once where its secondary is away before its primary, and otherwise twice.
    """
    twice = dict.fromkeys(left, 0)
    for instance in cluster.instances:
        if instance.up and len(instance.nodes) > 1 and {*instance.nodes} <= twice.keys():
            twice[instance.nodes[0]] += instance.memory
            twice[instance.nodes[1]] -= instance.memory
    masters = {node.name for node in cluster.nodes if node.master}
    for name in sorted(left, key=lambda one: (one in masters, twice[one], one)):
        yield [name]


def _round(cluster: Cluster, away: Away) -> Round:
    nodes = tuple(sorted(map(away.fleet.name, away.nodes)))
    return Round(
        nodes,
        tuple(_leaves(away)),
        tuple(
            one.name
            for one in cluster.instances
            if len(one.nodes) > 1 and not one.forthcoming and not {*one.nodes}.isdisjoint(nodes)
        ),
        tuple(away.shortages()),
    )


def _leaves(away: Away) -> Iterator[Leave]:
    targets = {one.member.name: away.fleet.name(one.target) for one in away.placed}
    for node in sorted(away.nodes):
        for one in away.fleet.members[node]:
            target = "" if one.how == SHUT_DOWN else targets[one.name]
            yield Leave(
                one.name, one.how, away.fleet.name(node), target, one.demand.use, one.copied
            )


def _master_last(cluster: Cluster, rounds: Sequence[Round]) -> list[Round]:
    masters = {node.name for node in cluster.nodes if node.master}
    last = [one for one in rounds if not masters.isdisjoint(one.nodes)]
    ordered = [one for one in rounds if one not in last]
    for one in last:
        nodes = tuple(sorted(one.nodes, key=lambda name: (name in masters, name)))
        ordered.append(one._replace(nodes=nodes))
    return ordered


def moved(cluster: Cluster, leaves: Sequence[Leave]) -> Cluster:
    """The cluster with these instances on their targets."""
    targets = {one.instance: one for one in leaves if one.target}
    freed: dict[str, int] = {}
    disk: dict[str, int] = {}
    for one in targets.values():
        for node, sign in ((one.source, 1), (one.target, -1)):
            freed[node] = freed.get(node, 0) + sign * one.memory
            disk[node] = disk.get(node, 0) + sign * one.copied
    return cluster.replace(
        nodes=(
            one._replace(
                free_memory=one.free_memory + freed.get(one.name, 0),
                free_disk=one.free_disk + disk.get(one.name, 0),
            )
            for one in cluster.nodes
        ),
        instances=(_with_target(one, targets) for one in cluster.instances),
    )


def _with_target(instance: Instance, targets: Mapping[str, Leave]) -> Instance:
    found = targets.get(instance.name)
    if found is None:
        return instance
    nodes = (found.target, *(instance.nodes[:1] if len(instance.nodes) > 1 else ()))
    return instance._replace(nodes=nodes)
