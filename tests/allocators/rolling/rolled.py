"""What the tests of planned maintenance share: made clusters, hroller's rounds, an own check."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ganeti_steward.allocators.rolling.roll import Roll, Round
from ganeti_steward.core.model.cluster import Cluster, Instance

#: Mix of templates, hroller's option with the same conditions, more options of the cluster.
MODES: Final = (
    ("drbd=1", (), ()),
    ("drbd=7,plain=2", (), ()),
    ("drbd=7,plain=3", ("--ignore-non-redundant",), ()),
    ("drbd=1", ("--offline-maintenance",), ("--down=1",)),
    ("drbd=5,ext=3", (), ()),
)
FEATURES: Final = (
    (),
    ("--drained=1",),
    ("--offline=1",),
    ("--excl-tags=.2",),
    ("--migration-tags",),
    ("--groups=2",),
    ("--admin-offline=.1",),
    ("--vcpu-ratio=1.5",),
)


def shape(seed: int) -> list[str]:
    """The options of a made cluster."""
    mix, _, more = MODES[seed % 5]
    nodes, per_node = (4, 6, 8, 11, 16, 24)[seed % 6], (2, 4, 8)[seed % 3]
    size = [f"--seed={seed}", f"--nodes={nodes}", f"--mix={mix}", f"--per-node={per_node}"]
    return [*size, f"--fill={(0.3, 0.5, 0.7)[seed % 3]}", *FEATURES[seed % 8], *more]


def hroller(file: Path, options: Sequence[str] = ()) -> list[list[str]]:
    """hroller's rounds, with the names it prints."""
    command = ["hroller", "-t", str(file), "--force", "--no-headers", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return [line.split(",") for line in done.stdout.split()]


def faults(cluster: Cluster, roll: Roll, names: Sequence[str]) -> list[str]:
    """What is wrong with a plan, found without anything the planner uses."""
    seen = Counter(name for one in roll.rounds for name in one.nodes)
    seen.update(one.node for one in roll.impossible)
    seen.update(name for name, _ in roll.left_out)
    found = [f"{name}: {seen[name]} times" for name in names if seen[name] != 1]
    for one in roll.rounds:
        found += _round_faults(cluster, one)
    return found


def _round_faults(cluster: Cluster, one: Round) -> Iterator[str]:
    away = {*one.nodes}
    leaves = {leave.instance: leave for leave in one.leaves}
    for instance in cluster.instances:
        if not instance.forthcoming and len(instance.nodes) > 1 and {*instance.nodes} <= away:
            yield f"{instance.name} has both nodes in a round"
        runs = instance.up and not instance.forthcoming
        if runs and instance.primary in away and instance.name not in leaves:
            yield f"{instance.name} would run on a node that is away"
    arrived: dict[str, list[Instance]] = {}
    for name, leave in leaves.items():
        instance = cluster.instance(name)
        if leave.how == "shutdown":
            continue
        arrived.setdefault(leave.target, []).append(instance)
        yield from _target_faults(cluster, instance, leave.target, away)
        if leave.how == "migrate" and leave.copied:
            yield f"{name} is copied"
    for node, instances in arrived.items():
        yield from _room_faults(cluster, node, instances)


def _target_faults(
    cluster: Cluster, instance: Instance, target: str, away: set[str]
) -> Iterator[str]:
    node, source = cluster.node(target), cluster.node(instance.primary)
    if target in away or not node.usable:
        yield f"{target} cannot take {instance.name}"
    if instance.template == "drbd" and target != instance.nodes[1]:
        yield f"{instance.name} does not go to its secondary"
    if node.group != source.group:
        yield f"{instance.name} leaves its group"
    words = [tag.partition("htools:migration:")[2] for tag in cluster.tags]
    prefixes = tuple(f"{word}:" for word in words if word)
    allowed = {tag.partition("htools:allowmigration:")[2] for tag in cluster.tags}
    theirs = {tag for tag in node.tags if prefixes and tag.startswith(prefixes)}
    for tag in source.tags:
        accepted = any(f"{tag}::{other}" in allowed for other in theirs)
        if prefixes and tag.startswith(prefixes) and tag not in theirs and not accepted:
            yield f"{target} does not accept {instance.name} by its migration tags"


def _room_faults(cluster: Cluster, name: str, arrived: list[Instance]) -> Iterator[str]:
    node = cluster.node(name)
    there = [one for one in cluster.instances if one.primary == name and not one.forthcoming]
    if node.free_memory <= sum(one.memory for one in arrived):
        yield f"{name} has no memory for what arrives"
    ratio = cluster.group(node.group).policy.vcpu_ratio
    counted = [*(one for one in there if one.counts_vcpus), *arrived]
    if node.reserved_cpus + sum(one.vcpus for one in counted) > ratio * node.total_cpus:
        yield f"{name} has no vcpus for what arrives"
    copied = sum(one.disk_space for one in arrived if one.template == "plain")
    if copied and copied >= node.free_disk:
        yield f"{name} has no disk for what arrives"
    exclusive = tuple(
        tag.partition("htools:iextags:")[2] for tag in cluster.tags if "htools:iextags:" in tag
    )
    before = Counter(tag for one in there for tag in one.tags if tag.startswith(exclusive))
    after = before + Counter(
        tag for one in arrived for tag in one.tags if tag.startswith(exclusive)
    )
    if exclusive:
        yield from (
            f"{tag} meets on {name}" for tag, count in after.items() if count > max(1, before[tag])
        )
