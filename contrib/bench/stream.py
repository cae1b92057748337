#!/usr/bin/env python3
"""Place a stream of instances that come and go, with each allocator on the same arrivals.

Every arrival is one request to the program, as Ganeti would make it; what it answers is booked
before the next one.  See README.md beside this file.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import ENVIRONMENT, HAIL
from cluster_parts import Demand, Node, disk_space, instance_entry, node_entry
from make_cluster import build
from make_cluster import parser as cluster_parser

#: MiB and virtual CPUs of what arrives, each with how often.
FLAVOURS: Final = (((2048, 1), 8), ((4096, 2), 6), ((8192, 4), 4), ((16384, 8), 2), ((32768, 8), 1))
#: MiB of the one disk of an instance.
DISK: Final = 20480
#: Hours: most instances live shortly, most of the memory is used by those that stay.
SHORT, LONG = 2.0, 60.0
#: Share of the instances that stay long.
STAYING: Final = 0.3
#: Seconds that one answer may take.
LIMIT: Final = 120


class Arrival(NamedTuple):
    """One instance that is requested."""

    at: float
    """hours after the start"""
    ends: float
    memory: int
    """MiB"""
    vcpus: int


class Figures(NamedTuple):
    """What one stream did under one allocator."""

    first: int
    """MiB that were placed when a request was refused for the first time"""
    refused: int
    """requests of the second half"""
    empty: float
    """nodes without an instance, as a share, on average over the second half"""
    stranded: float
    """free memory on nodes that cannot take the largest instance, as a share, likewise"""


def arrivals(rng: random.Random, count: int, memory: float) -> Iterator[Arrival]:
    """A stream that uses ``memory`` MiB at a time on average."""
    sizes, weights = [size for size, _ in FLAVOURS], [weight for _, weight in FLAVOURS]
    usual = sum(size[0] * weight for size, weight in FLAVOURS) / sum(weights)
    life = STAYING * LONG + (1 - STAYING) * SHORT
    rate, now = memory / (usual * life), 0.0
    for _ in range(count):
        now += rng.expovariate(rate)
        size, vcpus = rng.choices(sizes, weights)[0]
        lives = rng.expovariate(1 / (LONG if rng.random() < STAYING else SHORT))
        yield Arrival(now, now + lives, size, vcpus)


@dataclass(eq=False)
class Stream:
    """One cluster, one allocator."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    template: str
    message: dict[str, Any]
    nodes: dict[str, Node]
    ends: list[tuple[float, str]] = field(default_factory=list)
    placed: int = 0
    first: int = 0

    def play(self, stream: Sequence[Arrival]) -> Figures:
        """Request every instance in turn; the second half is what is measured."""
        empty, stranded, refused = list[float](), list[float](), 0
        for number, one in enumerate(stream):
            self._leave(one.at)
            placed = self._arrive(one, f"new{number}.example.com")
            if not placed and not self.first:
                self.first = self.placed
            if number >= len(stream) // 2:
                refused += not placed
                empty.append(self._share_empty())
                stranded.append(self._share_stranded())
        return Figures(
            self.first or self.placed, refused, statistics.mean(empty), statistics.mean(stranded)
        )

    def _leave(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            self._book(self.message["instances"].pop(heapq.heappop(self.ends)[1]), -1)

    def _arrive(self, one: Arrival, name: str) -> bool:
        space = disk_space(self.template, [DISK])
        group = next(iter(self.message["nodegroups"]))
        demand = Demand(self.template, one.memory, one.vcpus, [DISK], space, group, "up", [], None)
        entry = instance_entry(demand, [], len(self.ends), "kvm")
        request = {
            **{key: entry[key] for key in ("memory", "vcpus", "disks", "nics", "os", "tags")},
            **{key: entry[key] for key in ("spindle_use", "disk_space_total", "hypervisor")},
            "type": "allocate",
            "name": name,
            "disk_template": self.template,
            "group_name": None,
            "required_nodes": 2 if self.template == "drbd" else 1,
        }
        answer = self._ask(request)
        if answer["success"]:
            entry["nodes"] = answer["result"]
            self.message["instances"][name] = entry
            heapq.heappush(self.ends, (one.ends, name))
            self._book(entry, 1)
        return bool(answer["success"])

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        order = list(self.nodes.values())
        entries = {node.name: node_entry(node, at) for at, node in enumerate(order)}
        file = self.folder / "input.json"
        file.write_text(json.dumps({**self.message, "nodes": entries, "request": request}))
        done = subprocess.run(
            [*self.command, str(file)],
            env=self.environment,
            stdout=subprocess.PIPE,
            timeout=LIMIT,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _book(self, entry: Mapping[str, Any], sign: int) -> None:
        """Use what an instance needs, or (-1) give it back."""
        primary = self.nodes[entry["nodes"][0]]
        memory = sign * entry["memory"]
        primary.mem_up += memory
        primary.mem_planned += memory
        self.placed += memory
        for name in entry["nodes"]:
            self.nodes[name].disk_used += sign * entry["disk_space_total"]

    def _share_empty(self) -> float:
        used = {name for entry in self.message["instances"].values() for name in entry["nodes"]}
        return 1 - len(used) / len(self.nodes)

    def _share_stranded(self) -> float:
        largest = max(size[0] for size, _ in FLAVOURS)
        free = [node.headroom() for node in self.nodes.values()]
        return sum(one for one in free if one < largest) / max(1, sum(free))


def cluster(nodes: int, template: str) -> tuple[dict[str, Any], dict[str, Node]]:
    """A message without instances, and its nodes: all of 128 GiB."""
    shape = "131072,4194304,64,16"
    options = ["--nodes", str(nodes), "--instances", "0", "--hetero", "0", "--shape", shape]
    message = build(cluster_parser().parse_args([*options, "--mix", template]))
    memory, disk, cpus, spindles = map(int, shape.split(","))
    reserved = next(iter(message["nodes"].values()))["reserved_memory"]
    found = {
        name: Node(
            name,
            entry["group"],
            memory,
            disk,
            cpus,
            spindles,
            reserved,
            0,
            exclusive=False,
            spindles_free=spindles,
        )
        for name, entry in message["nodes"].items()
    }
    return message, found


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    add = result.add_argument
    add("--allocators", default="hail,balanced,packed", help="hail, or names of Steward's")
    add("--nodes", type=int, default=8, help="number of nodes, each with 128 GiB (8)")
    add("--template", default="plain", choices=("plain", "drbd"), help="disk template (plain)")
    add("--demand", type=float, default=0.85, help="memory in use, as a share (0.85)")
    add("--requests", type=int, default=1200, help="instances that arrive (1200)")
    add("--seeds", default="1,2,3", help="one stream for each (1,2,3)")
    return result


def main() -> int:
    """Print one line for each stream and allocator."""
    args = parser().parse_args()
    print("seed allocator   GiB at the first refusal  refused  empty nodes  stranded memory")
    for seed in args.seeds.split(","):
        for name in args.allocators.split(","):
            with tempfile.TemporaryDirectory(prefix="steward-stream-") as folder:
                found = play(args, seed, name, Path(folder))
            print(
                f"{seed:<4} {name:<11} {found.first / 1024:24.0f} {found.refused:8} "
                f"{found.empty:12.2f} {found.stranded:16.2f}",
                flush=True,
            )
    return 0


def play(args: argparse.Namespace, seed: str, name: str, folder: Path) -> Figures:
    """One stream under one allocator."""
    message, nodes = cluster(args.nodes, args.template)
    room = sum(node.headroom() for node in nodes.values()) * args.demand
    stream = list(arrivals(random.Random(f"stream {seed}"), args.requests, room))
    config = folder / "steward.toml"
    config.write_text(
        f'[history]\nkeep = 0\n[log]\nfile = ""\n[allocators]\nallocate = ["{name}"]\n'
    )
    # Not resolved: a virtual environment's Python is a link out of it.
    steward = str(Path(sys.executable).with_name("steward-iallocator"))
    command = [HAIL if name == "hail" else steward]
    if not os.access(command[0], os.X_OK):
        raise SystemExit(f"{command[0]} is not there")
    environment = {**ENVIRONMENT, "GNT_STEWARD_CONFIG": str(config)}
    return Stream(command, environment, folder, args.template, message, nodes).play(stream)


if __name__ == "__main__":
    raise SystemExit(main())
