"""Ganeti's configuration, and what is true of nodes, instances and disks whatever it says.

Rows are those that luxid reports.  Beside them stands the truth: which nodes have power, where an
instance really runs, and which copies of its disks hold what it has written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from random import Random
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

from fault_world.rows import Rows, places
from fault_world.storage import Storage, space

Row = dict[str, Any]

#: Master candidates that a cluster wants to have.
POOL: Final = 3
_TOTAL_MEMORY: Final = 16384
_TOTAL_DISK: Final = 409600
_RESERVED: Final = 512
_SPEC: Final = {
    "memory-size": (128, 32768),
    "cpu-count": (1, 8),
    "disk-size": (1024, 1048576),
    "disk-count": (1, 16),
    "nic-count": (1, 8),
    "spindle-use": (1, 12),
}
#: Templates whose disks every node can reach.
_SHARED: Final = frozenset({"sharedfile", "rbd", "ext"})


class Data:
    """The copies of one instance's disks: how much of what was written each of them has."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.written = 1
        """what the instance has written so far; grows while it runs"""
        self.copies = dict.fromkeys(nodes, 1)
        """node -> how much of that its copy has"""
        self.resyncing = False
        self.active = False
        """whether the disks are active though the instance does not run"""
        self.broken: set[str] = set()
        """nodes whose local disk is broken: what is written there is lost"""
        self.in_sync: bool | None = None
        """what the last check of the disks found; None: there was none"""

    @property
    def whole(self) -> set[str]:
        """The nodes whose copy has everything."""
        return {node for node, has in self.copies.items() if has == self.written}


class Ganeti(Rows):
    """One cluster."""

    def __init__(self, nodes: Sequence[str], pool: int = POOL) -> None:
        """``nodes``: their names; the first is the master; ``pool``: candidates it should have."""
        self.serial = 1
        """of the configuration"""
        self.off: set[str] = set()
        """names of nodes without power"""
        self.deaf: set[str] = set()
        """names of nodes whose noded does not answer though they run"""
        self.silent: set[str] = set()
        """names of nodes whose node agent does not answer though they run"""
        self.takes_over: set[str] = set()
        """names of nodes that their agent may make the master"""
        self.takeover_may_fail = False
        """whether it is drawn if that succeeds"""
        self.boots = Counter[str]()
        """name of a node -> how often it has lost its power"""
        self.reports: dict[str, Row] = {}
        """name of a node -> the diagnose object that its agent reports; others: healthy"""
        self.runs: dict[str, set[str]] = {}
        """instance -> names of the nodes where it runs"""
        self.data: dict[str, Data] = {}
        self.storage = Storage(self)
        self.groups = [_group("default")]
        self.networks: list[Row] = []
        self._last = 0
        """the number of the node that was added last"""
        self.nodes: list[Row] = []
        for name in nodes:
            self.nodes.append(self._node(name, master=not self.nodes))
        self.instances: list[Row] = []
        self.info: Row = {
            "name": "cluster",
            "master": nodes[0],
            "candidate_pool_size": pool,
            "tags": [],
            "enabled_hypervisors": ["kvm"],
            "enabled_disk_templates": ["drbd", "plain", "sharedfile", "diskless"],
            "volume_group_name": "xenvg",
            "file_storage_dir": "/srv/ganeti/file-storage",
            "beparams": {"default": {"maxmem": 512, "minmem": 512, "vcpus": 1, "spindle_use": 1}},
        }
        self.promote()

    # What luxid reports

    def rows(self, what: str) -> list[Row]:
        """All objects of a kind, with the figures of this moment."""
        if what == "node":
            return [self._shown_node(row) for row in self.nodes]
        if what == "instance":
            return [self._shown_instance(row) for row in self.instances]
        return super().rows(what)

    def _shown_node(self, row: Row) -> Row:
        name = row["name"]
        if row["offline"] or not self.answers(name):
            empty = dict.fromkeys(("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos"))
            return row | empty
        used = sum(
            one["beparams"]["maxmem"] for one in self.instances if name in self.runs[one["name"]]
        )
        return row | {"mfree": row["mtotal"] - _RESERVED - used, "dfree": self.free_disk(name)}

    def _shown_instance(self, row: Row) -> Row:
        name, primary = row["name"], row["pnode"]
        running = primary in self.runs[name]
        seen = running and self.answers(primary) and not self.node(primary)["offline"]
        return row | {
            "status": self._status(row, running=running),
            "oper_ram": row["beparams"]["maxmem"] if seen else None,
        }

    def _status(self, row: Row, *, running: bool) -> str:
        primary = row["pnode"]
        if self.node(primary)["offline"]:
            return "ERROR_nodeoffline"
        if not self.answers(primary):
            return "ERROR_nodedown"
        if row["admin_state"] == "up":
            return "running" if running else "ERROR_down"
        return "ERROR_up" if running else f"ADMIN_{row['admin_state']}"

    # Objects

    def has_instance(self, name: str) -> bool:
        """Whether there is such an instance."""
        return any(row["name"] == name for row in self.instances)

    def on(self, node: str) -> Iterator[Row]:
        """The instances with disks on a node, or that have it as their primary."""
        return (row for row in self.instances if node in (row["pnode"], *row["snodes"]))

    @property
    def master(self) -> str:
        """The name of the master, by the newest configuration."""
        name: str = self.info["master"]
        return name

    def answers(self, node: str) -> bool:
        """Whether noded of a node answers."""
        return node not in self.off and node not in self.deaf

    def has_power(self, node: str) -> bool:
        return node not in self.off

    def runs_on(self, instance: str) -> Set[str]:
        return self.runs[instance]

    def whole(self, instance: str) -> Set[str]:
        return self.data[instance].whole

    def disk_status(self, instance: str, node: str) -> list[Any] | None:
        row, data = self.instance(instance), self.data[instance]
        if not self.answers(node) or self.node(node)["offline"]:
            return None
        if row["pnode"] not in self.runs[instance] and not data.active:
            return None
        # A side whose own disk is broken stays connected.
        connected = (data.whole | (data.broken - {node})) - self.off
        behind = not connected.issuperset(data.copies)
        percent = 50.0 if data.resyncing else None
        own = 4 if node in data.broken else 1 if node in data.whole else 2
        return ["/dev/drbd0", 147, 0, percent, None, behind, own]

    def free_disk(self, node: str) -> int:
        """MiB."""
        used: int = sum(space(row) for row in self.on(node) if not _is_shared(row))
        total: int = self.node(node)["dtotal"]
        return total - used

    def free_memory(self, node: str) -> int:
        """MiB, if every instance whose primary it is runs."""
        used: int = sum(
            row["beparams"]["maxmem"]
            for row in self.instances
            if row["pnode"] == node and row["admin_state"] == "up"
        )
        return _TOTAL_MEMORY - _RESERVED - used

    # What happens to them

    def add_node(self) -> str:
        """A new node; its name."""
        name = f"node{self._last + 1}"
        self.nodes.append(self._node(name, master=False))
        self.changed()
        return name

    def remove_instance(self, name: str) -> None:
        """An instance is removed with its disks."""
        self.instances.remove(self.instance(name))
        del self.runs[name], self.data[name]
        self.changed()

    def changed(self) -> None:
        """The configuration was written."""
        self.serial += 1

    def set_power(self, node: str, *, on: bool) -> None:
        (self.power_on if on else self.power_off)(node)

    def power_off(self, node: str) -> None:
        """A node loses its power: what ran there does not run any more."""
        self.off.add(node)
        self.boots[node] += 1
        for row in self.on(node):
            if row["pnode"] == node:
                self.data[row["name"]].active = False
        for name, where in self.runs.items():
            if node in where:
                self.write(name)
                where.discard(node)

    def power_on(self, node: str) -> None:
        """A node has power again; its copies are old, where others have written meanwhile."""
        self.off.discard(node)
        self.deaf.discard(node)

    def linked(self, node: str) -> list[str]:
        """Addresses of the nodes that DRBD of a node is connected to: it has its own network."""
        found = set[str]()
        for row in self.on(node):
            nodes, data = {row["pnode"], *row["snodes"]}, self.data[row["name"]]
            if row["snodes"] and nodes <= data.whole and nodes.isdisjoint(self.off):
                found |= {self.node(other)["sip"] for other in nodes - {node}}
        return sorted(found)

    def start(self, instance: str) -> None:
        """Start an instance on its primary."""
        row = self.instance(instance)
        self.runs[instance].add(row["pnode"])
        data, primary = self.data[instance], row["pnode"]
        if not _is_shared(row) and row["disk_template"] != "diskless":
            # What it reads is what its primary has: the rest is lost.
            data.written = data.copies.get(primary, 0)
        self.write(instance)

    def stop(self, instance: str) -> None:
        """Stop an instance wherever it runs and can be reached."""
        for node in list(self.runs[instance]):
            if self.answers(node):
                self.write(instance)
                self.runs[instance].discard(node)
                self.data[instance].active = False

    def write(self, instance: str) -> None:
        """An instance that runs has written something."""
        data, row = self.data[instance], self.instance(instance)
        where = self.runs[instance]
        if not where:
            return
        connected = data.whole if not data.resyncing else data.whole & where
        data.written += 1
        for node in data.copies:
            if node in data.broken:
                continue
            if _is_shared(row) or node in where or (node in connected and node not in self.off):
                data.copies[node] = data.written

    def renew_copy(self, instance: str, node: str) -> None:
        self.data[instance].copies.setdefault(node, 0)
        self.data[instance].broken.discard(node)
        self.resync(instance)

    def resync(self, instance: str) -> None:
        """The copies of an instance are the same again, on the nodes that run."""
        data = self.data[instance]
        data.resyncing = False
        if not data.whole - self.off:
            return
        for node in data.copies:
            if node not in self.off and node not in data.broken:
                data.copies[node] = data.written

    # How it begins

    def _node(self, name: str, *, master: bool) -> Row:
        self._last += 1
        number = self._last
        return {
            "name": name,
            "uuid": str(uuid5(NAMESPACE_DNS, name)),
            "group.uuid": self.groups[0]["uuid"],
            "pip": f"192.0.2.{number}",
            "sip": f"198.51.100.{number}",
            "master": master,
            "master_candidate": master,
            "master_capable": True,
            "offline": False,
            "drained": False,
            "vm_capable": True,
            "tags": [],
            "ndparams": {"spindle_count": 1, "exclusive_storage": False, "cpu_speed": 1},
            "mtotal": _TOTAL_MEMORY,
            "mnode": _RESERVED,
            "mfree": _TOTAL_MEMORY - _RESERVED,
            "dtotal": _TOTAL_DISK,
            "dfree": _TOTAL_DISK,
            "sptotal": 0,
            "spfree": 0,
            "ctotal": 16,
            "cnos": 1,
        }

    def draw_instance(self, name: str, random: Random) -> None:
        """Add an instance; everything else of it is drawn."""
        template = random.choices(("drbd", "plain", "sharedfile", "diskless"), (12, 2, 2, 1))[0]
        places = random.sample([row["name"] for row in self.nodes], 2)
        size = random.choice((2048, 10240, 20480))
        sizes = [] if template == "diskless" else [size] * random.choice((1, 1, 2))
        up = random.random() < 0.9
        memory = random.choice((512, 1024, 2048))
        used = places if template == "drbd" else places[:1]
        self.add_instance(name, template, used, sizes, memory=memory, up=up)

    def add_instance(
        self,
        name: str,
        template: str,
        places: Sequence[str],
        sizes: Sequence[int],
        *,
        memory: int,
        up: bool,
    ) -> None:
        """Add an instance with its primary and its secondary; sizes and memory in MiB."""
        self.instances.append(
            {
                "name": name,
                "uuid": str(uuid5(NAMESPACE_DNS, name)),
                "pnode": places[0],
                "snodes": [*places[1:]],
                "admin_state": "up" if up else "down",
                "status": "running",
                "disk_template": template,
                "disk.sizes": [*sizes],
                "disk.spindles": [None] * len(sizes),
                **{f"nic.{key}": [] for key in ("macs", "ips", "modes", "links", "networks")},
                "beparams": {
                    "maxmem": memory,
                    "minmem": min(memory, 512),
                    "vcpus": 1,
                    "spindle_use": 1,
                    "auto_balance": True,
                    "always_failover": False,
                },
                "tags": [],
                "oper_ram": None,
                "os": "noop",
                "hypervisor": "kvm",
                "forthcoming": False,
            }
        )
        self.data[name] = Data([] if template == "diskless" else places)
        self.runs[name] = {places[0]} if up else set()

    def place(self, instance: str, nodes: Sequence[str], *, live: bool = False) -> None:
        row, data = self.instance(instance), self.data[instance]
        if live:
            self.write(instance)
            self.runs[instance].discard(row["pnode"])
            self.runs[instance].add(nodes[0])
        if {*nodes} != {*places(row)}:
            data.in_sync = None
        super().place(instance, nodes)
        if _is_shared(row):
            data.copies = {nodes[0]: data.written}
        elif data.copies:
            data.copies = {node: data.copies.get(node, 0) for node in nodes}
            data.broken &= {*data.copies}


def _is_shared(row: Row) -> bool:
    return row["disk_template"] in _SHARED


def _group(name: str) -> Row:
    specs = [{key: value[at] for key, value in _SPEC.items()} for at in (0, 1)]
    return {
        "uuid": str(uuid5(NAMESPACE_DNS, f"group {name}")),
        "name": name,
        "alloc_policy": "preferred",
        "tags": [],
        "ipolicy": {
            "minmax": [{"min": specs[0], "max": specs[1]}],
            "std": specs[0],
            "disk-templates": ["drbd", "plain", "sharedfile", "diskless"],
            "vcpu-ratio": 4.0,
            "spindle-ratio": 32.0,
            "memory-ratio": 1.0,
        },
    }
