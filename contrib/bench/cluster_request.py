"""Random requests for a generated cluster."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from cluster_parts import (
    INST_CPU,
    INST_DISK,
    INST_MEM,
    MIRRORED_EXT,
    SERVICE_TAG,
    Json,
    disk_space,
    keeping_out,
    make_nic,
    parse_mix,
    pick_weighted,
)


class RequestOptions(Protocol):
    """The command line's options that shape the request."""

    request: str
    count: int
    new_template: str
    new_mix: str
    new_mem: int | None
    new_cpu: int | None
    new_disk: int | None
    new_network: str
    group_name: str | None
    restrict: str
    evac_mode: str
    evac_node: str
    target_instance: str
    target_groups: str
    excl_tags: float
    desired_location: float
    racks: int
    aggregates: int
    exclusive_storage: bool
    hypervisor: str
    domain: str
    seed: str


def make_request(args: RequestOptions, data: Mapping[str, Any]) -> Json | None:
    """The request the options name, drawn for this cluster; None for ``none``."""
    if args.request == "none":
        return None
    maker = MAKERS.get(args.request)
    if maker is None:
        raise SystemExit(f"unknown request type {args.request!r}")
    return maker(args, random.Random(f"{args.seed}-request"), data)


def _new_instance(args: RequestOptions, rng: random.Random, name: str, template: str) -> Json:
    """One allocation request body (without the type)."""
    mem = args.new_mem or rng.choice(INST_MEM)
    cpu = args.new_cpu or rng.choice(INST_CPU)
    size = args.new_disk or rng.choice(INST_DISK)
    sizes = [] if template == "diskless" else [size]
    tags = _new_tags(args, rng)
    nic = make_nic(f"aa:00:01:00:00:{rng.randrange(256):02x}")
    if args.new_network:
        nic["network"] = args.new_network
    spindles = 1 if args.exclusive_storage else None
    return {
        "name": name,
        "disk_template": template,
        "group_name": args.group_name,
        "tags": tags,
        "os": "debootstrap+default",
        "vcpus": cpu,
        "memory": mem,
        "spindle_use": 1,
        "disks": [{"size": size, "mode": "w", "spindles": spindles} for size in sizes],
        "disk_space_total": disk_space(template, sizes),
        "nics": [nic],
        "required_nodes": 2 if template == "drbd" else 1,
        "hypervisor": args.hypervisor,
    }


def _new_tags(args: RequestOptions, rng: random.Random) -> list[str]:
    tags = []
    if args.excl_tags and rng.random() < args.excl_tags:
        tags.append(f"{SERVICE_TAG}s{rng.randrange(5)}")
    if args.desired_location and rng.random() < 0.5:
        tags.append(f"power:rack{rng.randrange(args.racks)}")
    if args.aggregates:
        tags.append(keeping_out(args.aggregates, random.Random(args.seed)))
    return tags


def _allocate(args: RequestOptions, rng: random.Random, _data: Mapping[str, Any]) -> Json:
    request = _new_instance(args, rng, f"new1.{args.domain}", args.new_template)
    if args.restrict:
        request["restrict-to-nodes"] = args.restrict.split(",")
    request["type"] = "allocate"
    return request


def _multi_allocate(args: RequestOptions, rng: random.Random, _data: Mapping[str, Any]) -> Json:
    mix = parse_mix(args.new_mix) if args.new_mix else None
    bodies = []
    for i in range(args.count):
        template = pick_weighted(rng, mix) if mix else args.new_template
        bodies.append(_new_instance(args, rng, f"new{i + 1:04d}.{args.domain}", template))
    request: Json = {"type": "multi-allocate", "instances": bodies}
    if args.group_name:
        request["group_name"] = args.group_name
    return request


def _relocate(args: RequestOptions, rng: random.Random, data: Mapping[str, Any]) -> Json:
    movable = _movable(data)
    if args.target_instance:
        name = args.target_instance
    elif not movable:
        raise SystemExit("no instance can be relocated; change --mix")
    else:
        name = rng.choice(movable)
    instance = data["instances"][name]
    nodes = instance["nodes"]
    return {
        "type": "relocate",
        "name": name,
        "required_nodes": 1,
        "disk_space_total": instance["disk_space_total"],
        "relocate_from": nodes[1:] if instance["disk_template"] == "drbd" else nodes[:1],
    }


def _movable(data: Mapping[str, Any]) -> list[str]:
    """The instances that can leave a node without copying their disks from it."""
    return [
        name
        for name, instance in data["instances"].items()
        if instance["disk_template"] in ("drbd", *MIRRORED_EXT)
    ]


def _node_evacuate(args: RequestOptions, rng: random.Random, data: Mapping[str, Any]) -> Json:
    instances = data["instances"]
    node = args.evac_node
    if not node:
        used = {name for instance in instances.values() for name in instance["nodes"]}
        busy = [name for name in data["nodes"] if name in used]
        node = rng.choice(busy or list(data["nodes"]))
    names = [
        name
        for name, instance in instances.items()
        if _leaves(instance["nodes"], node, args.evac_mode)
    ]
    return {"type": "node-evacuate", "instances": names, "evac_mode": args.evac_mode}


def _leaves(nodes: list[str], node: str, mode: str) -> bool:
    """Whether evacuating the node in this mode moves an instance on these nodes."""
    primary = mode in ("primary-only", "all") and nodes[0] == node
    return primary or (mode in ("secondary-only", "all") and nodes[1:2] == [node])


def _change_group(args: RequestOptions, rng: random.Random, data: Mapping[str, Any]) -> Json:
    instances, nodes = data["instances"], data["nodes"]
    pool = _movable(data)
    rng.shuffle(pool)
    groups = {name: nodes[instances[name]["nodes"][0]]["group"] for name in pool}
    names = [name for name in pool if groups[name] == groups[pool[0]]]
    return {
        "type": "change-group",
        "instances": names[: max(1, args.count)],
        "target_groups": args.target_groups.split(",") if args.target_groups else [],
    }


def _allocate_secondary(args: RequestOptions, rng: random.Random, data: Mapping[str, Any]) -> Json:
    plain = [
        name for name, instance in data["instances"].items() if instance["disk_template"] == "plain"
    ]
    if not plain:
        raise SystemExit("no plain instance; change --mix")
    return {
        "type": "allocate-secondary",
        "name": args.target_instance or rng.choice(plain),
    }


MAKERS: Final[Mapping[str, Callable[[RequestOptions, random.Random, Mapping[str, Any]], Json]]] = {
    "allocate": _allocate,
    "multi-allocate": _multi_allocate,
    "relocate": _relocate,
    "node-evacuate": _node_evacuate,
    "change-group": _change_group,
    "allocate-secondary": _allocate_secondary,
}
