"""The simulated cluster: roles, tags, places of instances, and which of them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from ganeti_steward.core.maintenance.world import World
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
        self.nodes = {node.name: node for node in start.cluster.nodes}
        """with their roles, and their figures while they run"""
        self.instances = {one.name: one for one in start.cluster.instances}
        self.cluster_tags = frozenset(start.cluster_tags)
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
        self._cluster: Cluster | None = None

    # What the daemon sees

    def world(self, now: int) -> World:
        """The cluster without incidents and observations."""
        return self._start._replace(now=now, cluster=self.cluster)

    @property
    def cluster(self) -> Cluster:
        """The cluster as it is seen now."""
        if self._cluster is None:
            start = self._start.cluster
            self._cluster = Cluster(
                start.groups,
                map(self._shown, self.nodes.values()),
                map(self._with_status, self.instances.values()),
                sorted(self.cluster_tags),
                start.hypervisors,
            )
        return self._cluster

    def _with_status(self, one: Instance) -> Instance:
        """An instance with Ganeti's word for how it is."""
        if one.name not in self._down:
            status = "running" if one.up else "ADMIN_down"
        elif self.alive(one.primary):
            status = "ERROR_down"
        else:
            offline = self.nodes[one.primary].offline
            status = "ERROR_nodeoffline" if offline else "ERROR_nodedown"
        return one._replace(sent=one.sent.having(status=status))

    # Nodes

    def alive(self, node: str) -> bool:
        """Whether a node runs."""
        return node not in self.dead and node not in self.out

    def usable(self, node: str) -> bool:
        """Whether a node takes instances."""
        facts = self.nodes[node]
        return self.alive(node) and not (facts.offline or facts.drained)

    def set_roles(
        self,
        node: str,
        *,
        offline: bool | None = None,
        drained: bool | None = None,
        **others: bool,
    ) -> None:
        """Give a node roles, or take them from it."""
        before = self.nodes[node]
        self.nodes[node] = before._replace(
            offline=before.offline if offline is None else offline,
            drained=before.drained if drained is None else drained,
            sent=before.sent.having(**others),
        )
        self._cluster = None

    def tag_node(self, node: str, tags: Iterable[str]) -> None:
        """Give a node other tags."""
        self.nodes[node] = self.nodes[node]._replace(tags=tuple(sorted(tags)))
        self._cluster = None

    def power(self, node: str, *, dead: bool = False, out: bool = False) -> None:
        """Have a node run, be dead, or be switched off."""
        for names, is_in in ((self.dead, dead), (self.out, out)):
            (names.add if is_in else names.discard)(node)
        self._cluster = None
        self._look_at(one.name for one in self.instances.values() if one.primary == node)

    def _shown(self, node: Node) -> Node:
        """A node as it is seen: without figures while it does not run."""
        if self.alive(node.name) and not node.offline:
            return node
        missing = () if node.offline else HYPERVISOR_FIGURES
        return _without_figures(node)._replace(missing=missing)

    # Instances

    def place(self, instance: str, nodes: tuple[str, ...]) -> None:
        """Give an instance other nodes, the primary first."""
        before = self.instances[instance]
        for names, sign in ((before.nodes, 1), (nodes, -1)):
            self._take(before, names, sign)
        self.instances[instance] = before._replace(nodes=nodes)
        self._cluster = None
        self._look_at((instance,))

    def _take(self, one: Instance, nodes: tuple[str, ...], sign: int) -> None:
        """``sign``: 1: the nodes get free what it takes, -1: they do not have it any more."""
        for at, name in enumerate(nodes):
            memory = one.memory if at == 0 and one.uses_memory else 0
            disk = one.disk_space if one.local else 0
            node = self.nodes[name]
            self.nodes[name] = node._replace(
                free_memory=node.free_memory + sign * memory, free_disk=node.free_disk + sign * disk
            )

    def tag_instance(self, instance: str, tags: Iterable[str]) -> None:
        """Give an instance other tags."""
        self.instances[instance] = self.instances[instance]._replace(tags=tuple(sorted(tags)))
        self._cluster = None

    def tag_cluster(self, tags: Iterable[str]) -> None:
        """Give the cluster other tags."""
        self.cluster_tags = frozenset(tags)
        self._cluster = None

    def stop(self, instance: str) -> None:
        """An instance is down until its nodes change or `resume`."""
        if self.instances[instance].up:
            self._down.setdefault(instance, (self._clock(), FAILOVER))
            self._cluster = None

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
        self._cluster = None
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
