"""htools' text format (allocation 12), written as `allocators.text_format` and hbal read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.cluster import Cluster, Group, Instance, Node, Policy, Spec

#: admin_state -> status.
_STATUS: Final = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}
#: What ends a field or a line.
_BREAKS: Final = frozenset("|\n\r")


def htools_text(cluster: Cluster, kvm_memory: int = 0) -> str:
    """A cluster in the text format.

    What the format cannot say is left out: sizes of single disks, networks of instances, and
    why a node is unusable.  ``kvm_memory`` MiB, unless 0, are reserved on every node when
    the first hypervisor is KVM, as hail and hbal do (allocation 2.4).  Raises StewardError where
    a name cannot be written.
    """
    reserved = kvm_memory if cluster.hypervisors[:1] == ("kvm",) else 0
    names = [group.name for group in cluster.groups]
    sections: list[Iterable[str]] = [
        map(_group_line, cluster.groups),
        (_node_line(node, reserved) for node in cluster.nodes),
        map(_instance_line, cluster.instances),
        map(_line, cluster.tags),
        (_policy_line(name, g.policy) for name, g in zip(names, cluster.groups, strict=True)),
    ]
    return "\n".join("".join(line + "\n" for line in section) for section in sections)


def _line(*fields: object) -> str:
    texts = [str(field) for field in fields]
    for text in texts:
        if not _BREAKS.isdisjoint(text):
            raise StewardError(f"htools' text format cannot hold {quoted(text)}")
    return "|".join(texts)


def _yes_no(value: bool) -> str:
    return "Y" if value else "N"


def _group_line(group: Group) -> str:
    tags, networks = ",".join(group.tags), ",".join(sorted(group.networks))
    return _line(group.name, group.uuid, group.alloc_policy, tags, networks)


def _figure(node: Node, key: str, value: float) -> object:
    """``?``: the node does not report it."""
    return "?" if node.silent or key in node.missing else int(value)


def _node_line(node: Node, reserved: int) -> str:
    known = {
        "total_memory": node.total_memory,
        "reserved_memory": reserved or node.reserved_memory,
        "free_memory": node.free_memory,
        "total_disk": node.total_disk,
        "free_disk": node.free_disk,
        "total_cpus": node.total_cpus,
    }
    return _line(
        node.name,
        *(_figure(node, key, value) for key, value in known.items()),
        _yes_no(not node.usable and not node.silent),
        node.group,
        node.spindles,
        ",".join(node.tags),
        _yes_no(node.exclusive_storage),
        node.free_spindles,
        node.reserved_cpus,
        node.cpu_speed,
        *_volume_groups(node),
    )


def _volume_groups(node: Node) -> list[str]:
    if node.volume_groups is None:
        return []
    figures = (f"{name}:{one.total}:{one.free}" for name, one in node.volume_groups.items())
    return [f"vg={','.join(figures)}"]


def _instance_line(instance: Instance) -> str:
    primary, secondary = (*instance.nodes, "")[:2]
    return _line(
        instance.name,
        instance.memory,
        instance.disk_space,
        instance.vcpus,
        instance.status or _STATUS[instance.state],
        _yes_no(instance.auto_balance),
        primary,
        secondary,
        instance.template,
        ",".join(instance.tags),
        instance.spindle_use,
        "-" if instance.spindles is None else instance.spindles,
        _yes_no(instance.forthcoming),
        f"vg={','.join(f'{name}:{size}' for name, size in instance.elsewhere.items())}",
    )


def _policy_line(owner: str, policy: Policy) -> str:
    limits = (_spec_text(spec) for pair in policy.minmax for spec in (pair.min, pair.max))
    return _line(
        owner,
        _spec_text(policy.std),
        ";".join(limits),
        ",".join(sorted(policy.templates)),
        policy.vcpu_ratio,
        policy.spindle_ratio,
    )


def _spec_text(spec: Spec) -> str:
    parts = (spec.memory, spec.vcpus, spec.disk, spec.disks, spec.nics, spec.spindles)
    return ",".join(map(str, parts))
