"""The figures that a planned maintenance is planned with, and what is done with each instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.rolling.hypervisors import NOT_REPORTED, Hypervisors
from ganeti_steward.allocators.rules.candidates import terms_of
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.cluster import EXTERNALLY_MIRRORED, INTERNALLY_MIRRORED
from ganeti_steward.core.model.site_rules import PRIMARY, NoSiteRules

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.site_rules import SiteRules

#: What a request says of instances that cannot migrate.
REFUSE: Final = "refuse"
STOP: Final = "stop"
MOVE: Final = "move"
CHOICES: Final = (REFUSE, STOP, MOVE)

#: How an instance leaves its node; a copying move stops it while its disks are copied.
MIGRATE: Final = "migrate"
FAIL_OVER: Final = "failover"
SHUT_DOWN: Final = "shutdown"
COPY: Final = "move"

#: Hypervisors of Ganeti that cannot migrate.
_WITHOUT_MIGRATION: Final = frozenset({"chroot", "lxc"})


class Member(NamedTuple):
    """An instance that runs, and how it leaves its primary."""

    demand: Demand
    primary: int
    """index of the node"""
    secondary: int
    """index of the node; -1 without one"""
    how: str
    """`MIGRATE`, `FAIL_OVER`, `SHUT_DOWN` or `COPY`; empty: the request refuses it"""

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.demand.instance.name

    @property
    def paired(self) -> bool:
        """Whether it can only go to its secondary."""
        return self.secondary >= 0

    @property
    def copied(self) -> int:
        """MiB that its leaving copies."""
        return self.demand.instance.disk_space if self.how == COPY else 0


def obstacle_to_migration(instance: Instance) -> str:
    """Why a running instance cannot migrate, as a predicate; empty: it can."""
    if instance.template not in INTERNALLY_MIRRORED | EXTERNALLY_MIRRORED:
        return f"has disks of the template {instance.template}, which are on one node only"
    if instance.hypervisor in _WITHOUT_MIGRATION:
        return f"has the hypervisor {instance.hypervisor}, which cannot migrate"
    return "is set to fail over instead of migrating" if instance.fails_over else ""


def _how(instance: Instance, choice: str) -> str:
    if not obstacle_to_migration(instance):
        return MIGRATE
    if choice == MOVE:
        mirrored = instance.template in INTERNALLY_MIRRORED | EXTERNALLY_MIRRORED
        return FAIL_OVER if mirrored else COPY
    return SHUT_DOWN if choice == STOP else ""


class Fleet:
    """A cluster as it is planned with; results are kept, nothing else changes."""

    def __init__(
        self,
        cluster: Cluster,
        choice: str = REFUSE,
        site_rules: SiteRules | None = None,
        kvm_memory: int = 0,
        hypervisors: Hypervisors = NOT_REPORTED,
    ) -> None:
        """``choice``: one of `CHOICES`; ``kvm_memory``: as of `load`."""
        self.cluster, self.choice, self._hypervisors = cluster, choice, hypervisors
        self.state: State = load(cluster, None, kvm_memory)
        self.vcpu_limit = self.state.frame.vcpu_limit
        """nodes: number of vcpus it may have in use"""
        self._site_rules = site_rules or NoSiteRules()
        self.members: Mapping[int, tuple[Member, ...]] = {
            node: tuple(_members(self.state, node, choice)) for node in range(self.size)
        }
        """node -> the instances that run there"""
        self.partners = _partners(cluster)
        """nodes: those with which each shares an instance"""
        self._allowed: dict[str, Mask] = {}

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.state.frame.size

    def name(self, node: int) -> str:
        """The name of a node."""
        return self.cluster.nodes[node].name

    def allowed(self, member: Member) -> Mask:
        """nodes: where rules that depend on no other instance let it run; raises PluginError."""
        found = self._allowed.get(member.name)
        if found is None:
            found = self._allowed[member.name] = self._allow(member)
        return found

    def troubled(self, member: Member) -> Mask:
        """nodes: whose QEMU or CPU is not right for its migration, as far as that is known."""
        trouble, found = self._hypervisors.trouble, np.zeros(self.size, np.bool_)
        if member.how == MIGRATE and self._hypervisors.nodes:
            found[:] = [trouble(member.name, one.name) is not None for one in self.cluster.nodes]
        return found

    def _allow(self, member: Member) -> Mask:
        frame = self.state.frame
        found: Mask = frame.usable & frame.accepts(member.primary)
        for check in terms_of(frame, member.demand.instance, self._site_rules).bans[PRIMARY]:
            found &= ~check.failing
        if member.paired:
            only = np.zeros(self.size, np.bool_)
            only[member.secondary] = True
            return found & only
        found &= frame.group == frame.group[member.primary]
        found[member.primary] = False
        return found


def _members(state: State, node: int, choice: str) -> Iterator[Member]:
    """Those that run, by name."""
    for one in sorted(state.residents.get(node, ()), key=lambda one: one.demand.instance.name):
        instance = one.demand.instance
        if instance.up:
            yield Member(one.demand, one.primary, one.secondary, _how(instance, choice))


def _partners(cluster: Cluster) -> tuple[frozenset[int], ...]:
    found: list[set[int]] = [set() for _ in cluster.nodes]
    for instance in cluster.instances:
        nodes = [cluster.node_index[name] for name in instance.nodes]
        for node in nodes if not instance.forthcoming else ():
            found[node].update(other for other in nodes if other != node)
    return tuple(map(frozenset, found))
