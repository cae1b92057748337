"""The simulated cluster in the fields that luxid reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ganeti_steward.core.model.cluster import Group, Instance, Node, Policy, Spec
from ganeti_steward.plugins.maintenance.simulation.site import Site

Row = dict[str, Any]

#: Field of a `Spec` -> Ganeti's name of it.
_SPEC: Final = {
    "memory": "memory-size",
    "vcpus": "cpu-count",
    "disk": "disk-size",
    "disks": "disk-count",
    "nics": "nic-count",
    "spindles": "spindle-use",
}


def info(site: Site) -> Row:
    """What is known of the cluster as a whole."""
    backend = {"maxmem": 128, "minmem": 128, "vcpus": 1, "spindle_use": 1}
    return {
        "name": "demo",
        "master": next(node.name for node in site.nodes.values() if node.master),
        "candidate_pool_size": site.candidate_pool_size,
        "tags": sorted(site.cluster_tags),
        "enabled_hypervisors": list(site.cluster.hypervisors),
        "enabled_disk_templates": ["drbd", "plain"],
        "volume_group_name": "xenvg",
        "beparams": {"default": backend},
    }


def rows(site: Site, what: str) -> list[Row]:
    """All objects of a kind: ``node``, ``instance``, ``group`` or ``network``."""
    if what == "node":
        return [_node(node) for node in site.cluster.nodes]
    if what == "instance":
        return [_instance(one) for one in site.cluster.instances]
    return [_group(group) for group in site.cluster.groups] if what == "group" else []


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


def field_of(row: Row, name: str) -> list[Any]:
    """Status and value as luxid has them: 0 a value, 1 no such field, 2 no value."""
    if name not in row:
        return [1, None]
    return [2, None] if row[name] is None else [0, row[name]]


def table(found: Iterable[Row], fields: Iterable[str]) -> Row:
    """The answer to a query."""
    return {"data": [[field_of(row, name) for name in fields] for row in found]}
