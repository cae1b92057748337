"""A cluster made from numbers and a seed: DRBD instances, spread evenly, two sizes of headroom."""

from __future__ import annotations

import math
from random import Random
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from ganeti_steward.core.model.cluster import (
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

#: Share of a node's memory and disk that the instances take on average.
_FILLED: Final = 0.55
#: MiB of memory, MiB of disk and virtual CPUs of the instances, the small ones more often.
_SIZES: Final = (
    *[(2048, 20480, 1)] * 4,
    *[(4096, 40960, 2)] * 3,
    *[(8192, 102400, 4)] * 2,
    (16384, 204800, 8),
)
_METADATA: Final = 128
_LEAST: Final = Spec(0, 1, 0, 0, 0, 1)
_MOST: Final = Spec(65536, 64, 1048576, 16, 8, 16)


def made_cluster(nodes: int, instances: int, groups: int, seed: int) -> Cluster:
    """Node groups of equal size; nodes of equal size, which the instances fill by about half.

    Every group needs at least two nodes.
    """
    random = Random(f"cluster {seed}")
    made = [_instance(f"instance{number:05}", random.choice(_SIZES)) for number in range(instances)]
    names = [f"node{number:04}" for number in range(nodes)]
    members = [names[group::groups] for group in range(groups)]
    placed = _placed(made, members, random)
    figures = _figures(made, nodes)
    return Cluster(
        [_group(f"group{number:02}") for number in range(groups)],
        [
            _node(name, f"group{number:02}", placed, figures)
            for number, group in enumerate(members)
            for name in group
        ],
        placed,
        hypervisors=("kvm",),
    )


def uuid_of(name: str) -> str:
    """The uuid of an object that has none, by its name."""
    return str(uuid5(NAMESPACE_DNS, name))


def _instance(name: str, size: tuple[int, int, int]) -> Instance:
    memory, disk, vcpus = size
    return Instance(
        name=name,
        memory=memory,
        vcpus=vcpus,
        disk_space=disk + _METADATA,
        disks=(Disk(disk, None),),
        template="drbd",
        spindle_use=1,
        tags=(),
        networks=(),
        state="up",
        forthcoming=False,
        nodes=(),
    )


def _placed(made: list[Instance], members: list[list[str]], random: Random) -> list[Instance]:
    """Each in the next group, on its node with the least memory and another with little disk."""
    memory = dict.fromkeys((name for group in members for name in group), 0)
    disk = dict(memory)
    placed = []
    for number, one in enumerate(made):
        group = members[number % len(members)]
        primary = min(group, key=lambda name: (memory[name], name))
        others = [name for name in random.sample(group, min(4, len(group))) if name != primary]
        secondary = min(others, key=lambda name: (disk[name], name))
        memory[primary] += one.memory
        disk[primary] += one.disk_space
        disk[secondary] += one.disk_space
        placed.append(one._replace(nodes=(primary, secondary)))
    return placed


def _figures(made: list[Instance], nodes: int) -> tuple[int, int, int]:
    """Memory (MiB), disk (MiB) and CPUs of each node; never less than two large instances."""
    memory = max(sum(one.memory for one in made), 4 * 16384 * nodes * _FILLED) / nodes
    disk = max(2 * sum(one.disk_space for one in made), 4 * 204800 * nodes * _FILLED) / nodes
    vcpus = sum(one.vcpus for one in made) / nodes
    return (
        math.ceil(memory / _FILLED / 1024) * 1024,
        math.ceil(disk / _FILLED / 1024) * 1024,
        max(8, math.ceil(vcpus)),
    )


def _node(name: str, group: str, placed: list[Instance], figures: tuple[int, int, int]) -> Node:
    memory, disk, cpus = figures
    return Node(
        name=name,
        group=uuid_of(group),
        offline=False,
        drained=False,
        vm_capable=True,
        tags=(),
        exclusive_storage=False,
        total_memory=memory,
        reserved_memory=1024,
        free_memory=memory - 1024,
        total_disk=disk,
        free_disk=disk,
        total_cpus=cpus,
        reserved_cpus=0,
        spindles=16,
        free_spindles=0,
    )


def _group(name: str) -> Group:
    policy = Policy((MinMax(_LEAST, _MOST),), _LEAST, DISK_TEMPLATES, 8.0, 64.0)
    return Group(uuid_of(name), name, "preferred", frozenset(), policy, ())
