"""The simulated cluster: roles, tags, places of instances, and which of them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from ganeti_steward.core.maintenance.world import InstanceFacts, NodeFacts, World
from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES, Cluster, Instance, Node

#: Why instances are down.
DEAD: Final = "dead nodes"
SERVICE: Final = "nodes in service"
FAILOVER: Final = "failovers"


class Site:
    """Changed by jobs, failures and the operator; the daemon sees it as a `World`."""

    def __init__(self, start: World, clock: Callable[[], int]) -> None:
        """``clock``: ns since the epoch."""
        self._start, self._clock = start, clock
        self.nodes = {node.name: node for node in start.nodes.values()}
        self.instances = {
            name: one._replace(status="running" if one.up else "ADMIN_down")
            for name, one in start.instances.items()
        }
        self.cluster_tags = set(start.cluster_tags)
        self.candidate_pool_size = start.candidate_pool_size
        self.dead = set[str]()
        """names of nodes that do not run"""
        self.out = {node.name for node in self.nodes.values() if node.offline}
        """names of nodes an operator has switched off"""
        self.busy = set[str]()
        """names of instances that a job works on"""
        self.downtime = Counter[str]()
        """cause -> ns, of all instances that are meant to run"""
        self._down: dict[str, tuple[int, str]] = {}
        self._figures = {node.name: node for node in start.cluster.nodes}
        self._described = {one.name: one for one in start.cluster.instances}
        self._shown = dict(self._figures)
        self._cluster: Cluster | None = start.cluster

    # What the daemon sees

    def world(self, now: int) -> World:
        """The cluster without incidents and observations."""
        return self._start._replace(
            now=now,
            cluster=self.cluster,
            nodes={node.uuid: node for node in self.nodes.values()},
            instances={**self.instances, **{name: self._with_status(name) for name in self._down}},
            cluster_tags=frozenset(self.cluster_tags),
        )

    @property
    def cluster(self) -> Cluster:
        """The cluster as an allocator sees it."""
        if self._cluster is None:
            self._cluster = self._start.cluster.replace(
                self._shown.values(), self._described.values()
            )
        return self._cluster

    def described(self, instance: str) -> Instance:
        """The figures of an instance."""
        return self._described[instance]

    def _with_status(self, instance: str) -> InstanceFacts:
        """An instance that is down, with Ganeti's word for that."""
        one = self.instances[instance]
        if self.alive(one.primary):
            return one._replace(status="ERROR_down")
        offline = self.nodes[one.primary].offline
        return one._replace(status="ERROR_nodeoffline" if offline else "ERROR_nodedown")

    # Nodes

    def alive(self, node: str) -> bool:
        """Whether a node runs."""
        return node not in self.dead and node not in self.out

    def usable(self, node: str) -> bool:
        """Whether a node takes instances."""
        facts = self.nodes[node]
        return self.alive(node) and not (facts.offline or facts.drained)

    def change(self, facts: NodeFacts) -> None:
        """Give a node other roles or tags."""
        self.nodes[facts.name] = facts
        self._show(facts.name)

    def power(self, node: str, *, dead: bool = False, out: bool = False) -> None:
        """Have a node run, be dead, or be switched off."""
        for names, is_in in ((self.dead, dead), (self.out, out)):
            (names.add if is_in else names.discard)(node)
        self._show(node)
        self._look_at(one.name for one in self.instances.values() if one.primary == node)

    def _show(self, node: str) -> None:
        facts, figures = self.nodes[node], self._figures[node]
        shown = figures._replace(
            offline=facts.offline, drained=facts.drained, tags=tuple(sorted(facts.tags))
        )
        if facts.offline or not self.alive(node):
            missing = () if facts.offline else HYPERVISOR_FIGURES
            shown = _without_figures(shown)._replace(missing=missing)
        self._shown[node] = shown
        self._cluster = None

    # Instances

    def place(self, instance: str, nodes: tuple[str, ...]) -> None:
        """Give an instance other nodes, the primary first."""
        before, described = self.instances[instance], self._described[instance]
        for names, sign in ((before.nodes, 1), (nodes, -1)):
            self._take(described, names, sign)
        self.instances[instance] = before._replace(primary=nodes[0], secondaries=nodes[1:])
        self._described[instance] = described._replace(nodes=nodes)
        for name in {*before.nodes, *nodes}:
            self._show(name)
        self._look_at((instance,))

    def _take(self, one: Instance, nodes: tuple[str, ...], sign: int) -> None:
        """``sign``: 1: the nodes get free what it takes, -1: they do not have it any more."""
        for at, name in enumerate(nodes):
            memory = one.memory if at == 0 and one.uses_memory else 0
            disk = one.disk_space if one.local else 0
            figures = self._figures[name]
            self._figures[name] = figures._replace(
                free_memory=figures.free_memory + sign * memory,
                free_disk=figures.free_disk + sign * disk,
            )

    def tag_instance(self, facts: InstanceFacts) -> None:
        """Give an instance other tags."""
        self.instances[facts.name] = facts
        self._described[facts.name] = self._described[facts.name]._replace(
            tags=tuple(sorted(facts.tags))
        )
        self._cluster = None

    def stop(self, instance: str) -> None:
        """An instance is down until its nodes change or `resume`."""
        if self.instances[instance].up:
            self._down.setdefault(instance, (self._clock(), FAILOVER))

    def resume(self, instance: str) -> None:
        """An instance runs again, if its node does."""
        self._look_at((instance,))

    @property
    def down(self) -> int:
        """How many instances are down that are meant to run."""
        return len(self._down)

    def _look_at(self, names: Iterable[str]) -> None:
        for name in names:
            primary = self.instances[name].primary
            cause = DEAD if primary in self.dead else SERVICE if primary in self.out else ""
            if self._down.get(name, (0, ""))[1] == cause or not self.instances[name].up:
                continue
            self._count(name)
            if cause:
                self._down[name] = self._clock(), cause

    def _count(self, name: str) -> None:
        since, cause = self._down.pop(name, (0, ""))
        if cause:
            self.downtime[cause] += self._clock() - since

    def finish(self) -> None:
        """Count the downtime of the instances that are still down."""
        for name in list(self._down):
            self._count(name)


def _without_figures(node: Node) -> Node:
    return node._replace(
        total_memory=0.0,
        reserved_memory=0,
        free_memory=0,
        total_disk=0.0,
        free_disk=0,
        total_cpus=0.0,
        reserved_cpus=0,
        free_spindles=0,
        spindles=0 if node.exclusive_storage else node.spindles,
    )
