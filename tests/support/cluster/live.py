"""A running cluster made of an iallocator message: what luxid and RAPI would answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_DNS, uuid5

from fault_world.rows import Rows

Message = dict[str, Any]
Row = dict[str, Any]

#: Master candidates Ganeti wants to have.
POOL: Final = 3

#: The message's key -> luxid's field, for a node's figures.
FIGURES: Final = {
    "total_memory": "mtotal",
    "reserved_memory": "mnode",
    "total_disk": "dtotal",
    "free_disk": "dfree",
    "total_spindles": "sptotal",
    "free_spindles": "spfree",
    "total_cpus": "ctotal",
    "reserved_cpus": "cnos",
}

#: What RAPI's own list of instances does not contain.
_QUERIED: Final = ("hypervisor", "forthcoming")


class Ganeti(Rows):
    """The rows of each kind of object; change them as you like."""

    def __init__(self, message: Message, templates: Sequence[str] = ("drbd", "plain")) -> None:
        self.info: Row = {
            "name": "cluster.lab",
            "master": next(iter(message["nodes"])),
            "candidate_pool_size": POOL,
            "tags": message["cluster_tags"],
            "enabled_hypervisors": message["enabled_hypervisors"],
            "enabled_disk_templates": [*templates],
            "volume_group_name": "xenvg",
            "file_storage_dir": "/srv/ganeti/file-storage",
            "beparams": {"default": {"maxmem": 640, "minmem": 640, "vcpus": 3, "spindle_use": 1}},
        }
        groups = message["nodegroups"]
        self.groups = [_group(uuid, group) for uuid, group in groups.items()]
        self.networks = _networks(groups)
        self.instances = [_instance(*item) for item in message["instances"].items()]
        self.nodes = [_node(name, node, self.instances) for name, node in message["nodes"].items()]
        for at, row in enumerate(self.nodes):
            row["master"] = at == 0
            row["master_candidate"] = at < POOL and not (row["offline"] or row["drained"])
            row["pip"] = f"10.{at // 65536}.{at // 256 % 256}.{at % 256}"
            row["sip"] = f"11.{at // 65536}.{at // 256 % 256}.{at % 256}"
            row["master_capable"] = True
            row["powered"] = True if row["ndparams"].get("oob_program") else None
        self.reported: dict[str, Row] = {}
        """node that is off -> its figures when it is on"""
        self.storage: dict[int, list[list[Any]]] = {}
        """job -> what nodes report about their storage"""

    # What operations change beside the configuration

    def answers(self, node: str) -> bool:
        return self.node(node)["mtotal"] is not None

    has_power = answers

    def set_power(self, node: str, *, on: bool) -> None:
        """Switch a node on or off by its program; what it reports is the same when it is on."""
        row = self.node(node)
        row["powered"] = on
        self.cut(node, on=on)

    def cut(self, node: str, *, on: bool) -> None:
        """Have a node be off without Ganeti's doing, or on again."""
        row = self.node(node)
        if not on and self.answers(node):
            self.reported[node] = {field: row[field] for field in (*FIGURES.values(), "mfree")}
            row.update(dict.fromkeys(self.reported[node]))
        elif on:
            row.update(self.reported.pop(node, {}))
        for one in self.instances:
            if one["pnode"] == node:
                self.set_state(one["name"], one["admin_state"])

    def set_state(self, instance: str, state: str) -> None:
        """What is up runs where its node does."""
        row = self.instance(instance)
        there = self.answers(row["pnode"])
        runs = there and state == "up"
        status = "running" if runs else f"ADMIN_{state}" if there else "ERROR_nodedown"
        memory = row["beparams"]["maxmem"] if runs else None
        row.update(admin_state=state, status=status, oper_ram=memory)

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        """What luxid answers."""
        if method == "QueryClusterInfo":
            return self.info
        if method == "Query":
            what, fields, _ = arguments
            rows = self.rows(what)
            return {"data": [[_status(row, field) for field in fields] for row in rows]}
        if method == "SubmitManyJobs":
            (((operation,),),) = arguments
            return [[True, self._storage_job(operation["storage_type"], operation["nodes"])]]
        if method == "QueryJobs":
            return [[job, "success", ["success"], [self.storage[job]]] for job in arguments[0]]
        raise AssertionError(method)

    def rapi(self, method: str, path: str) -> tuple[int, Any]:
        """What the RAPI daemon answers."""
        assert method == "GET"
        parts, query = urlsplit(path).path.split("/")[2:], urlsplit(path).query
        if parts == ["info"]:
            return 200, self.info
        if parts[0] == "query":
            rows = self.rows(parts[1])
            assert query == "fields=" + "%2C".join(["name", *_QUERIED])
            data = [[[0, row[field]] for field in ("name", *_QUERIED)] for row in rows]
            return 200, {"data": data}
        if parts[0] == "jobs":
            job = int(parts[1])
            answer = {"status": "success", "opstatus": ["success"], "opresult": [self.storage[job]]}
            return 200, answer
        if parts[2:] == ["storage"]:
            kind = query.split("storage_type=")[1].split("&")[0]
            return 200, str(self._storage_job(kind, [parts[1]]))
        assert query == "bulk=1"
        known = (
            {k: v for k, v in row.items() if k not in _QUERIED} for row in self.rows(parts[0][:-1])
        )
        return 200, list(known)

    def _storage_job(self, kind: str, nodes: Sequence[str]) -> int:
        job = len(self.storage) + 1
        self.storage[job] = self.storage_rows(kind, nodes)
        return job

    def storage_rows(self, kind: str, nodes: Sequence[str]) -> list[list[Any]]:
        """What nodes report about their storage."""
        unit = {"lvm-vg": "xenvg", "file": "/srv/ganeti/file-storage"}[kind]
        # Another unit of the same kind, of which nothing is wanted.
        return [[node, "other", 1, 1] for node in nodes] + [
            [node, unit, 7000 + at, 5000 + at] for at, node in enumerate(nodes)
        ]


def _status(row: Row, field: str) -> list[Any]:
    return [0, row[field]] if row[field] is not None else [2, None]


def _group(uuid: str, group: Message) -> Row:
    return {
        "uuid": uuid,
        **{key: group[key] for key in ("name", "alloc_policy", "ipolicy", "tags")},
    }


def _networks(groups: Message) -> list[Row]:
    """The networks groups name; they know the groups by name."""
    found: dict[str, list[list[str]]] = {}
    for group in groups.values():
        for uuid in group["networks"]:
            found.setdefault(uuid, []).append([group["name"], "bridged", "br0"])
    return [{"uuid": uuid, "name": f"name-of-{uuid}", "group_list": g} for uuid, g in found.items()]


def _node(name: str, node: Message, instances: Sequence[Row]) -> Row:
    row: Row = {
        "name": name,
        "uuid": str(uuid5(NAMESPACE_DNS, name)),
        "group.uuid": node["group"],
        "offline": node["offline"],
        "drained": node["drained"],
        "vm_capable": node.get("vm_capable", True),
        "tags": node["tags"],
        "ndparams": {**node["ndparams"], "cpu_speed": 1},
        **{field: node.get(key) for key, field in FIGURES.items()},
        "mfree": node.get("free_memory"),
    }
    if row["mfree"] is not None:
        # Ganeti takes off what instances could still grow to; the node does not know of it.
        row["mfree"] += sum(_added_memory(i) for i in instances if i["pnode"] == name)
    return row


def _added_memory(instance: Row) -> int:
    if instance["admin_state"] != "up" or instance["forthcoming"]:
        return 0
    return max(0, int(instance["beparams"]["maxmem"]) - int(instance["oper_ram"] or 0))


def _instance(name: str, instance: Message) -> Row:
    state = instance.get("admin_state", "up")
    memory = instance["memory"]
    return {
        "name": name,
        "uuid": f"uuid-of-{name}",
        "pnode": instance["nodes"][0],
        "snodes": instance["nodes"][1:],
        "admin_state": state,
        "status": "running" if state == "up" else f"ADMIN_{state}",
        "disk_template": instance["disk_template"],
        "disk.sizes": [disk["size"] for disk in instance["disks"]],
        "disk.spindles": [disk.get("spindles") for disk in instance["disks"]],
        "nic.macs": [nic.get("mac") for nic in instance["nics"]],
        "nic.ips": [nic.get("ip") for nic in instance["nics"]],
        "nic.modes": [nic.get("mode", "bridged") for nic in instance["nics"]],
        "nic.links": [nic.get("link", "br0") for nic in instance["nics"]],
        "nic.networks": [nic.get("network") for nic in instance["nics"]],
        "beparams": {
            "maxmem": memory,
            "minmem": memory // 2,
            "vcpus": instance["vcpus"],
            "spindle_use": instance["spindle_use"],
            "auto_balance": True,
        },
        "tags": instance["tags"],
        # Some use less than they may, some use nothing, and one more than it may.
        "oper_ram": None if state != "up" else (memory - 64, memory, memory + 8)[len(name) % 3],
        "os": instance.get("os", "debootstrap+default"),
        "hypervisor": instance.get("hypervisor", "kvm"),
        "forthcoming": instance.get("forthcoming", False),
    }
