"""Random but realistic clusters, as the iallocator message describes them.

One random generator, seeded from the options, makes every choice; the same options always
give the same cluster.  The order of the draws is therefore part of what this module does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cluster_parts import (
    INST_CPU,
    INST_DISK,
    INST_MEM,
    KVM_STATIC_MEM,
    LOCAL,
    NODE_SHAPES,
    SERVICE_TAG,
    Demand,
    Json,
    Node,
    Shape,
    aggregate,
    disk_space,
    instance_entry,
    keeping_out,
    node_entry,
    parse_mix,
    pick_weighted,
)

#: Templates allowed by every policy, whatever the mix.
ALWAYS_ENABLED: Final = ("drbd", "plain", "ext", "sharedfile", "diskless")


class ClusterOptions(Protocol):
    """The command line's options that shape the cluster."""

    nodes: int
    groups: int
    per_node: float
    instances: int | None
    fill: float
    mix: str
    hetero: float
    shape: str | None
    offline: int
    drained: int
    vm_incapable: int
    down: float
    admin_offline: float
    forthcoming: float
    excl_tags: float
    allow_conflicts: bool
    location_tags: bool
    desired_location: float
    migration_tags: bool
    racks: int
    aggregates: int
    exclusive_storage: bool
    missing_mem: int
    policies: str
    networks: int
    hypervisor: str
    vcpu_ratio: float
    spindle_ratio: float
    cpu_margin: float
    max_mem: int
    max_cpu: int
    choices: int
    round_sizes: bool
    domain: str
    seed: str


def build(args: ClusterOptions) -> Json:
    """Create the cluster: the iallocator message without a request."""
    rng = random.Random(args.seed)
    mix = parse_mix(args.mix)
    policy_of = _PolicyMaker(args, sorted({*mix, *ALWAYS_ENABLED}))
    groups = {f"uuid-group-{g:02d}": _group(args, g, policy_of) for g in range(args.groups)}
    nodes = _make_nodes(args, rng, list(groups))
    _take_out_of_service(args, rng, nodes)
    instances = _Placer(args, rng, mix, nodes, list(groups)).place_all()
    _forget_forthcoming(instances, nodes)
    _put_into_aggregates(args, nodes, instances)
    return {
        "version": 2,
        "cluster_name": f"cluster.{args.domain}",
        "cluster_tags": _cluster_tags(args),
        "enabled_hypervisors": [args.hypervisor],
        "ipolicy": policy_of(),
        "nodegroups": groups,
        "nodes": {node.name: node_entry(node, at) for at, node in enumerate(nodes)},
        "instances": instances,
    }


def _specs(mem: int, cpu: int, disk: int, disks: int, nics: int, spindles: int) -> Json:
    return {
        "memory-size": mem,
        "cpu-count": cpu,
        "disk-size": disk,
        "disk-count": disks,
        "nic-count": nics,
        "spindle-use": spindles,
    }


@dataclass(frozen=True, slots=True)
class _PolicyMaker:
    """Gives a new instance policy each time it is called."""

    args: ClusterOptions
    templates: list[str]

    def __call__(self) -> Json:
        largest = _specs(self.args.max_mem, self.args.max_cpu, 1048576, 16, 8, 12)
        return {
            "minmax": [{"min": _specs(128, 1, 1024, 1, 1, 1), "max": largest}],
            "std": _specs(2048, 2, 20480, 1, 1, 1),
            "disk-templates": self.templates,
            "vcpu-ratio": self.args.vcpu_ratio,
            "spindle-ratio": self.args.spindle_ratio,
        }


def _group(args: ClusterOptions, at: int, policy_of: _PolicyMaker) -> Json:
    policies = args.policies.split(",") if args.policies else ["preferred"]
    return {
        "name": f"group{at:02d}",
        "alloc_policy": policies[at % len(policies)],
        "networks": [f"net-{k}" for k in range(args.networks) if (k + at) % 2 == 0],
        "ipolicy": policy_of(),
        "tags": [],
    }


def _cluster_tags(args: ClusterOptions) -> list[str]:
    tags = []
    if args.excl_tags:
        tags.append("htools:iextags:service")
    if args.location_tags:
        tags.append("htools:nlocation:power")
    if args.desired_location:
        tags.append("htools:desiredlocation:power")
        if not args.location_tags:
            tags.append("htools:nlocation:power")
    if args.aggregates:
        tags.append("steward:default-forbidden-prefix:reservation:")
    if args.migration_tags:
        tags += ["htools:migration:hv", "htools:allowmigration:hv:1::hv:2"]
    return tags


def _put_into_aggregates(
    args: ClusterOptions, nodes: Sequence[Node], instances: Mapping[str, Json]
) -> None:
    """Tags for the nodes and what is there, drawn by themselves: nothing else changes."""
    if not args.aggregates:
        return
    rng = random.Random(f"{args.seed}-aggregates")
    reservations = range(2, args.aggregates, 3)
    tenants = [at for at in range(args.aggregates) if at not in reservations]
    for node in nodes:
        chosen = rng.sample(tenants, 2)
        if rng.random() < 0.2:
            chosen.append(rng.choice(reservations))
        node.tags += [f"steward:aggregate:{aggregate(at)}" for at in chosen]
    for instance in instances.values():
        instance["tags"].append(keeping_out(args.aggregates, rng))


def _make_nodes(args: ClusterOptions, rng: random.Random, groups: Sequence[str]) -> list[Node]:
    usual = tuple(int(x) for x in args.shape.split(",")) if args.shape else NODE_SHAPES[2]
    width = max(3, len(str(args.nodes)))
    nodes = []
    for i in range(args.nodes):
        shape = rng.choice(NODE_SHAPES) if rng.random() < args.hetero else usual
        name = f"node{i + 1:0{width}d}.{args.domain}"
        node = _make_node(args, rng, name, groups[i % len(groups)], shape)
        if args.location_tags or args.desired_location:
            node.tags.append(f"power:rack{i // max(1, len(groups)) % args.racks}")
        if args.migration_tags:
            node.tags.append(f"hv:{1 if rng.random() < 0.5 else 2}")
        nodes.append(node)
    return nodes


def _make_node(
    args: ClusterOptions, rng: random.Random, name: str, group: str, shape: Shape
) -> Node:
    mem, disk, cpu, spindles = shape
    spread = args.missing_mem
    return Node(
        name,
        group,
        mem,
        disk,
        cpu,
        spindles,
        reserved=KVM_STATIC_MEM if args.hypervisor == "kvm" else int(mem * 0.01) + 512,
        overhead=rng.randrange(-spread, spread + 1) if spread else 0,
        exclusive=args.exclusive_storage,
        spindles_free=spindles,
    )


def _take_out_of_service(args: ClusterOptions, rng: random.Random, nodes: Sequence[Node]) -> None:
    drawn = list(nodes)
    rng.shuffle(drawn)
    for at, node in enumerate(drawn[: args.offline + args.drained + args.vm_incapable]):
        if at < args.offline:
            node.offline = True
        elif at < args.offline + args.drained:
            node.drained = True
        else:
            node.vm_capable = False


class _Placer:
    """Draws instances and finds a place for each, until there are enough."""

    def __init__(
        self,
        args: ClusterOptions,
        rng: random.Random,
        mix: dict[str, float],
        nodes: Sequence[Node],
        groups: Sequence[str],
    ) -> None:
        self._args = args
        self._rng = rng
        self._mix = mix
        self._groups = groups
        self._members = {g: [node for node in nodes if node.group == g] for g in groups}
        self._limit = {
            g: sum(node.mem for node in members) * args.fill for g, members in self._members.items()
        }
        self._used = dict.fromkeys(groups, 0)
        self._services = max(2, int(args.nodes * args.per_node * args.excl_tags) // 3)

    def place_all(self) -> Json:
        args = self._args
        want = round(args.per_node * args.nodes) if args.instances is None else args.instances
        instances: Json = {}
        for _ in range(want * 20 + 100):
            if len(instances) >= want:
                break
            demand = self._draw()
            place = self._find_place(demand) if demand else []
            if not demand or not place:
                continue
            self._settle(demand, place)
            number = len(instances) + 1
            entry = instance_entry(demand, place, number, args.hypervisor)
            if args.forthcoming and self._rng.random() < args.forthcoming:
                entry["forthcoming"] = True
            instances[f"inst{number:05d}.{args.domain}"] = entry
        return instances

    def _draw(self) -> Demand | None:
        """A random instance; None when it does not fit into the group drawn for it."""
        args, rng = self._args, self._rng
        template = pick_weighted(rng, self._mix)
        memory = rng.choice(INST_MEM)
        vcpus = rng.choice(INST_CPU)
        sizes = [rng.choice(INST_DISK) for _ in range(self._disk_count(template))]
        if not args.round_sizes:
            memory += 64 * rng.randrange(0, 8)
        group = rng.choice(self._groups)
        if self._used[group] + memory > self._limit[group]:
            return None
        state = self._state()
        tags = self._tags()
        spindles = None
        if args.exclusive_storage and sizes:
            # Always 1; drawn, because every draw moves the ones after it.
            spindles = [rng.randrange(1, 2) for _ in sizes]
        total = disk_space(template, sizes)
        return Demand(template, memory, vcpus, sizes, total, group, state, tags, spindles)

    def _disk_count(self, template: str) -> int:
        if template == "diskless":
            return 0
        return 1 if self._rng.random() < 0.75 or self._args.exclusive_storage else 2

    def _state(self) -> str:
        drawn = self._rng.random()
        if drawn < self._args.down:
            return "down"
        return "offline" if drawn < self._args.down + self._args.admin_offline else "up"

    def _tags(self) -> list[str]:
        args, rng = self._args, self._rng
        tags = []
        if args.excl_tags and rng.random() < args.excl_tags:
            tags.append(f"{SERVICE_TAG}s{rng.randrange(self._services)}")
        if args.desired_location and rng.random() < args.desired_location:
            tags.append(f"power:rack{rng.randrange(args.racks)}")
        if rng.random() < 0.2:
            tags.append(f"owner:team{rng.randrange(5)}")
        return tags

    def _find_place(self, demand: Demand) -> list[Node]:
        """The emptiest of a few nodes (or pair of nodes) that can take it; else nothing."""
        choices = self._args.choices
        primaries = [n for n in self._sample(demand, choices + 2) if self._can_run(demand, n)]
        if not primaries:
            return []
        primary = max(primaries[:choices], key=lambda n: n.headroom() / n.mem)
        if demand.template != "drbd":
            return [primary]
        sample = self._sample(demand, choices + 3)
        secondaries = [n for n in sample if self._can_mirror(demand, n, primary)]
        if not secondaries:
            return []
        best = max(secondaries[:choices], key=lambda n: (n.headroom() - n.reserve()) / n.mem)
        return [primary, best]

    def _sample(self, demand: Demand, count: int) -> list[Node]:
        members = self._members[demand.group]
        return self._rng.sample(members, min(len(members), count))

    def _can_run(self, demand: Demand, node: Node) -> bool:
        args = self._args
        if node.headroom() - demand.memory <= node.reserve():
            return False
        if demand.local and not self._can_store(demand, node):
            return False
        if node.vcpus + demand.vcpus > args.vcpu_ratio * node.cpu * args.cpu_margin:
            return False
        return args.allow_conflicts or node.services.isdisjoint(demand.services)

    def _can_mirror(self, demand: Demand, node: Node, primary: Node) -> bool:
        if node is primary or not self._can_store(demand, node):
            return False
        needed = node.peers.get(primary.name, 0) + demand.memory
        return node.headroom() > max(node.reserve(), needed)

    def _can_store(self, demand: Demand, node: Node) -> bool:
        if node.disk_used + demand.disk_total >= node.disk:
            return False
        if node.exclusive:
            return node.spindles_free >= demand.spindle_total
        most = node.spindles * self._args.spindle_ratio
        return node.spindle_use + demand.spindle_use <= most

    def _settle(self, demand: Demand, place: Sequence[Node]) -> None:
        """Book the instance on its nodes."""
        primary = place[0]
        self._used[demand.group] += demand.memory
        primary.mem_planned += demand.memory
        if demand.state == "up":
            primary.mem_up += demand.memory
        if demand.state != "offline":
            primary.vcpus += demand.vcpus
        primary.services.update(demand.services)
        if demand.local:
            for node in place:
                node.disk_used += demand.disk_total
                node.spindle_use += demand.spindle_use
                node.spindles_free -= demand.spindle_total
        if demand.state != "offline":
            for node in place[1:]:
                node.peers[primary.name] = node.peers.get(primary.name, 0) + demand.memory


def _forget_forthcoming(instances: Json, nodes: Sequence[Node]) -> None:
    """Forthcoming instances do not occupy anything yet."""
    by_name = {node.name: node for node in nodes}
    for instance in instances.values():
        if not instance.get("forthcoming"):
            continue
        primary = by_name[instance["nodes"][0]]
        if instance["admin_state"] == "up":
            primary.mem_up -= instance["memory"]
        if instance["disk_template"] in LOCAL:
            for name in instance["nodes"]:
                by_name[name].disk_used -= instance["disk_space_total"]
                spindles = (disk["spindles"] or 0 for disk in instance["disks"])
                by_name[name].spindles_free += sum(spindles)
