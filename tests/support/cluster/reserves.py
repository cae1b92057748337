"""Clusters with reserves, and what an answer leaves free of them.

The check knows the rule only: what gets something new keeps its reserve, unless an unusable node is
left.  It counts from the message and shares nothing with the program.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final, NamedTuple

from volume_groups import USUAL, parts

Message = dict[str, Any]

TAG: Final = "steward:reserve:"
MEMORY: Final = "memory"

_MEMORY: Final = ("4g", "20000", "0.1", "0.3", "0.5", "0")
_DISK: Final = ("2g", "40g", "0.1", "0.5", "0")


def reserving(message: Message, seed: int, *, hosts: bool = True) -> Message:
    """The same cluster with reserves on some of its objects."""
    rng, changed = random.Random(f"reserve {seed}"), deepcopy(message)
    groups = list(changed["nodegroups"].values())
    places = [changed["cluster_tags"], *(one["tags"] for one in groups)]
    places += [one["tags"] for one in changed["nodes"].values()]
    for tags in places:
        if rng.random() < 0.5:
            tags.append(f"{TAG}memory:{rng.choice(_MEMORY)}")
        if rng.random() < 0.3:
            tags.append(f"{TAG}disk:{rng.choice(_DISK)}")
        if rng.random() < 0.3:
            tags.append(f"{TAG}volume-group:{rng.choice(['ssd', USUAL])}:{rng.choice(_DISK)}")
    for tags in places[: 1 + len(groups)]:
        if hosts and rng.random() < 0.4:
            tags.append(f"{TAG}hosts:{rng.choice([0, 1, 2])}")
    return changed


#: Ratios of memory that may be allocated, and the same after a failure.
RATIOS: Final = ((1.0, 1.0), (1.2, 1.2), (1.5, 1.5), (1.1, 1.6), (2.0, 3.0))


def overcommitting(message: Message, seed: int) -> Message:
    """The same cluster with memory ratios on the cluster and some node groups."""
    rng, changed = random.Random(f"ratio {seed}"), deepcopy(message)
    for tags in changed["cluster_tags"], *(one["tags"] for one in changed["nodegroups"].values()):
        running, failed = rng.choice(RATIOS)
        text = f"{running:g}" + (f":n1:{failed:g}" if failed > running else "")
        if rng.random() < 0.7:
            tags.append(f"steward:memory-ratio:{text}")
    return changed


def ratio_of(message: Message, node: str) -> tuple[float, float]:
    """The ratio of a node's group, and that after a failure."""
    group = message["nodegroups"][message["nodes"][node]["group"]]
    for tags in group["tags"], message["cluster_tags"]:
        for tag in tags:
            if tag.startswith("steward:memory-ratio:"):
                running, _, failed = tag.removeprefix("steward:memory-ratio:").partition(":n1:")
                return float(running), float(failed or running)
    return 1.0, 1.0


def _amount(text: str, whole: float) -> int:
    if text == "0" or text.startswith("0."):
        return math.ceil(float(text) * whole)
    return int(text[:-1]) * 1024 if text.endswith("g") else int(text)


def _value(message: Message, node: str, *keys: str) -> str:
    """The value at the most specific place that has one of the keys."""
    own = message["nodes"][node]
    group = message["nodegroups"][own["group"]]
    for tags in own["tags"], group["tags"], message["cluster_tags"]:
        for key in keys:
            for tag in tags:
                if tag.startswith(f"{TAG}{key}:"):
                    return str(tag.removeprefix(f"{TAG}{key}:"))
    return "0"


def kept_memory(message: Message, node: str) -> int:
    """MiB of memory that stay free on a node."""
    return _amount(_value(message, node, MEMORY), message["nodes"][node].get("total_memory") or 0)


def kept_disk(message: Message, node: str, group: str) -> int:
    """MiB that stay free in one of a node's volume groups."""
    own = message["nodes"][node]
    whole = own.get("total_disk") or 0
    if group != USUAL:
        whole = ((own.get("volume_groups") or {}).get(group) or {"total": 0})["total"]
    named = [f"volume-group:{group}"] if group != USUAL or message.get("volume_group") else []
    return _amount(_value(message, node, *named, "disk"), whole)


def usable(node: Message) -> bool:
    """Whether a node may get instances."""
    return bool(node["vm_capable"] and not node["offline"] and not node["drained"])


class _Place(NamedTuple):
    """An instance and where it is now."""

    instance: Message
    nodes: list[str]

    @property
    def real(self) -> bool:
        return not self.instance.get("forthcoming")

    @property
    def use(self) -> int:
        """MiB of memory that it takes now."""
        up = self.instance.get("admin_state", "up") not in ("down", "offline")
        return int(self.instance["memory"]) if self.real and up else 0

    @property
    def backed(self) -> int:
        """MiB that a secondary keeps free for it."""
        offline = self.instance.get("admin_state") == "offline"
        return int(self.instance["memory"]) if self.real and not offline else 0


class Ledger:
    """What is free on each node while the steps of an answer are made."""

    def __init__(self, message: Message) -> None:
        self.message, self.faults = message, list[str]()
        self.places = {
            name: _Place(one, list(one["nodes"])) for name, one in message["instances"].items()
        }
        self._missing = {name: self._missing_memory(name) for name in message["nodes"]}
        self._reported = {
            name: (node.get("free_memory") or 0) + self._used(name)
            for name, node in message["nodes"].items()
        }
        self._disk: dict[tuple[str, str], int] = {}
        for name, node in message["nodes"].items():
            if node.get("free_disk") is not None:
                self._disk[name, USUAL] = node["free_disk"]
            for group, found in (node.get("volume_groups") or {}).items():
                self._disk[name, group] = found["free"]

    def room(self, name: str) -> int:
        """MiB of memory for instances, used or not."""
        node, kvm = self.message["nodes"][name], self.message["enabled_hypervisors"][0] == "kvm"
        if node.get("total_memory") is None or node["offline"] or not node["vm_capable"]:
            return 0
        return int(node["total_memory"]) - (4096 if kvm else node["reserved_memory"])

    def beyond(self, name: str, *, failed: bool = False) -> int:
        """MiB that may be allocated beyond that."""
        return math.floor((ratio_of(self.message, name)[failed] - 1) * max(self.room(name), 0))

    def _missing_memory(self, name: str) -> int:
        node = self.message["nodes"][name]
        recorded = self.room(name) - self._used(name)
        return max(recorded - (node.get("free_memory") or 0), 0)

    def _used(self, name: str) -> int:
        return sum(one.use for one in self.places.values() if one.nodes[0] == name)

    def unallocated(self, name: str) -> int:
        """MiB of a node's memory that no instance takes now."""
        return self.room(name) - self._used(name) - self._missing[name]

    def left_for_all(self, name: str) -> int:
        """The same by the node's own report, if all stopped and announced instances ran."""
        mine = (one for one in self.places.values() if one.nodes[0] == name)
        return int(self._reported[name] - sum(one.instance["memory"] for one in mine))

    def n1(self, name: str) -> int:
        """MiB that a node keeps free for the primary whose failure costs it most."""
        sums: dict[str, int] = {}
        for one in self.places.values():
            if one.instance["disk_template"] == "drbd" and one.nodes[1:] == [name]:
                sums[one.nodes[0]] = sums.get(one.nodes[0], 0) + one.backed
        return max(sums.values(), default=0)

    def n1_fails(self, name: str) -> bool:
        """Whether N+1 fails with the reserve kept."""
        free = self.unallocated(name) + self.beyond(name, failed=True)
        return free - kept_memory(self.message, name) <= self.n1(name)

    # -- steps

    def moved(self, name: str, nodes: list[str], leaves: str = "", copied: str = "") -> None:
        """An instance is on other nodes after one step, which leaves a node and copies to one."""
        place, nodes_of = self.places[name], self.message["nodes"]
        forced = bool(leaves) and not usable(nodes_of[leaves])
        before = list(place.nodes)
        new_primary = nodes[:1] if nodes[0] != (before or [""])[0] else []
        gets = {*new_primary, *([copied] if copied else [])}
        failed = {node for node in gets if self._fails_without(place, node)}
        place.nodes[:] = nodes
        for node in set() if forced else gets:
            self._check_memory(name, node, failed, primary=node == nodes[0])
        if copied:
            self._copy(name, copied, 1)
            if not forced:
                self._check_disk(name, copied)

    def _fails_without(self, place: _Place, node: str) -> bool:
        nodes = list(place.nodes)
        place.nodes[:] = ["", ""]
        fails = self.n1_fails(node)
        place.nodes[:] = nodes
        return fails

    def removed_copy(self, name: str, node: str) -> None:
        """The disks of an instance on a node are gone."""
        self._copy(name, node, -1)

    def _copy(self, name: str, node: str, sign: int) -> None:
        for group, size in parts(self.places[name].instance).items():
            if (node, group) in self._disk:
                self._disk[node, group] -= sign * size

    def _check_memory(self, name: str, node: str, failed: set[str], *, primary: bool) -> None:
        place, kept = self.places[name], kept_memory(self.message, node)
        if not kept and ratio_of(self.message, node) == (1.0, 1.0):
            return
        backed = 0 if primary else place.backed
        beyond = self.beyond(node, failed=not primary)
        for left in (self.unallocated(node), self.left_for_all(node))[0 if place.real else 1 :]:
            free = left + beyond
            if free - backed <= kept:
                self.faults.append(f"{node} has {free} MiB of {kept} for {name}")
        if place.real and self.n1_fails(node) and node not in failed:
            self.faults.append(f"{node} newly fails N+1 with its reserve, by {name}")

    def _check_disk(self, name: str, node: str) -> None:
        for group in parts(self.places[name].instance):
            free = self._disk.get((node, group))
            kept = kept_disk(self.message, node, group)
            if free is not None and kept and free - self._announced(node, group) <= kept:
                self.faults.append(f"{node}: {group} has {free} MiB of {kept} for {name}")

    def _announced(self, node: str, group: str) -> int:
        """MiB of disk that announced instances will take."""
        announced = [one for one in self.places.values() if node in one.nodes and not one.real]
        sizes = [parts({**one.instance, "forthcoming": False}) for one in announced]
        return sum(size.get(group, 0) for size in sizes)

    # -- groups

    def check_hosts(self, name: str, node: str, before: str = "") -> None:
        """A group that a running instance is new in leaves memory for so many of its nodes."""
        nodes = self.message["nodes"]
        group = nodes[node]["group"]
        if (before and nodes[before]["group"] == group) or not self.places[name].use:
            return
        if before and not usable(nodes[before]):
            return
        tags = [*self.message["nodegroups"][group]["tags"]]
        own = [tag for tag in tags if tag.startswith(f"{TAG}hosts:")]
        found = own or [
            one for one in self.message["cluster_tags"] if one.startswith(f"{TAG}hosts:")
        ]
        number = int(found[0].rpartition(":")[2]) if found else 0
        mates = [one for one, data in nodes.items() if data["group"] == group and usable(data)]
        beyond = {one: self.beyond(one, failed=True) for one in mates}
        rooms = sorted((self.room(one) + beyond[one] for one in mates), reverse=True)
        wanted = sum(rooms[:number])
        free = sum(self.unallocated(one) + beyond[one] for one in mates)
        if number and free < wanted:
            self.faults.append(f"{name}: its group is left with {free} of {wanted} MiB")


def violations(message: Message, answer: Message, *, forced: bool = False) -> list[str]:
    """What an answer takes of the reserves, in words; ``forced``: of primaries it may."""
    ledger, request = Ledger(message), message["request"]
    if not answer["success"]:
        return []
    result, kind = answer["result"], request["type"]
    if kind in ("allocate", "multi-allocate"):
        wanted = {one["name"]: one for one in request.get("instances", [request])}
        placed = [[request["name"], result]] if kind == "allocate" else result[0]
        for name, nodes in placed:
            ledger.places[name] = _Place(wanted[name], ["", ""])
            ledger.moved(name, list(nodes), copied=nodes[0])
            if nodes[1:]:
                ledger.places[name].nodes[:] = [nodes[0], ""]
                ledger.moved(name, list(nodes), copied=nodes[1])
            ledger.check_hosts(name, nodes[0])
    elif kind in ("relocate", "allocate-secondary"):
        _one_node(ledger, request["name"], [result] if isinstance(result, str) else result)
    else:
        _jobs(ledger, result[2])
    return ledger.faults


def _one_node(ledger: Ledger, name: str, result: list[str]) -> None:
    place, (node,) = ledger.places[name], result
    if ledger.message["request"]["type"] == "allocate-secondary":
        ledger.places[name] = _Place(
            {**place.instance, "disk_template": "drbd"}, [*place.nodes, ""]
        )
        ledger.moved(name, [place.nodes[0], node], copied=node)
    elif place.instance["disk_template"] == "drbd":
        ledger.moved(name, [place.nodes[0], node], leaves=place.nodes[1], copied=node)
    else:
        ledger.moved(name, [node], leaves=place.nodes[0])


def _jobs(ledger: Ledger, jobs: Iterable[list[Message]]) -> None:
    homes = {name: place.nodes[0] for name, place in ledger.places.items()}
    for job in jobs:
        for name, nodes, leaves, copied in _steps(ledger, job):
            old = list(ledger.places[name].nodes)
            ledger.moved(name, nodes, leaves, copied)
            if copied:
                ledger.removed_copy(name, old[1])
        name = job[-1]["instance_name"]
        ledger.check_hosts(name, ledger.places[name].nodes[0], homes[name])


def _steps(ledger: Ledger, job: list[Message]) -> Iterator[tuple[str, list[str], str, str]]:
    """Instance, its nodes then, the node that is left, and the one that gets a copy."""
    for operation in job:
        name = operation["instance_name"]
        now = ledger.places[name].nodes
        if operation["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            target = operation["remote_node"]
            yield name, [now[0], target], now[1], target
        elif ledger.places[name].instance["disk_template"] == "drbd":
            yield name, now[::-1], now[0], ""
        else:
            yield name, [operation["target_node"]], now[0], ""
