"""A planned maintenance of many nodes: its rounds, what leaves, and what is in the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.rolling.away import Away, Shortage
from ganeti_steward.allocators.rolling.copies import CopiesLeft, Copy, copies_leave, with_copies
from ganeti_steward.allocators.rolling.fleet import MIGRATE, REFUSE, SHUT_DOWN, Fleet
from ganeti_steward.allocators.rolling.hypervisors import NOT_REPORTED, Hypervisors, Trouble
from ganeti_steward.allocators.rolling.obstacles import NodeObstacle, no_copy
from ganeti_steward.allocators.rolling.rounds import EFFORT, FoundRounds, RoundLimits, find_rounds
from ganeti_steward.allocators.state.node_figures import with_disks
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.site_rules import NoSiteRules

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance
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
    full: bool = False
    """whether copies of instances that run elsewhere leave the nodes as well; they stay there"""


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
    copies: tuple[Copy, ...] = ()
    """copies of disks that leave after that"""


class InTrouble(NamedTuple):
    """A migration for which QEMU or the CPU of its target is not right."""

    round: int
    """its number, from 1"""
    leave: Leave
    trouble: Trouble
    earlier: int
    """the round in which the work on its target may help; 0: none"""


class Roll(NamedTuple):
    """All rounds, in order."""

    rounds: tuple[Round, ...]
    impossible: tuple[NodeObstacle, ...]
    """one for each node that cannot be away at all"""
    left_out: tuple[tuple[str, str], ...]
    """nodes that are not looked at, each with the reason"""

    def in_trouble(self, hypervisors: Hypervisors) -> Iterator[InTrouble]:
        """Its migrations of which trouble is known, in their order."""
        done = dict[str, int]()
        for number, one in enumerate(self.rounds, 1):
            for leave in one.leaves:
                trouble = hypervisors.trouble(leave.instance, leave.target)
                if leave.how == MIGRATE and trouble:
                    earlier = done.get(leave.target, 0) if trouble.of_qemu else 0
                    yield InTrouble(number, leave, trouble, earlier)
            done.update(dict.fromkeys(one.nodes, number))


def plan_roll(
    cluster: Cluster,
    names: Sequence[str],
    options: RollOptions = _USUAL,
    site_rules: SiteRules | None = None,
    hypervisors: Hypervisors = NOT_REPORTED,
) -> Roll:
    """Plan the maintenance of these nodes; raises PluginError.

    The same input gives the same plan.  ``hypervisors`` are used where migrations are in trouble
    otherwise, and where that costs neither a round nor a node.
    """
    plain = _RollPlanner(options, site_rules).roll(cluster, names)
    if not _in_trouble(plain, hypervisors):
        return plain
    other = _RollPlanner(options, site_rules, hypervisors).roll(cluster, names)
    return min(
        (plain, other),
        key=lambda one: (len(one.impossible), len(one.rounds), _in_trouble(one, hypervisors)),
    )


def _in_trouble(roll: Roll, hypervisors: Hypervisors) -> int:
    """How many of its migrations no earlier maintenance can help."""
    return sum(not one.earlier for one in roll.in_trouble(hypervisors))


class _RollPlanner:
    def __init__(
        self,
        options: RollOptions,
        site_rules: SiteRules | None,
        hypervisors: Hypervisors = NOT_REPORTED,
    ) -> None:
        self._options, self._site_rules, self._hypervisors = options, site_rules, hypervisors
        self._rng = random.Random(0)

    def roll(self, cluster: Cluster, names: Sequence[str]) -> Roll:
        """The rounds of those that are not offline."""
        out = {name: "it is offline" for name in names if cluster.node(name).offline}
        nodes = [name for name in dict.fromkeys(names) if name not in out]
        rounds, impossible = self.planned(cluster, nodes)
        return Roll(tuple(_master_last(cluster, rounds)), tuple(impossible), tuple(out.items()))

    def planned(
        self, cluster: Cluster, names: Sequence[str]
    ) -> tuple[list[Round], Sequence[NodeObstacle]]:
        """By what is to stay where it went."""
        if self._options.full:
            return self.full(cluster, names)
        return (self.returning if self._options.returns else self.staying)(cluster, names)

    def returning(
        self, cluster: Cluster, names: Sequence[str]
    ) -> tuple[list[Round], Sequence[NodeObstacle]]:
        """Each round begins with the cluster as it is now, so their order is free.

        A node is a better target once its own maintenance has brought a newer QEMU: the oldest
        nodes come first.
        """
        found = self._found(cluster, names, EFFORT)
        rounds = [_round(cluster, one) for one in found.rounds]
        rounds.sort(key=lambda one: max(map(self._hypervisors.version, one.nodes)))
        return rounds, found.impossible

    def staying(
        self, cluster: Cluster, names: Sequence[str]
    ) -> tuple[list[Round], list[NodeObstacle]]:
        """Each round begins with what the one before has left."""
        rounds: list[Round] = []
        left = list(names)
        while one := self._next(cluster, left):
            rounds.append(one)
            cluster = moved(cluster, one.leaves)
            left = [name for name in left if name not in one.nodes]
        return rounds, [*self._found(cluster, left, 0).impossible]

    def full(
        self, cluster: Cluster, names: Sequence[str]
    ) -> tuple[list[Round], list[NodeObstacle]]:
        """Each round begins with the copies where the one before has left them."""
        rounds, stuck = list[Round](), list[NodeObstacle]()
        left = trying = list(names)
        while one := self._next(cluster, trying):
            found = self._copies(cluster, one)
            if not found.stuck:
                rounds.append(one._replace(copies=found.copies, one_copy=()))
                cluster = with_copies(moved(cluster, self._lasting(cluster, one)), found.copies)
                left = trying = [name for name in left if name not in one.nodes]
                continue
            node, instance = found.stuck[0]
            # It may have a place where fewer nodes are away.
            trying = [name for name in one.nodes if name != node]
            if not trying:
                stuck.append(no_copy(node, instance))
                left = trying = [name for name in left if name != node]
        return rounds, [*stuck, *self._found(cluster, left, 0).impossible]

    def _copies(self, cluster: Cluster, one: Round) -> CopiesLeft:
        context = Context(site_rules=self._site_rules or NoSiteRules())
        then = moved(cluster, one.leaves)
        return copies_leave(then, one.nodes, context, self._options.kvm_memory)

    def _lasting(self, cluster: Cluster, one: Round) -> list[Leave]:
        """What does not come back: drbd instances have no disks on the node any more."""
        drbd = {each.name for each in cluster.instances if each.template == "drbd"}
        return [each for each in one.leaves if not self._options.returns or each.instance in drbd]

    def _next(self, cluster: Cluster, left: Sequence[str]) -> Round | None:
        """The first round of these nodes."""
        version = self._hypervisors.version
        wanted = _cheapest(cluster, left, version) if self._options.limits.at_once == 1 else [left]
        for some in wanted:
            found = self._found(cluster, some, 0)
            if found.rounds:
                return _round(cluster, found.rounds[0])
        return None

    def _found(self, cluster: Cluster, names: Sequence[str], effort: int) -> FoundRounds:
        options = self._options
        fleet = Fleet(
            cluster, options.choice, self._site_rules, options.kvm_memory, self._hypervisors
        )
        nodes = [cluster.node_index[name] for name in names]
        return find_rounds(fleet, nodes, options.limits, self._rng, effort)


def _cheapest(
    cluster: Cluster, left: Sequence[str], version: Callable[[str], tuple[int, ...]]
) -> Iterator[list[str]]:
    """One node each, first those after which least memory is moved a second time.

    An instance moves once where its secondary is away before its primary, and otherwise twice.
    ``version``: that of a node's QEMU; the oldest come before all others.
    """
    twice = dict.fromkeys(left, 0)
    for instance in cluster.instances:
        if instance.up and len(instance.nodes) > 1 and {*instance.nodes} <= twice.keys():
            twice[instance.nodes[0]] += instance.memory
            twice[instance.nodes[1]] -= instance.memory
    masters = {node.name for node in cluster.nodes if node.master}
    for name in sorted(left, key=lambda one: (one in masters, version(one), twice[one], one)):
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
    nodes = {node.name: node for node in cluster.nodes}
    for one in targets.values():
        for at, sign in ((one.source, 1), (one.target, -1)):
            node = nodes[at]._replace(free_memory=nodes[at].free_memory + sign * one.memory)
            instance = cluster.instance(one.instance)
            nodes[at] = with_disks(node, instance, sign) if one.copied else node
    return cluster.replace(
        nodes=nodes.values(),
        instances=(_with_target(one, targets) for one in cluster.instances),
    )


def _with_target(instance: Instance, targets: Mapping[str, Leave]) -> Instance:
    found = targets.get(instance.name)
    if found is None:
        return instance
    nodes = (found.target, *(instance.nodes[:1] if len(instance.nodes) > 1 else ()))
    return instance._replace(nodes=nodes)
