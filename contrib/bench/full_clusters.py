#!/usr/bin/env python3
"""Evacuate a node of full clusters of ten nodes, with Steward and with hail.

Prints the CPU time of the whole processes, and how many instances each leaves behind: those that
Steward cannot place in the order of the request cost it a search.  The exit status is 1 when it
leaves more behind than hail on any of the clusters.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import make_cluster
from bench import CONFIG, ENVIRONMENT

HAIL: Final = "/usr/lib/ganeti/iallocators/hail"
FILLS: Final = (0.55, 0.7, 0.8, 0.9)
MIXES: Final = ("drbd=1", "drbd=7,plain=2,diskless=1")


class Answered(NamedTuple):
    """What one program makes of one request."""

    cpu: float
    """seconds, user and system"""
    left: int
    """number of instances that are left behind"""


def request(seed: int) -> dict[str, Any]:
    """All instances are to leave one node of a cluster without spare room."""
    options = [f"--seed={seed}", "--nodes=10", "--per-node=12", "--choices=1"]
    options += [f"--fill={FILLS[seed % 4]}", f"--mix={MIXES[seed // 4 % 2]}"]
    options += ["--request=node-evacuate", "--evac-mode=all"]
    parsed = make_cluster.parser().parse_args(options)
    message = make_cluster.build(parsed)
    message["request"] = make_cluster.make_request(parsed, message)
    return message


def answered(program: str, file: Path, environment: dict[str, str]) -> Answered:
    """Run a program on a request; raises CalledProcessError where it does not answer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [program, str(file)], env=environment, cwd="/", capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answer = json.loads(done.stdout)
    moving = json.loads(file.read_text())["request"]["instances"]
    return Answered(cpu, len(answer["result"][1]) if answer["success"] else len(moving))


def main() -> int:
    """Compare, and print a line for each cluster that is worse, and the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=120, help="number of clusters (120)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--hail", default=HAIL, help=f"hail's path ({HAIL})")
    usual = str(Path(sys.executable).with_name("steward-iallocator"))
    parser.add_argument("--steward", default=usual, help=f"steward-iallocator's path ({usual})")
    options = parser.parse_args()
    mine, theirs, worse = list[Answered](), list[Answered](), 0
    with tempfile.TemporaryDirectory() as folder:
        config, file = Path(folder) / "steward.toml", Path(folder) / "request"
        config.write_text(CONFIG)
        environment = {**ENVIRONMENT, "GNT_STEWARD_CONFIG": str(config)}
        for seed in range(options.seed, options.seed + options.clusters):
            file.write_text(json.dumps(request(seed)))
            mine.append(answered(options.steward, file, environment))
            theirs.append(answered(options.hail, file, environment))
            if mine[-1].left > theirs[-1].left:
                worse += 1
                print(f"seed {seed}: {mine[-1].left} left behind, by hail {theirs[-1].left}")
    for name, found in (("Steward", mine), ("hail", theirs)):
        times = sorted(one.cpu for one in found)
        print(
            f"{name}: CPU s median {statistics.median(times):.3f}, 90th percentile "
            f"{times[len(times) * 9 // 10]:.3f}, longest {times[-1]:.3f}; "
            f"{sum(one.left for one in found)} instances left behind"
        )
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
