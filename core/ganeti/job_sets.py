"""Jobs in sets: those of one set touch no node twice and can run at the same time.

The rule is hbal's (allocation 12): consecutive jobs form a set until one comes that touches a
node which the set touches already.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import MOVES, Job, Operation, nodes_after


def job_sets(cluster: Cluster, jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs in their order, cut into sets."""
    nodes = {instance.name: instance.nodes for instance in cluster.instances}
    sets: list[list[Job]] = []
    touched: set[str] = set()
    for job in jobs:
        own: set[str] = set()
        for operation in job:
            name = operation["instance_name"]
            own |= {*nodes[name]}
            nodes[name] = nodes_after(nodes[name], operation)
            own |= {*nodes[name]}
        if not sets or touched & own:
            sets.append([])
            touched = set()
        sets[-1].append(job)
        touched |= own
    return sets


class Step(NamedTuple):
    """What one job does to one instance."""

    instance: str
    before: tuple[str, ...]
    """its nodes, primary first"""
    after: tuple[str, ...]
    copied: int
    """MiB of disk that are copied"""


def steps(cluster: Cluster, jobs: Sequence[Job]) -> list[Step]:
    """What the jobs do, in their order."""
    nodes = {instance.name: instance.nodes for instance in cluster.instances}
    found = []
    for job in jobs:
        for name in dict.fromkeys(operation["instance_name"] for operation in job):
            instance = cluster.instances[cluster.instance_index[name]]
            before, copied = nodes[name], 0
            for operation in job:
                if operation["instance_name"] == name:
                    nodes[name] = nodes_after(nodes[name], operation)
                    copied += instance.disk_space * MOVES[operation["OP_ID"]].copies
            found.append(Step(name, before, nodes[name], copied))
    return found


def commands(job: Job) -> list[str]:
    """The job as lines for a shell on the master."""
    return [_command(operation) for operation in job]


def _command(operation: Operation) -> str:
    kind = MOVES[operation["OP_ID"]]
    words = ["gnt-instance", kind.command]
    if kind.copies:
        words += ["-n", operation["remote_node"]]
    else:
        words.append("-f")
        words += ["--allow-failover"] if operation.get("allow_failover") else []
        words += ["--ignore-hvversions"] if operation.get("ignore_hvversions") else []
        words += ["-n", operation["target_node"]] if operation.get("target_node") else []
    return shlex.join([*words, operation["instance_name"]])


def script(sets: Sequence[Sequence[Job]]) -> str:
    """All jobs as a list of commands, set by set."""
    lines = []
    for number, jobs in enumerate(sets, 1):
        lines.append(f"# job set {number} of {len(sets)}, {counted(len(jobs), 'job')}")
        lines += [line for job in jobs for line in commands(job)]
    return "".join(line + "\n" for line in lines)


def describe(job: Job) -> str:
    """A job in a few words, for a progress line."""
    names = dict.fromkeys(operation["instance_name"] for operation in job)
    return f"{', '.join(names)}: {', '.join(map(_described, job))}"


def _described(operation: Operation) -> str:
    target = operation.get("remote_node") or operation.get("target_node")
    name: str = operation["OP_ID"]
    word = MOVES[name].command if name in MOVES else name
    return f"{word} to {target}" if target else word


def counted(number: int, what: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
