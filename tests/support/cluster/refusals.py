"""Requests that are refused, on small clusters where something could be done about it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

from ask import steward
from clusters import generate
from replay import IllegalStepError, Replay

from ganeti_steward.allocators.jobs.operations import migrate, nodes_after, replace_secondary
from ganeti_steward.core.model.opcodes import MOVES, Job

Message = dict[str, Any]

_MIXES: Final = ("drbd=1", "drbd=2,ext=1", "drbd=3,plain=1", "ext=2,plain=1", "drbd=1,sharedfile=1")
_FEATURES: Final = (
    (0.2, "--excl-tags=.6"),
    (0.15, "--drained=1"),
    (0.15, "--offline=1"),
    (0.2, "--vcpu-ratio=1.5"),
    (0.15, "--spindle-ratio=3"),
    (0.15, "--down=.3"),
    (0.15, "--migration-tags"),
    (0.15, "--location-tags"),
    (0.2, "--max-mem=8192"),
)
#: The requests that are made.
ALLOCATIONS: Final = ("drbd", "plain", "ext")
MOVING: Final = ("relocate", "primary-only", "secondary-only", "change-group")


def refusal(seed: int, kind: str) -> Message:
    """A message that is refused, or answered in part; what it is like depends on the seed.

    ``kind``: a disk template of a new instance, or one of `MOVING`.
    """
    rng = random.Random(f"{seed} {kind}")
    for _ in range(200):
        message = _message(rng, kind)
        if message is not None and refused(message):
            return message
    raise AssertionError(f"seed {seed}: nothing is refused")


def refused(message: Message) -> bool:
    """Whether any instance of the request has no place."""
    answer = steward(message)
    if answer["success"] and message["request"]["type"] in ("node-evacuate", "change-group"):
        return bool(answer["result"][1])
    return not answer["success"]


def _message(rng: random.Random, kind: str) -> Message | None:
    features = [option for chance, option in _FEATURES if rng.random() < chance]
    groups = 2 if kind == "change-group" else rng.choice([1, 1, 2])
    arguments = [
        f"--nodes={rng.choice([4, 4, 5])}",
        f"--groups={groups}",
        f"--mix={rng.choice(_MIXES)}",
        f"--seed={rng.randrange(10**6)}",
        f"--per-node={rng.choice([2, 3])}",
        f"--fill={rng.choice([0.5, 0.7, 0.9])}",
        "--choices=1",
        *features,
    ]
    if kind in ALLOCATIONS:
        message = generate(*arguments, "--request=allocate", f"--new-template={kind}")
        _enlarge(rng, message)
        return message
    message = generate(*arguments, "--request=none")
    names = sorted(
        name
        for name, one in message["instances"].items()
        if one["disk_template"] in ("drbd", "ext")
        and (kind != "secondary-only" or one["disk_template"] == "drbd")
    )
    if not names:
        return None
    return message | {"request": _moving(rng, kind, message, rng.choice(names))}


def _moving(rng: random.Random, kind: str, message: Message, name: str) -> Message:
    """The request, after the other nodes have been filled up."""
    instance = message["instances"][name]
    others = [node for n, node in message["nodes"].items() if n not in instance["nodes"]]
    for node in others:
        if not node["offline"] and rng.random() < 0.8:
            # Just too little of one thing, which other instances may give back.
            key, need = rng.choice(
                [("free_memory", instance["memory"]), ("free_disk", instance["disk_space_total"])]
            )
            node[key] = min(node[key], max(0, need - rng.randrange(1, 2048)))
    if kind == "relocate":
        left = instance["nodes"][-1]
        return {"type": kind, "name": name, "required_nodes": 1, "relocate_from": [left]}
    if kind == "change-group":
        return {"type": kind, "instances": [name], "target_groups": []}
    return {"type": "node-evacuate", "instances": [name], "evac_mode": kind}


def _enlarge(rng: random.Random, message: Message) -> None:
    """Make the new instance a little larger than what is free."""
    request = message["request"]
    nodes = [node for node in message["nodes"].values() if not node["offline"]]
    what = rng.choice(["memory", "memory", "disk", "vcpus", "as it is"])
    if what == "memory":
        request["memory"] = max(n["free_memory"] for n in nodes) + rng.randrange(-2048, 2048)
    elif what == "disk" and request["disks"]:
        size = max(n["free_disk"] for n in nodes) + rng.randrange(-4096, 4096)
        request["disk_space_total"] += size - sum(disk["size"] for disk in request["disks"])
        request["disks"] = [{"size": size, "mode": "rw"}]
    elif what == "vcpus":
        request["vcpus"] = 16
    if rng.random() < 0.8:
        for pair in (p for g in message["nodegroups"].values() for p in g["ipolicy"]["minmax"]):
            pair["max"].update({"memory-size": 2**20, "disk-size": 2**24, "cpu-count": 64})


# -- brute force, without the engine's own search


def single_moves(message: Message) -> Iterator[tuple[str, Job, Message]]:
    """Every legal move of one other instance: its name, the job, the message after it."""
    request = message["request"]
    own = {request.get("name"), *request.get("instances", ())}
    for name, instance in message["instances"].items():
        if name in own or instance.get("forthcoming"):
            continue
        for job in _jobs(message, name):
            try:
                Replay(message).run({"result": [[], [], [job]]})
            except IllegalStepError:
                continue
            yield name, job, after(message, job)


def _jobs(message: Message, name: str) -> Iterator[Job]:
    """The jobs to at most one new node of the group."""
    instance, nodes = message["instances"][name], message["nodes"]
    group = nodes[instance["nodes"][0]]["group"]
    targets = [
        n for n, node in nodes.items() if node["group"] == group and n not in instance["nodes"]
    ]
    if instance["disk_template"] == "drbd":
        yield [migrate(name)]
        for target in targets:
            copy_ = replace_secondary(name, target)
            yield [copy_]
            yield [copy_, migrate(name)]
            yield [migrate(name), copy_]
            yield [migrate(name), copy_, migrate(name)]
    elif instance["disk_template"] not in ("plain", "file"):
        for target in targets:
            yield [migrate(name, target)]


def after(message: Message, job: Job) -> Message:
    """The message as Ganeti would send it when the job is done."""
    changed = copy.deepcopy(message)
    for operation in job:
        assert operation["OP_ID"] in MOVES
        instance = changed["instances"][operation["instance_name"]]
        then = nodes_after(tuple(instance["nodes"]), operation)
        for sign, names in ((1, instance["nodes"]), (-1, then)):
            for at, node in enumerate(changed["nodes"][n] for n in names):
                if node["offline"]:
                    continue
                if at == 0 and instance.get("admin_state", "up") == "up":
                    node["free_memory"] += sign * instance["memory"]
                if instance["disk_template"] in ("drbd", "plain"):
                    node["free_disk"] += sign * instance["disk_space_total"]
        instance["nodes"] = list(then)
    return changed
