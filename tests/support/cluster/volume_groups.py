"""Clusters whose disks lie in several volume groups, and what an answer leaves free in each.

The check knows the rule only: a new copy needs its volume groups on its node, with room to spare.
It shares nothing with the program.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

Message = dict[str, Any]

USUAL: Final = "xenvg"
LOCAL: Final = ("drbd", "plain")
_METADATA: Final = 128

#: Volume group -> MiB.
Sizes = dict[str, int]


def parts(instance: Message) -> Sizes:
    """What a copy of an instance takes; what is only announced takes nothing yet."""
    found: Sizes = {}
    if instance["disk_template"] not in LOCAL or instance.get("forthcoming"):
        return found
    metadata = _METADATA if instance["disk_template"] == "drbd" else 0
    for disk in instance["disks"]:
        for key, size in ("vg", disk["size"]), ("metavg", metadata):
            group = disk.get(key) or USUAL
            found[group] = found.get(group, 0) + size
    return {group: size for group, size in found.items() if size}


def divided(message: Message, seed: int, *, unknown: float = 0.0) -> Message:
    """The same cluster with one or two more volume groups on most nodes.

    Each instance keeps to the groups that all of its nodes have.  ``unknown``: the share of the
    nodes whose further groups are not known.
    """
    rng, changed = random.Random(seed), deepcopy(message)
    groups = ["ssd", "hdd"][: rng.choice([1, 1, 2])]
    changed["volume_group"] = USUAL
    nodes, missing = changed["nodes"], rng.choice([0.0, 0.1, 0.3])
    has = {name: [group for group in groups if rng.random() >= missing] for name in nodes}
    moved: dict[str, Sizes] = {name: dict.fromkeys(has[name], 0) for name in nodes}
    for instance in changed["instances"].values():
        both = [group for group in groups if all(group in has[at] for at in instance["nodes"])]
        before = parts(instance)
        for disk in instance["disks"] if instance["disk_template"] in LOCAL else ():
            _lay(disk, both, rng)
        for at in instance["nodes"] if before else ():
            for group, size in parts(instance).items():
                if group != USUAL:
                    moved[at][group] += size
                    if nodes[at].get("free_disk") is not None:
                        nodes[at]["free_disk"] += size
    for name, node in nodes.items():
        room = rng.choice([3_000, 30_000, 300_000])
        node["volume_groups"] = {
            group: {"total": taken + room + 4_000, "free": rng.randint(0, room)}
            for group, taken in moved[name].items()
        }
        if rng.random() < unknown:
            node["volume_groups"] = None
    request = changed["request"]
    for new in (request, *request.get("instances", ())):
        for disk in new.get("disks", ()) if isinstance(new, dict) else ():
            _lay(disk, groups, rng)
    return changed


def _lay(disk: Message, groups: list[str], rng: random.Random) -> None:
    if groups and rng.random() < 0.6:
        disk["vg"] = rng.choice(groups)
    elif rng.random() < 0.3:
        disk["vg"] = USUAL
    if groups and rng.random() < 0.2:
        disk["metavg"] = rng.choice(groups)


#: Node, what is copied to it, and what leaves it after that.
Step = tuple[str, Sizes, tuple[str, Sizes] | None]


def steps(message: Message, answer: Message) -> Iterator[Step]:
    """The copies of an answer, in the order in which they are made."""
    request, result = message["request"], answer["result"]
    if not answer["success"]:
        return
    if request["type"] == "allocate":
        for node in result:
            yield node, parts(request), None
    elif request["type"] == "multi-allocate":
        wanted = {one["name"]: one for one in request["instances"]}
        for name, nodes in result[0]:
            for node in nodes:
                yield node, parts(wanted[name]), None
    elif request["type"] in ("relocate", "allocate-secondary"):
        instance = message["instances"][request["name"]]
        (node,) = [result] if isinstance(result, str) else result
        yield node, parts({**instance, "disk_template": "drbd"}), None
    else:
        yield from _steps_of_jobs(message, result[2])


def _steps_of_jobs(message: Message, jobs: Iterable[list[Message]]) -> Iterator[Step]:
    nodes = {name: list(one["nodes"]) for name, one in message["instances"].items()}
    for operation in (one for job in jobs for one in job):
        instance = message["instances"][operation["instance_name"]]
        mine = nodes[operation["instance_name"]]
        if operation["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            target = operation["remote_node"]
            yield target, parts(instance), (mine[1], parts(instance))
            mine[1] = target
        elif instance["disk_template"] == "drbd":
            mine.reverse()


def illegal(message: Message, answer: Message) -> list[str]:
    """The copies without room, or to a node without the volume group, in words."""
    free = {
        (name, group): found["free"]
        for name, node in message["nodes"].items()
        for group, found in (node["volume_groups"] or {}).items()
    }
    known = {name for name, node in message["nodes"].items() if node["volume_groups"] is not None}
    free |= {(name, USUAL): node.get("free_disk") or 0 for name, node in message["nodes"].items()}
    faults = []
    for node, taken, leaves in steps(message, answer):
        for group, size in taken.items():
            if group != USUAL and node not in known:
                continue
            if (node, group) not in free:
                faults.append(f"{node} has no volume group {group}")
                continue
            free[node, group] -= size
            if free[node, group] <= 0:
                faults.append(f"{node}: {group} is left with {free[node, group]} MiB")
        if leaves is not None:
            for group, size in leaves[1].items():
                if (leaves[0], group) in free:
                    free[leaves[0], group] += size
    return faults
