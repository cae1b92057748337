"""The iallocator message: reading and checking it, writing the answer (allocation 1, 2, 10).

Objects may come in any order and unknown keys are ignored.  Whatever is wrong with a
message is told in one sentence (`BadInput`), never by a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.json_reader import Faults, Section, describe, quoted
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import (
    ALLOC_POLICIES,
    DISK_TEMPLATES,
    Cluster,
    Disk,
    Group,
    Instance,
    MinMax,
    Node,
    Policy,
    Spec,
)
from ganeti_steward.core.model.requests import (
    EVAC_MODES,
    HOOKS,
    Allocate,
    AllocateSecondary,
    Balance,
    Capacity,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
    Request,
)

HYPERVISORS = frozenset({"kvm", "xen-pvm", "xen-hvm", "chroot", "lxc", "fake"})
#: A tuple, which also takes the question for a list or an object.
NIC_MODES = ("bridged", "openvswitch", "routed")


def read_message(raw: bytes) -> tuple[Cluster, Request]:
    """Read one iallocator message.

    Raises BadInput naming every fault (allocation 2 and 11).
    """
    message = parse(raw)
    faults = Faults()
    top = Section(message, "message", "", faults)
    cluster = _cluster(top)
    request = _request(top, cluster)
    faults.check()
    return cluster, request


def read_cluster(message: Mapping[str, Any]) -> Cluster:
    """The cluster of a message whose request, if there is any, does not matter.

    Raises BadInput naming every fault (allocation 2).
    """
    faults = Faults()
    cluster = _cluster(Section(message, "message", "", faults))
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


def write_answer(outcome: Outcome) -> bytes:
    """One JSON object on one line, as Ganeti wants it (allocation 10)."""
    good = isinstance(outcome, Answer)
    prefix = "Request successful: " if good else "Request failed: "
    answer = {
        "success": good,
        "info": prefix + _writable(outcome.info),
        "result": outcome.result if isinstance(outcome, Answer) else [],
    }
    try:
        return orjson.dumps(answer) + b"\n"
    except orjson.JSONEncodeError as err:
        # Only an allocator from elsewhere can have put such things into its result.
        return write_answer(Refusal(f"the allocator's result cannot be written: {err}"))


def _writable(text: str) -> str:
    """Without lone surrogates, which JSON in UTF-8 cannot carry."""
    return text.encode(errors="backslashreplace").decode()


def _cluster(top: Section) -> Cluster:
    hypervisors = top.texts("enabled_hypervisors")
    for name in hypervisors:
        if name not in HYPERVISORS:
            known = ", ".join(sorted(HYPERVISORS))
            top.fault(f"unknown hypervisor {quoted(name)} (known: {known})", "enabled_hypervisors")
    groups = [_group(section) for section in top.sections("nodegroups", "node group")]
    nodes = [_node(section, top) for section in top.sections("nodes", "node")]
    instances = []
    for section in top.sections("instances", "instance"):
        instance = _instance(section, section.name)
        instances.append(instance._replace(nodes=_instance_nodes(section, instance, top)))
    return Cluster(groups, nodes, instances, top.texts("cluster_tags"), hypervisors)


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


def _lacks(top: Section, part: str, name: str) -> bool:
    """Whether a part of the message has no member of this name.

    A part that is missing as a whole is one fault, not one for each mention of a member.
    """
    members = top.data.get(part)
    return isinstance(members, dict) and name not in members


def _node(section: Section, top: Section) -> Node:
    group = section.text("group")
    if _is_text(section, "group") and _lacks(top, "nodegroups", group):
        section.fault(f"no node group has the uuid {quoted(group)}", "group")
    offline = section.boolean("offline")
    vm_capable = section.data.get("vm_capable") is None or section.boolean("vm_capable")
    params = section.section("ndparams")
    exclusive = params.boolean("exclusive_storage")
    live = not offline and vm_capable
    # The figures of a node that is not live are 0 whatever the message says.
    figures = section if live else Section(_NO_FIGURES, section.kind, section.name, Faults())
    if exclusive:
        spindles = figures.integer("total_spindles")
    else:
        spindles = params.integer("spindle_count")
    return Node(
        name=section.name,
        group=group,
        offline=offline,
        drained=section.boolean("drained"),
        vm_capable=vm_capable,
        tags=() if section.data.get("tags") is None else section.texts("tags"),
        exclusive_storage=exclusive,
        total_memory=figures.number("total_memory"),
        reserved_memory=figures.integer("reserved_memory"),
        free_memory=figures.integer("free_memory"),
        total_disk=figures.number("total_disk"),
        free_disk=figures.integer("free_disk"),
        total_cpus=figures.number("total_cpus"),
        reserved_cpus=figures.integer("reserved_cpus"),
        spindles=spindles,
        free_spindles=figures.integer("free_spindles"),
    )


_NO_FIGURES = dict.fromkeys(
    (
        "total_memory",
        "reserved_memory",
        "free_memory",
        "total_disk",
        "free_disk",
        "total_cpus",
        "reserved_cpus",
        "total_spindles",
        "free_spindles",
    ),
    0,
)


def _instance(section: Section, name: str) -> Instance:
    state = section.data.get("admin_state")
    return Instance(
        name=name,
        memory=section.integer("memory"),
        vcpus=section.integer("vcpus"),
        disk_space=section.integer("disk_space_total"),
        disks=_disks(section),
        template=section.choice("disk_template", DISK_TEMPLATES),
        spindle_use=section.integer("spindle_use"),
        tags=section.texts("tags"),
        networks=_networks(section),
        # hail takes an unknown state as up, and so do we: it reserves the most.
        state=state if state in ("down", "offline") else "up",
        forthcoming=section.data.get("forthcoming") is True,
        nodes=(),
    )


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


def _instance_nodes(section: Section, instance: Instance, top: Section) -> tuple[str, ...]:
    """Primary and, if there is one, secondary; further names are ignored."""
    before = len(section.faults.found)
    nodes = section.texts("nodes")[:2]
    if len(section.faults.found) > before:
        return ()
    for name in nodes:
        if _lacks(top, "nodes", name):
            section.fault(f"no node is named {quoted(name)}", "nodes")
    if not nodes:
        section.fault("the list is empty", "nodes")
    elif instance.template == "drbd" and len(nodes) < 2:
        section.fault("a drbd instance needs two nodes, found one", "nodes")
    elif len(nodes) == 2 and nodes[0] == nodes[1]:
        section.fault(f"primary and secondary are the same node {quoted(nodes[0])}", "nodes")
    return nodes


def _request(top: Section, cluster: Cluster) -> Request:
    section = top.section("request")
    section = Section(section.data, "request", "", section.faults)
    kind = section.text("type")
    if kind == "allocate":
        return _allocate(section)
    if kind == "capacity":
        return Capacity(_allocate(section))
    if kind == "multi-allocate":
        return _multi_allocate(section)
    if kind in ("node-evacuate", "change-group"):
        return _move(kind, top, cluster, section)
    if kind == "balance":
        return Balance(_max_moves(section))
    if kind not in HOOKS:
        if _is_text(section, "type"):
            known = ", ".join(HOOKS)
            section.fault(f"unknown request type {quoted(kind)} (known: {known})", "type")
        return AllocateSecondary("")
    name = section.text("name")
    if _is_text(section, "name") and _lacks(top, "instances", name):
        section.fault(f"no instance is named {quoted(name)}", "name")
    if kind == "relocate":
        leave = _full_names(top, "nodes", cluster.node_index, section, "relocate_from")
        return Relocate(name, section.integer("required_nodes"), leave)
    return AllocateSecondary(name)


def _multi_allocate(section: Section) -> MultiAllocate:
    bodies = [
        section.entry("instances", number, body)
        for number, body in enumerate(section.items("instances"))
    ]
    items = tuple(_allocate(body) for body in bodies)
    return MultiAllocate(items, section.optional_text("group_name"))


def _move(kind: str, top: Section, cluster: Cluster, section: Section) -> Request:
    names = _full_names(top, "instances", cluster.instance_index, section, "instances")
    # An instance named twice is moved once.
    names = tuple(dict.fromkeys(names))
    if kind == "node-evacuate":
        return NodeEvacuate(names, section.choice("evac_mode", EVAC_MODES))
    return ChangeGroup(names, _target_groups(top, cluster, section))


def _target_groups(top: Section, cluster: Cluster, section: Section) -> tuple[str, ...]:
    """The uuids of the groups asked for by uuid or by name."""
    found = []
    for name in section.texts("target_groups"):
        matches = [cluster.groups[i].uuid for i in cluster.groups_named(name)]
        found += matches if len(matches) == 1 else []
        if len(matches) != 1 and isinstance(top.data.get("nodegroups"), dict):
            many = "more than one node group is" if matches else "no node group is"
            section.fault(f"{many} named {quoted(name)}", "target_groups")
    return tuple(dict.fromkeys(found))


def _max_moves(section: Section) -> int | None:
    if section.data.get("max_moves") is None:
        return None
    limit = section.integer("max_moves")
    if limit < 0:
        section.fault(f"at least 0 is expected, found {limit}", "max_moves")
    return limit


def _is_text(section: Section, key: str) -> bool:
    """Whether there is more to say of a value than that it is missing or no text."""
    return isinstance(section.data.get(key), str)


def _allocate(section: Section) -> Allocate:
    instance = _instance(section, section.text("name"))
    required = section.integer("required_nodes")
    if instance.template == "drbd" and required == 1:
        section.fault("a drbd instance needs 2 nodes, found the number 1", "required_nodes")
    return Allocate(
        instance=instance,
        required_nodes=required,
        group_name=section.optional_text("group_name"),
        restrict_to=section.optional_texts("restrict-to-nodes"),
    )


def _full_names(
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
        elif _lacks(top, part, name):
            found_how = "more than one" if matches else "no"
            section.fault(f"{found_how} {part[:-1]} is named {quoted(name)}", key)
    return tuple(found)
