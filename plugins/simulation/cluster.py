"""The simulated cluster: roles, tags, places of instances, and which of them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.allocators.state.names import without_figures
from ganeti_steward.core.model.cluster import (
    HYPERVISOR_FIGURES,
    Cluster,
    Group,
    Instance,
    Node,
    Policy,
    Spec,
)
from ganeti_steward.plugins.model.world import World

Row = dict[str, Any]

#: Why instances are down.
DEAD: Final = "dead nodes"
SERVICE: Final = "nodes in service"
FAILOVER: Final = "failovers"
SWITCHED_OFF: Final = "nodes switched off that ran"
REBOOT: Final = "planned reboots"


class SimulatedCluster:
    """Changed by jobs, failures and the operator; the daemon sees it as a `World`."""

    def __init__(self, start: World, clock: Callable[[], int]) -> None:
        """``clock``: ns since the epoch."""
        self._start, self._clock = start, clock
        self.nodes = {node.name: node for node in start.cluster.nodes}
        """with their roles, and their figures while they run"""
        self.instances = {one.name: one for one in start.cluster.instances}
        self.groups = {group.name: group for group in start.cluster.groups}
        self.cluster_tags = frozenset(start.cluster_tags)
        self.candidate_pool_size = start.candidate_pool_size
        self.dead = set[str]()
        """names of nodes that do not run"""
        self.out = {node.name for node in self.nodes.values() if node.offline}
        """names of nodes an operator has switched off, or that are rebooted"""
        self.rebooted = set[str]()
        """names of those that are rebooted"""
        self.cut = set[str]()
        """names of nodes that run without a network"""
        self.unconnected = set[str]()
        """names of instances whose copies are not connected since a node of them was rebooted"""
        self.switched_off = set[str]()
        """names of nodes that their out-of-band program has switched off"""
        self._ran = set[str]()
        """names of those of them that ran then"""
        self.switch_offs = Counter[bool]()
        """whether the node ran -> how often an out-of-band program has switched one off"""
        self.run_twice = set[str]()
        """names of instances that were started while another node ran them"""
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
                self.groups.values(),
                map(self._shown, self.nodes.values()),
                map(self._with_status, self.instances.values()),
                sorted(self.cluster_tags),
                start.hypervisors,
                start.name,
                start.policy,
            )
        return self._cluster

    def _with_status(self, one: Instance) -> Instance:
        """An instance with Ganeti's word for how it is."""
        if not one.up:
            status = "ADMIN_down"
        elif self.answers(one.primary):
            status = "ERROR_down" if one.name in self._down else "running"
        else:
            offline = self.nodes[one.primary].offline
            status = "ERROR_nodeoffline" if offline else "ERROR_nodedown"
        return one._replace(sent=one.sent.having(status=status))

    # What luxid reports of it

    @property
    def info(self) -> Row:
        """What is known of the cluster as a whole."""
        backend = {"maxmem": 128, "minmem": 128, "vcpus": 1, "spindle_use": 1}
        return {
            "name": "demo",
            "master": next(node.name for node in self.nodes.values() if node.master),
            "candidate_pool_size": self.candidate_pool_size,
            "tags": sorted(self.cluster_tags),
            "enabled_hypervisors": list(self.cluster.hypervisors),
            "enabled_disk_templates": ["drbd", "plain"],
            "volume_group_name": "xenvg",
            "beparams": {"default": backend},
        }

    def rows(self, what: str) -> list[Row]:
        """All objects of a kind: ``node``, ``instance``, ``group`` or ``network``."""
        if what == "node":
            return [_node(node) for node in self.cluster.nodes]
        if what == "instance":
            return [_instance(one) for one in self.cluster.instances]
        return [_group(group) for group in self.cluster.groups] if what == "group" else []

    def find(self, kind: str, name: str) -> Row:
        """One of them; raises KeyError."""
        if kind == "node":
            return _node(self.nodes[name])
        return _instance(self.instances[name]) if kind == "instance" else _group(self.groups[name])

    def set_tags(self, kind: str, name: str, tags: Iterable[str]) -> None:
        """Give an object other tags."""
        if kind == "cluster":
            self.cluster_tags = frozenset(tags)
        else:
            kinds = {"node": self.nodes, "instance": self.instances, "nodegroup": self.groups}
            found: dict[str, Any] = kinds[kind]  # type: ignore[assignment]
            found[name] = found[name]._replace(tags=tuple(sorted(tags)))
        self._cluster = None

    # Nodes

    def alive(self, node: str) -> bool:
        """Whether a node runs."""
        return node not in self.dead and node not in self.out

    has_power = alive

    def answers(self, node: str) -> bool:
        """Whether anything of a node answers, from a node that has a network."""
        return self.alive(node) and node not in self.cut

    def usable(self, node: str) -> bool:
        """Whether a node takes instances."""
        facts = self.nodes[node]
        return self.answers(node) and not (facts.offline or facts.drained)

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

    def promote(self) -> None:
        """Make more nodes master candidates where there are fewer than the pool is to have."""
        usable = sorted(node.name for node in self.nodes.values() if self.usable(node.name))
        others = [name for name in usable if not self.nodes[name].master_candidate]
        wanted = min(self.candidate_pool_size, len(usable))
        for name in others[: max(wanted - len(usable) + len(others), 0)]:
            self.set_roles(name, master_candidate=True)

    def power(
        self,
        node: str,
        *,
        dead: bool = False,
        out: bool = False,
        reboot: bool = False,
        by_program: bool = False,
    ) -> None:
        """Have a node run, be dead, be switched off by a person or by its program, or rebooted."""
        ins = (self.dead, dead or by_program), (self.out, out or reboot), (self.rebooted, reboot)
        off = (self.switched_off, by_program), (self._ran, by_program and self.alive(node))
        for names, is_in in (*ins, *off):
            (names.add if is_in else names.discard)(node)
        self.cut_off(node, is_cut=False)
        self._look_at(one.name for one in self.instances.values() if one.primary == node)

    def set_power(self, node: str, *, on: bool) -> None:
        """Switch a node on or off by its out-of-band program; one that is off stays as it is."""
        if on:
            self.power(node)
        elif node not in self.switched_off | self.out:
            self.switch_offs[self.alive(node)] += 1
            self.power(node, by_program=True)

    def lose_connections(self, node: str) -> None:
        """A node was rebooted: disks on it are connected again when they are activated."""
        mirrored = (one for one in self.instances.values() if one.up and one.secondaries)
        self.unconnected |= {one.name for one in mirrored if node in one.nodes}

    def connect(self, instance: str) -> None:
        """Its disks are activated, and in sync at once."""
        self.unconnected.discard(instance)

    def cut_off(self, node: str, *, is_cut: bool) -> None:
        """Take a node's network away, or give it back; what runs there runs on."""
        (self.cut.add if is_cut else self.cut.discard)(node)
        self._cluster = None

    def free_memory(self, node: str) -> int:
        """MiB."""
        return self.nodes[node].free_memory

    def _shown(self, node: Node) -> Node:
        """A node as it is seen: without figures while it does not run."""
        if self.answers(node.name) and not node.offline:
            return node
        missing = () if node.offline else HYPERVISOR_FIGURES
        return without_figures(node)._replace(missing=missing)

    # Instances

    def place(self, instance: str, nodes: Sequence[str], *, live: bool = False) -> None:
        """Give an instance other nodes, the primary first; without ``live`` it is started there."""
        if not live and self.runs_on(instance) - {nodes[0]}:
            self.run_twice.add(instance)
        self._replace(self.instances[instance]._replace(nodes=tuple(nodes)))

    def set_state(self, instance: str, state: str) -> None:
        """``state``: up or down, as its owner wants it."""
        if state != "up":
            self._count(instance)
        self._replace(self.instances[instance]._replace(state=state))

    def _replace(self, one: Instance) -> None:
        for known, sign in ((self.instances[one.name], 1), (one, -1)):
            self._take(known, sign)
        self.instances[one.name] = one
        self._cluster = None
        self._look_at((one.name,))

    def _take(self, one: Instance, sign: int) -> None:
        """``sign``: 1: its nodes get free what it takes, -1: they do not have it any more."""
        for at, name in enumerate(one.nodes):
            memory = one.memory if at == 0 and one.uses_memory else 0
            disk = one.disk_space if one.local else 0
            node = self.nodes[name]
            self.nodes[name] = node._replace(
                free_memory=node.free_memory + sign * memory, free_disk=node.free_disk + sign * disk
            )

    def runs_on(self, instance: str) -> set[str]:
        """The name of its primary, where it runs there."""
        one = self.instances[instance]
        return {one.primary} if one.up and instance not in self._down else set()

    def whole(self, instance: str) -> set[str]:
        """Copies are the same again as soon as they are connected."""
        one = self.instances[instance]
        together = self.cut.isdisjoint(one.nodes) and instance not in self.unconnected
        return {*one.nodes} if together else {one.primary}

    def disk_status(self, instance: str, node: str) -> list[Any] | None:
        """The own disk of a side is good; the connection is not while the other one is away."""
        if not self.answers(node):
            return None
        together = all(map(self.answers, self.instances[instance].nodes))
        together = together and instance not in self.unconnected
        return [None, None, None, None, None, not together, 1]

    def renew_copy(self, instance: str, node: str) -> None:
        """Every copy is good."""
        self.connect(instance)

    def stop(self, instance: str) -> None:
        """An instance is down until its nodes change or `start`."""
        if self.instances[instance].up:
            self._down.setdefault(instance, (self._clock(), FAILOVER))
            self._cluster = None

    def start(self, instance: str) -> None:
        """An instance runs again, if its node does."""
        self._look_at((instance,))

    @property
    def down(self) -> int:
        """How many instances are down that are meant to run."""
        return len(self._down)

    def _look_at(self, names: Iterable[str]) -> None:
        for name in names:
            primary = self.instances[name].primary
            cause = self._cause(primary)
            if self._down.get(name, (0, ""))[1] == cause or not self.instances[name].up:
                continue
            self._count(name)
            if cause:
                self._down[name] = self._clock(), cause

    def _cause(self, primary: str) -> str:
        """Why what runs on a node is down; empty: the node runs."""
        if primary in self.dead:
            return SWITCHED_OFF if primary in self._ran else DEAD
        if primary in self.rebooted:
            return REBOOT
        return SERVICE if primary in self.out else ""

    def _count(self, name: str) -> None:
        since, cause = self._down.pop(name, (0, ""))
        self._cluster = None
        if cause:
            self.downtime[cause] += self._clock() - since

    def finish(self) -> None:
        """Count the downtime of the instances that are still down."""
        for name in list(self._down):
            self._count(name)


# Rows

#: Field of a `Spec` -> Ganeti's name of it.
_SPEC: Final = {
    "memory": "memory-size",
    "vcpus": "cpu-count",
    "disk": "disk-size",
    "disks": "disk-count",
    "nics": "nic-count",
    "spindles": "spindle-use",
}


def _node(node: Node) -> Row:
    row = {
        "name": node.name,
        "uuid": node.uuid,
        "group.uuid": node.group,
        "pip": node.primary_ip,
        "sip": node.primary_ip,
        "master": node.master,
        "master_candidate": node.master_candidate,
        "master_capable": True,
        "offline": node.offline,
        "drained": node.drained,
        "vm_capable": node.vm_capable,
        "powered": None,  # without an out-of-band program it is not known
        "tags": list(node.tags),
        "ndparams": {"spindle_count": node.spindles, "exclusive_storage": False, "cpu_speed": 1},
    }
    live = {
        "mtotal": node.total_memory,
        "mnode": node.reserved_memory,
        "mfree": node.free_memory,
        "dtotal": node.total_disk,
        "dfree": node.free_disk,
        "sptotal": 0,
        "spfree": 0,
        "ctotal": node.total_cpus,
        "cnos": node.reserved_cpus,
    }
    return row | (live if node.live else dict.fromkeys(live))


def _instance(one: Instance) -> Row:
    return {
        "name": one.name,
        "uuid": f"uuid-of-{one.name}",
        "pnode": one.primary,
        "snodes": list(one.secondaries),
        "admin_state": one.state,
        "status": one.status,
        "disk_template": one.template,
        "disk.sizes": [disk.size for disk in one.disks],
        "disk.spindles": [disk.spindles for disk in one.disks],
        **{f"nic.{key}": [] for key in ("macs", "ips", "modes", "links", "networks")},
        "beparams": _backend(one),
        "tags": list(one.tags),
        "oper_ram": one.memory if one.up else None,
        "os": "debootstrap+default",
        "hypervisor": "kvm",
        "forthcoming": False,
    }


def _backend(one: Instance) -> Row:
    return {
        "maxmem": one.memory,
        "minmem": one.memory,
        "vcpus": one.vcpus,
        "spindle_use": one.spindle_use,
        "auto_balance": True,
    }


def _group(group: Group) -> Row:
    return {
        "uuid": group.uuid,
        "name": group.name,
        "alloc_policy": group.alloc_policy,
        "ipolicy": _policy(group.policy),
        "tags": list(group.tags),
    }


def _policy(policy: Policy) -> Row:
    return {
        "minmax": [{"min": _spec(one.min), "max": _spec(one.max)} for one in policy.minmax],
        "std": _spec(policy.std),
        "disk-templates": sorted(policy.templates),
        "vcpu-ratio": policy.vcpu_ratio,
        "spindle-ratio": policy.spindle_ratio,
    }


def _spec(spec: Spec) -> Mapping[str, int]:
    return {name: getattr(spec, field) for field, name in _SPEC.items()}
