"""What a generated cluster is made of: nodes, instances, and how the message says them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

TEMPLATES: Final = (
    "diskless",
    "file",
    "sharedfile",
    "plain",
    "blockdev",
    "drbd",
    "rbd",
    "ext",
    "gluster",
)
#: Templates whose disks take a node's own storage.
LOCAL: Final = ("drbd", "plain")
#: Templates any node of the group can take over.
MIRRORED_EXT: Final = ("diskless", "sharedfile", "blockdev", "rbd", "ext", "gluster")
DRBD_META: Final = 128
"""MiB of metadata per DRBD disk"""
KVM_STATIC_MEM: Final = 4096
"""MiB a KVM node's own system takes"""

SERVICE_TAG: Final = "service:"

Shape = tuple[int, ...]
#: Memory (MiB), disk (MiB), CPUs, spindles.
NODE_SHAPES: Final[Sequence[Shape]] = (
    (65536, 1048576, 16, 4),
    (98304, 2097152, 24, 6),
    (131072, 2097152, 32, 8),
    (131072, 4194304, 32, 12),
    (196608, 4194304, 48, 12),
    (262144, 8388608, 64, 24),
)
INST_MEM: Final = (1024, 2048, 2048, 4096, 4096, 4096, 8192, 8192, 16384)
INST_DISK: Final = (10240, 20480, 20480, 40960, 51200, 102400, 204800)
INST_CPU: Final = (1, 1, 2, 2, 2, 4, 4, 8)


@dataclass(eq=False, slots=True)
class Node:
    """One node, with the book-keeping of what has been placed on it."""

    name: str
    group: str
    mem: int
    disk: int
    cpu: int
    spindles: int
    reserved: int
    """memory of the node's own system"""
    overhead: int
    """memory that is not accounted for; negative where the node reports too much free"""
    exclusive: bool
    tags: list[str] = field(default_factory=list)
    offline: bool = False
    drained: bool = False
    vm_capable: bool = True
    mem_up: int = 0
    """memory of the running primaries"""
    mem_planned: int = 0
    """memory of all primaries"""
    disk_used: int = 0
    vcpus: int = 1
    spindle_use: int = 0
    spindles_free: int = 0
    peers: dict[str, int] = field(default_factory=dict)
    """primary node -> memory of its instances whose secondary this node is"""
    services: set[str] = field(default_factory=set)
    """exclusion tags of the primaries"""

    def headroom(self) -> int:
        return self.mem - self.reserved - max(0, self.overhead) - self.mem_planned

    def reserve(self) -> int:
        """Memory needed when the worst of its peers fails."""
        return max(self.peers.values(), default=0)


@dataclass(frozen=True, slots=True)
class Demand:
    """One instance before it has a place."""

    template: str
    memory: int
    vcpus: int
    disks: Sequence[int]
    disk_total: int
    group: str
    state: str
    tags: list[str]
    spindles: Sequence[int] | None
    """per disk, under exclusive storage"""
    spindle_use: int = 1

    @property
    def local(self) -> bool:
        return self.template in LOCAL

    @property
    def spindle_total(self) -> int:
        return sum(self.spindles or [])

    @property
    def services(self) -> list[str]:
        return [tag for tag in self.tags if tag.startswith(SERVICE_TAG)]


def parse_mix(text: str) -> dict[str, float]:
    """Weights of disk templates, as ``drbd=7,plain=2,ext``."""
    mix = {}
    for part in text.split(","):
        if not part:
            continue
        name, _, weight = part.partition("=")
        if name not in TEMPLATES:
            raise SystemExit(f"unknown disk template {name!r}")
        mix[name] = float(weight or 1)
    if not mix:
        raise SystemExit("empty --mix")
    return mix


def pick_weighted(rng: random.Random, mix: dict[str, float]) -> str:
    rest = rng.random() * sum(mix.values())
    name = ""
    for name, weight in mix.items():
        rest -= weight
        if rest < 0:
            return name
    return name


def disk_space(template: str, sizes: Sequence[int]) -> int:
    """What the disks take on a node."""
    return sum(sizes) + (DRBD_META * len(sizes) if template == "drbd" else 0)


def instance_entry(demand: Demand, place: Sequence[Node], number: int, hypervisor: str) -> Json:
    mac = f"aa:00:00:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
    return {
        "tags": demand.tags,
        "admin_state": demand.state,
        "vcpus": demand.vcpus,
        "memory": demand.memory,
        "spindle_use": demand.spindle_use,
        "os": "debootstrap+default",
        "nodes": [node.name for node in place],
        "nics": [make_nic(mac)],
        "disks": [
            {
                "size": size,
                "mode": "rw",
                "spindles": demand.spindles[at] if demand.spindles else None,
                "dev_type": demand.template,
            }
            for at, size in enumerate(demand.disks)
        ],
        "disk_template": demand.template,
        "disks_active": demand.state == "up",
        "hypervisor": hypervisor,
        "disk_space_total": demand.disk_total,
    }


def make_nic(mac: str) -> Json:
    return {"mac": mac, "ip": None, "mode": "bridged", "link": "br0", "bridge": "br0"}


def node_entry(node: Node, at: int) -> Json:
    entry = {
        "tags": node.tags,
        "primary_ip": f"198.51.100.{at % 250 + 1}",
        "secondary_ip": f"192.0.2.{at % 250 + 1}",
        "offline": node.offline,
        "drained": node.drained,
        "master_candidate": at < 10,
        "group": node.group,
        "master_capable": True,
        "vm_capable": node.vm_capable,
        "ndparams": {
            "spindle_count": node.spindles,
            "exclusive_storage": node.exclusive,
            "oob_program": "",
            "ovs": False,
            "ovs_link": "",
            "ovs_name": "switch1",
            "ssh_port": 22,
            "cpu_speed": 1.0,
        },
    }
    if not node.offline and node.vm_capable:
        entry.update(_runtime_figures(node))
    return entry


def _runtime_figures(node: Node) -> Json:
    """Figures that only a node that answers can report."""
    return {
        "total_memory": node.mem,
        "reserved_memory": node.reserved,
        "free_memory": node.mem - node.reserved - node.mem_up - node.overhead,
        "total_disk": node.disk,
        "free_disk": node.disk - node.disk_used,
        "total_spindles": node.spindles,
        "free_spindles": node.spindles_free,
        "total_cpus": node.cpu,
        "reserved_cpus": 1,
        "i_pri_memory": node.mem_planned,
        "i_pri_up_memory": node.mem_up,
    }


def aggregate(at: int) -> str:
    """The name of an aggregate; every third one is a reservation."""
    return f"reservation:r{at}" if at % 3 == 2 else f"tenant{at}"


def keeping_out(aggregates: int, rng: random.Random) -> str:
    """The tag of an instance that must not be in one of them."""
    return f"steward:member-of:not:{aggregate(rng.randrange(aggregates))}"
