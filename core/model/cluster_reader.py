"""The cluster of an iallocator message (allocation 2), and what requests read the same way.

Objects may come in any order and unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.json_reader import Faults, Section, describe, quoted
from ganeti_steward.core.model.cluster import (
    ALLOC_POLICIES,
    DISK_FIGURES,
    DISK_TEMPLATES,
    DRBD_METADATA,
    HYPERVISOR_FIGURES,
    LOCAL_STORAGE,
    SPINDLE_FIGURES,
    Cluster,
    Disk,
    Group,
    Instance,
    MinMax,
    Node,
    Policy,
    Spec,
    VolumeGroup,
)
from ganeti_steward.core.model.sent import Sent

#: Of the message; Ganeti 2.0 introduced it, and it is the same in 3.1 (seed 163).
_VERSION = 2

HYPERVISORS = frozenset({"kvm", "xen-pvm", "xen-hvm", "chroot", "lxc", "fake"})
#: A tuple, so that a list or an object can be looked up, too.
NIC_MODES = ("bridged", "openvswitch", "routed")


def read_cluster(message: Mapping[str, Any]) -> Cluster:
    """The cluster of a message whose request, if there is any, does not matter.

    Raises BadInput naming every fault (allocation 2).
    """
    faults = Faults()
    cluster = cluster_of(Section(message, "message", "", faults))
    faults.check()
    return cluster


def parse(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``; raises BadInput."""
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError as err:
        raise BadInput([f"the message is not valid JSON: {err}"]) from None
    if not isinstance(message, dict):
        raise BadInput([f"the message: an object is expected, found {describe(message)}"])
    return message


def cluster_of(top: Section) -> Cluster:
    """The cluster; faults are noted in the section."""
    if top.data.get("version") is not None and top.data["version"] != _VERSION:
        found = describe(top.data["version"])
        top.fault(f"version {_VERSION} of the message is expected, found {found}", "version")
    hypervisors = top.texts("enabled_hypervisors")
    for name in hypervisors:
        if name not in HYPERVISORS:
            known = ", ".join(sorted(HYPERVISORS))
            top.fault(f"unknown hypervisor {quoted(name)} (known: {known})", "enabled_hypervisors")
    groups = [_group(section) for section in top.sections("nodegroups", "node group")]
    nodes = [_node(section, top) for section in top.sections("nodes", "node")]
    named = top.sections("instances", "instance")
    usual = top.optional_text("volume_group") or ""
    instances = [instance_of(section, section.name, usual, top) for section in named]
    tags, policy = top.texts("cluster_tags"), _cluster_policy(top)
    name = Sent(top.data).text("cluster_name")
    return Cluster(groups, nodes, instances, tags, hypervisors, name, policy, usual)


def _cluster_policy(top: Section) -> Policy | None:
    """The policy of the cluster; no rule needs it, so none stands for one with faults."""
    faults = Faults()
    policy = _policy(Section(top.data.get("ipolicy"), "message", "", faults, "ipolicy"))
    return None if faults.found else policy


def _group(section: Section) -> Group:
    return Group(
        uuid=section.name,
        name=section.text("name"),
        alloc_policy=section.choice("alloc_policy", ALLOC_POLICIES),
        networks=frozenset(section.texts("networks")),
        policy=_policy(section.section("ipolicy")),
        tags=section.texts("tags"),
    )


def _policy(section: Section) -> Policy:
    minmax = []
    for number, item in enumerate(section.items("minmax")):
        pair = section.entry("minmax", number, item)
        minmax.append(MinMax(_spec(pair.section("min")), _spec(pair.section("max"))))
    return Policy(
        minmax=tuple(minmax),
        std=_spec(section.section("std")),
        templates=frozenset(section.texts("disk-templates")),
        vcpu_ratio=section.number("vcpu-ratio"),
        spindle_ratio=section.number("spindle-ratio"),
    )


def _spec(section: Section) -> Spec:
    return Spec(
        memory=section.integer("memory-size"),
        vcpus=section.integer("cpu-count"),
        disk=section.integer("disk-size"),
        disks=section.integer("disk-count"),
        nics=section.integer("nic-count"),
        spindles=section.integer("spindle-use"),
    )


def lacks(top: Section, part: str, name: str) -> bool:
    """Whether a part of the message has no member of this name.

    A part that is missing as a whole is one fault, not one for each mention of a member.
    """
    members = top.data.get(part)
    return isinstance(members, dict) and name not in members


def _node(section: Section, top: Section) -> Node:
    group = section.text("group")
    if is_text(section, "group") and lacks(top, "nodegroups", group):
        section.fault(f"no node group has the uuid {quoted(group)}", "group")
    offline = section.boolean("offline")
    vm_capable = section.data.get("vm_capable") is None or section.boolean("vm_capable")
    params = _node_params(section)
    exclusive = params.boolean("exclusive_storage")
    live = not offline and vm_capable
    # The figures of a node that is not live are 0 whatever the message holds.
    figures = section if live else Section(_NO_FIGURES, section.kind, section.name, Faults())
    missing: tuple[str, ...] = ()
    if live and None in section.data.values():
        figures, missing = _reported(section, exclusive=exclusive)
    if exclusive:
        spindles, free_spindles = (figures.integer(key) for key in SPINDLE_FIGURES)
    else:
        spindles = params.integer("spindle_count")
        free_spindles = figures.integer("free_spindles", 0)
    node = Node(
        name=section.name,
        group=group,
        offline=offline,
        drained=section.boolean("drained"),
        vm_capable=vm_capable,
        tags=() if section.data.get("tags") is None else section.texts("tags"),
        exclusive_storage=exclusive,
        total_memory=figures.number("total_memory"),
        reserved_memory=figures.integer("reserved_memory", 0),
        free_memory=figures.integer("free_memory"),
        total_disk=figures.number("total_disk"),
        free_disk=figures.integer("free_disk"),
        total_cpus=figures.number("total_cpus"),
        reserved_cpus=figures.integer("reserved_cpus", _RESERVED_CPUS),
        spindles=spindles,
        free_spindles=free_spindles,
        missing=missing,
        volume_groups=_volume_groups(section) if live else None,
        suspect=section.optional_text("suspect") or "",
        sent=Sent(section.data),
    )
    return _cleared(node) if missing else node


_NO_FIGURES = dict.fromkeys((*HYPERVISOR_FIGURES, *DISK_FIGURES), 0)

#: Of a node without the key: what Ganeti takes for its `hv_state` without a value.
_RESERVED_CPUS = 1

#: What Ganeti takes for node parameters without a value.
_NODE_PARAMS = {"exclusive_storage": False, "spindle_count": 1}


def _volume_groups(section: Section) -> Mapping[str, VolumeGroup] | None:
    """Those apart from the cluster's, which Ganeti does not send; None: not known."""
    if section.data.get("volume_groups") is None:
        return None
    groups = section.section("volume_groups")
    found = {name: groups.section(name) for name in groups.data}
    return {
        name: VolumeGroup(group.integer("total"), group.integer("free"))
        for name, group in found.items()
    }


def _node_params(section: Section) -> Section:
    """The node parameters; Ganeti's defaults where they are missing or null."""
    if section.data.get("ndparams") is None:
        return Section(_NODE_PARAMS, section.kind, section.name, section.faults, "ndparams")
    params = section.section("ndparams")
    if None in params.data.values():
        unset = [key for key in _NODE_PARAMS if params.data.get(key, 0) is None]
        params.data = params.data | {key: _NODE_PARAMS[key] for key in unset}
    return params


def _reported(section: Section, *, exclusive: bool) -> tuple[Section, tuple[str, ...]]:
    """A live node with 0 for figures that are null, and which of these are needed."""
    null = [key for key in _NO_FIGURES if section.data.get(key, 0) is None]
    figures = Section(
        section.data | dict.fromkeys(null, 0), section.kind, section.name, section.faults
    )
    unused = () if exclusive else SPINDLE_FIGURES
    return figures, tuple(key for key in null if key not in unused)


def _cleared(node: Node) -> Node:
    """A node without the figures that mean nothing beside the missing ones."""
    if node.lacks_disk_figures or node.silent:
        spindles = 0 if node.exclusive_storage else node.spindles
        node = node._replace(total_disk=0.0, free_disk=0, spindles=spindles, free_spindles=0)
    if node.silent:
        node = node._replace(total_memory=0.0, reserved_memory=0, free_memory=0)
        node = node._replace(total_cpus=0.0, reserved_cpus=0)
    return node


def instance_of(section: Section, name: str, usual: str, top: Section | None = None) -> Instance:
    """An instance; without its nodes unless they can be looked up in ``top``, the message.

    ``usual``: the cluster's volume group; empty: unknown, and all disks count as lying there.
    """
    state = section.data.get("admin_state")
    disks = _disks(section)
    template = section.choice("disk_template", DISK_TEMPLATES)
    if usual and template in LOCAL_STORAGE:
        disks = _lying(section, disks, usual)
    return Instance(
        name=name,
        memory=section.integer("memory"),
        vcpus=section.integer("vcpus"),
        disk_space=_disk_space(section, template, disks),
        disks=disks,
        template=template,
        spindle_use=section.integer("spindle_use", 1),
        tags=section.texts("tags"),
        networks=_networks(section),
        # hail takes an unknown state as up, and so do we: it reserves the most.
        state=state if state in ("down", "offline") else "up",
        forthcoming=section.data.get("forthcoming") is True,
        nodes=() if top is None else _instance_nodes(section, template, top),
        sent=Sent(section.data),
    )


def _disk_space(section: Section, template: str, disks: tuple[Disk, ...]) -> int:
    if "disk_space_total" in section.data:
        return section.integer("disk_space_total")
    return disk_space(template, [disk.size for disk in disks])


def disk_space(template: str, sizes: Sequence[int]) -> int:
    """What disks of these sizes take on each node, MiB, as Ganeti computes it."""
    if template in ("diskless", "blockdev"):
        return 0
    return sum(sizes) + (DRBD_METADATA * len(sizes) if template == "drbd" else 0)


def _disks(section: Section) -> tuple[Disk, ...]:
    disks = []
    for number, item in enumerate(section.items("disks")):
        if type(item) is dict:
            size, spindles = item.get("size"), item.get("spindles")
            if type(size) is int and spindles is None and 0 <= size < 2**40:
                disks.append(Disk(size, None))
                continue
        disk = section.entry("disks", number, item)
        given = disk.data.get("spindles") is not None
        disks.append(Disk(disk.integer("size"), disk.integer("spindles") if given else None))
    return tuple(disks)


def _lying(section: Section, disks: tuple[Disk, ...], usual: str) -> tuple[Disk, ...]:
    """The disks with their volume groups, where these are not the usual one."""
    items = Sent(section.data).entries("disks")
    groups = [[item.text(key) for key in ("vg", "metavg")] for item in items]
    return tuple(
        Disk(disk.size, disk.spindles, *("" if name == usual else name for name in names))
        for disk, names in zip(disks, groups, strict=True)
    )


def _networks(section: Section) -> tuple[str, ...]:
    networks = []
    for number, item in enumerate(section.items("nics")):
        if type(item) is dict and "network" not in item and item.get("mode") in NIC_MODES:
            continue
        nic = section.entry("nics", number, item)
        if nic.data.get("mode") is not None:
            nic.choice("mode", NIC_MODES)
        network = nic.optional_text("network")
        if network is not None:
            networks.append(network)
    return tuple(networks)


def _instance_nodes(section: Section, template: str, top: Section) -> tuple[str, ...]:
    """Primary and, if there is one, secondary; further names are ignored."""
    before = len(section.faults.found)
    nodes = section.texts("nodes")[:2]
    if len(section.faults.found) > before:
        return ()
    for name in nodes:
        if lacks(top, "nodes", name):
            section.fault(f"no node is named {quoted(name)}", "nodes")
    if not nodes:
        section.fault("the list is empty", "nodes")
    elif template == "drbd" and len(nodes) < 2:
        section.fault("a drbd instance needs two nodes, found one", "nodes")
    elif len(nodes) == 2 and nodes[0] == nodes[1]:
        section.fault(f"primary and secondary are the same node {quoted(nodes[0])}", "nodes")
    return nodes


def is_text(section: Section, key: str) -> bool:
    """Whether a value is a text; otherwise its fault is noted already."""
    return isinstance(section.data.get(key), str)


def full_names(
    top: Section, part: str, index: Mapping[str, int], section: Section, key: str
) -> tuple[str, ...]:
    """Names of nodes or instances; one may lack the domain when only one can be meant."""
    found = []
    for name in section.texts(key):
        if name in index:
            found.append(name)
            continue
        matches = [known for known in index if known.startswith(name + ".")]
        if len(matches) == 1:
            found.append(matches[0])
        elif lacks(top, part, name):
            found_how = "more than one" if matches else "no"
            section.fault(f"{found_how} {part[:-1]} is named {quoted(name)}", key)
    return tuple(found)


def instance_name(section: Section, top: Section) -> str:
    """The instance under the key ``name``."""
    name = section.text("name")
    if is_text(section, "name") and lacks(top, "instances", name):
        section.fault(f"no instance is named {quoted(name)}", "name")
    return name


def instance_names(section: Section, top: Section, cluster: Cluster) -> tuple[str, ...]:
    """The instances under the key ``instances``; one that is named twice counts once."""
    names = full_names(top, "instances", cluster.instance_index, section, "instances")
    return tuple(dict.fromkeys(names))
