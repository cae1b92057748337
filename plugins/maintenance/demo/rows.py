"""The simulated cluster in the fields that luxid reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ganeti_steward.core.maintenance.world import InstanceFacts, NodeFacts
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
        figures = {node.name: node for node in site.cluster.nodes}
        return [_node(one, figures[one.name], site) for one in site.nodes.values()]
    if what == "instance":
        return [_instance(one, site) for one in site.world(0).instances.values()]
    return [_group(group) for group in site.cluster.groups] if what == "group" else []


def _node(facts: NodeFacts, figures: Node, site: Site) -> Row:
    row = {
        "name": facts.name,
        "uuid": facts.uuid,
        "group.uuid": facts.group,
        "pip": facts.address,
        "sip": facts.address,
        "master": facts.master,
        "master_candidate": facts.master_candidate,
        "master_capable": True,
        "offline": facts.offline,
        "drained": facts.drained,
        "vm_capable": facts.vm_capable,
        "tags": sorted(facts.tags),
        "ndparams": {"spindle_count": figures.spindles, "exclusive_storage": False, "cpu_speed": 1},
    }
    live = {
        "mtotal": figures.total_memory,
        "mnode": figures.reserved_memory,
        "mfree": figures.free_memory,
        "dtotal": figures.total_disk,
        "dfree": figures.free_disk,
        "sptotal": 0,
        "spfree": 0,
        "ctotal": figures.total_cpus,
        "cnos": figures.reserved_cpus,
    }
    reported = site.alive(facts.name) and not facts.offline
    return row | (live if reported else dict.fromkeys(live))


def _instance(facts: InstanceFacts, site: Site) -> Row:
    one = site.described(facts.name)
    return {
        "name": facts.name,
        "uuid": f"uuid-of-{facts.name}",
        "pnode": facts.primary,
        "snodes": list(facts.secondaries),
        "admin_state": "up" if facts.up else "down",
        "status": facts.status,
        "disk_template": facts.template,
        "disk.sizes": [disk.size for disk in one.disks],
        "disk.spindles": [disk.spindles for disk in one.disks],
        **{f"nic.{key}": [] for key in ("macs", "ips", "modes", "links", "networks")},
        "beparams": _backend(one),
        "tags": sorted(facts.tags),
        "oper_ram": one.memory if facts.up else None,
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
