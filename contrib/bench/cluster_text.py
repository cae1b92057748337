"""A cluster in the text format of htools (hbal, hspace, hcheck and the others)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cluster_parts import KVM_STATIC_MEM

STATUS: Final = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}
SPEC_KEYS: Final = (
    "memory-size",
    "cpu-count",
    "disk-size",
    "disk-count",
    "nic-count",
    "spindle-use",
)

Entry = Mapping[str, Any]


def to_text(data: Entry, static_kvm: int = KVM_STATIC_MEM) -> str:
    """The cluster of an iallocator message in the text format.

    On KVM clusters ``static_kvm`` MiB are reserved on each node, as hail does; 0 leaves
    what the nodes say.
    """
    kvm = (data["enabled_hypervisors"] or [""])[0] == "kvm" and static_kvm > 0
    groups = data["nodegroups"]
    policies = [_policy(group["name"], group["ipolicy"]) for group in groups.values()]
    if data.get("ipolicy"):
        policies.insert(0, _policy("", data["ipolicy"]))
    sections: list[Iterable[str]] = [
        (_group(uuid, group) for uuid, group in groups.items()),
        (_node(name, node, static_kvm if kvm else None) for name, node in data["nodes"].items()),
        (_instance(name, instance) for name, instance in data["instances"].items()),
        data["cluster_tags"],
        policies,
    ]
    return "\n".join(_separated(sections)) + "\n"


def _separated(sections: Iterable[Iterable[str]]) -> Iterator[str]:
    for at, section in enumerate(sections):
        if at:
            yield ""
        yield from section


def _line(*fields: object) -> str:
    return "|".join(str(field) for field in fields)


def _yes(value: object) -> str:
    return "Y" if value else "N"


def _group(uuid: str, group: Entry) -> str:
    tags, networks = ",".join(group["tags"]), ",".join(group["networks"])
    return _line(group["name"], uuid, group["alloc_policy"], tags, networks)


def _node(name: str, node: Entry, reserved: int | None) -> str:
    live = not node["offline"] and node.get("vm_capable", True)
    parameters = node["ndparams"]
    exclusive = parameters["exclusive_storage"]

    def figure(key: str) -> object:
        return node[key] if live else 0

    return _line(
        name,
        figure("total_memory"),
        figure("reserved_memory") if reserved is None else reserved,
        figure("free_memory"),
        figure("total_disk"),
        figure("free_disk"),
        figure("total_cpus"),
        _yes(not live or node["drained"]),
        node["group"],
        figure("total_spindles") if exclusive else parameters["spindle_count"],
        ",".join(node.get("tags", [])),
        _yes(exclusive),
        figure("free_spindles"),
        figure("reserved_cpus"),
        "1.0",
    )


def _instance(name: str, instance: Entry) -> str:
    spindles = [disk.get("spindles") for disk in instance["disks"]]
    primary, secondary = (*instance["nodes"], "")[:2]
    return _line(
        name,
        instance["memory"],
        instance["disk_space_total"],
        instance["vcpus"],
        STATUS[instance.get("admin_state", "up")],
        "Y",
        primary,
        secondary,
        instance["disk_template"],
        ",".join(instance["tags"]),
        instance["spindle_use"],
        "-" if None in spindles else sum(spindles),
        _yes(instance.get("forthcoming")),
    )


def _policy(owner: str, policy: Entry) -> str:
    limits = (_specs(limit[side]) for limit in policy["minmax"] for side in ("min", "max"))
    return _line(
        owner,
        _specs(policy["std"]),
        ";".join(limits),
        ",".join(policy["disk-templates"]),
        policy["vcpu-ratio"],
        policy["spindle-ratio"],
    )


def _specs(specs: Entry) -> str:
    return ",".join(str(specs[key]) for key in SPEC_KEYS)
