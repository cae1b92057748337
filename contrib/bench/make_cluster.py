#!/usr/bin/env python3
"""Make random but realistic Ganeti clusters and requests, for benchmarks and tests.

Writes an iallocator message (JSON) and/or the same cluster in the text format of htools
(hbal, hspace, hcheck, hroller, hsqueeze, hinfo).  Needs only the standard library; the same
options and seed always give the same files.

Examples:
  make_cluster.py --nodes 40 --json in.json --text in.data
  make_cluster.py --nodes 100 --groups 3 --mix drbd=6,plain=2,ext=2 \\
      --request node-evacuate --evac-mode all --json in.json
  make_cluster.py --nodes 12 --request multi-allocate --count 10 --json -

The defaults give a healthy cluster: every node is N+1 capable.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from cluster_build import build
from cluster_request import MAKERS, make_request
from cluster_text import to_text

__all__ = ["build", "main", "make_request", "parser", "to_text"]


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the examples and shows the defaults."""


def parser() -> argparse.ArgumentParser:
    """The command line; the values it gives are what build and make_request take."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    _add_size(result)
    _add_nodes(result)
    _add_instances(result)
    _add_policy(result)
    _add_request(result)
    _add_output(result)
    return result


def _add_size(to: argparse.ArgumentParser) -> None:
    add = to.add_argument_group("cluster").add_argument
    add("--seed", default="1")
    add("--nodes", type=int, default=10)
    add("--groups", type=int, default=1)
    add("--per-node", type=float, default=10.0, help="instances per node")
    add("--instances", type=int, help="exact number wanted (overrides --per-node)")
    add(
        "--fill",
        type=float,
        default=0.55,
        help="stop when instances use this share of a group's memory",
    )
    add("--hypervisor", default="xen-pvm")
    add("--domain", default="example.com")


def _add_nodes(to: argparse.ArgumentParser) -> None:
    add = to.add_argument_group("nodes").add_argument
    add("--hetero", type=float, default=0.3, help="share of odd-sized nodes")
    add("--shape", help="base node as memory,disk,cpus,spindles")
    add("--offline", type=int, default=0, help="number of offline nodes")
    add("--drained", type=int, default=0, help="number of drained nodes")
    add("--vm-incapable", type=int, default=0, help="number of nodes that take no instances")
    add("--exclusive-storage", action="store_true", help="on all nodes")
    add(
        "--missing-mem",
        type=int,
        default=0,
        help="random unaccounted memory per node, plus or minus this many MiB",
    )
    add("--location-tags", action="store_true", help="tag the nodes with their rack")
    add("--racks", type=int, default=4)
    add(
        "--aggregates",
        type=int,
        default=0,
        help="number of aggregates; every node is in two, every third one is a reservation, "
        "and instances keep out of one",
    )
    add("--migration-tags", action="store_true", help="two hypervisor versions")


def _add_instances(to: argparse.ArgumentParser) -> None:
    add = to.add_argument_group("instances").add_argument
    add("--mix", default="drbd=7,plain=2,diskless=1", help="weights of disk templates")
    add("--down", type=float, default=0.03, help="share of stopped instances")
    add("--admin-offline", type=float, default=0.0, help="share of offline instances")
    add("--forthcoming", type=float, default=0.0, help="share of forthcoming instances")
    add("--excl-tags", type=float, default=0.0, help="share with service tags")
    add(
        "--allow-conflicts",
        action="store_true",
        help="let exclusion tags clash in the generated cluster",
    )
    add(
        "--desired-location",
        type=float,
        default=0.0,
        help="share that prefers a rack (implies rack tags)",
    )
    add("--cpu-margin", type=float, default=1.0, help="part of the vCPU ratio that is used")
    add(
        "--choices",
        type=int,
        default=3,
        help="candidates looked at per instance: 1 is very uneven, 10 is even",
    )
    add("--round-sizes", action="store_true", help="only usual memory sizes")


def _add_policy(to: argparse.ArgumentParser) -> None:
    add = to.add_argument_group("policies").add_argument
    add("--policies", default="", help="alloc policies, one per group, cycled")
    add("--networks", type=int, default=0, help="number of networks")
    add("--vcpu-ratio", type=float, default=4.0)
    add("--spindle-ratio", type=float, default=32.0)
    add("--max-mem", type=int, default=32768)
    add("--max-cpu", type=int, default=16)


def _add_request(to: argparse.ArgumentParser) -> None:
    add = to.add_argument_group("request").add_argument
    add("--request", default="allocate", choices=["none", *MAKERS])
    add("--count", type=int, default=10, help="instances in multi-allocate or change-group")
    add("--new-template", default="drbd")
    add("--new-mix", default="", help="disk templates of multi-allocate, as --mix")
    add("--new-mem", type=int)
    add("--new-cpu", type=int)
    add("--new-disk", type=int)
    add("--new-network", default="")
    add("--group-name")
    add("--restrict", default="", help="allocate: only these nodes")
    add("--evac-mode", default="all", choices=["primary-only", "secondary-only", "all"])
    add("--evac-node", default="")
    add("--target-instance", default="")
    add("--target-groups", default="", help="group uuids")


def _add_output(to: argparse.ArgumentParser) -> None:
    add = to.add_argument_group("output").add_argument
    add("--json", help="write the iallocator message here ('-' for stdout)")
    add("--text", help="write the text format here ('-' for stdout)")


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    data = build(args)
    request = make_request(args, data)
    if request is not None:
        data["request"] = request
    if args.json:
        _write(args.json, json.dumps(data, indent=1) + "\n")
    if args.text:
        _write(args.text, to_text(data))
    if not args.json and not args.text:
        nodes, instances = len(data["nodes"]), len(data["instances"])
        print(f"{nodes} nodes, {instances} instances (use --json or --text to write them)")
    return 0


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
