"""Jobs in sets: those of one set touch no node twice and can run at the same time.

The rule is hbal's (allocation 12): consecutive jobs form a set until one comes that touches a
node which the set touches already.  Or moves an instance of a service of which the set moves one
already, where a hard tag ``steward:spread`` is about it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.allocators.state.spread import PREFIX
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.core.model.opcodes import FAILOVER, MIGRATE, MOVES, Job, Operation

#: What a table calls the operations, by the commands of gnt-instance.
_SHORT: Final = {"replace-disks": "replace"}


def failing_over(cluster: Cluster) -> frozenset[str]:
    """The instances that Ganeti fails over instead of migrating them."""
    return frozenset(one.name for one in cluster.instances if one.fails_over)


def ways(job: Job, instance: Instance) -> str:
    """What a job does to an instance, for a table: ``replace+failover``."""
    over = {instance.name} if instance.fails_over else ()
    words = [_word(operation, over) for operation in job if _is_of(operation, instance.name)]
    return "+".join(_SHORT.get(word, word) for word in words)


def _is_of(operation: Operation, instance: str) -> bool:
    name: str = operation["instance_name"]
    return name == instance


def _word(operation: Operation, over: Collection[str]) -> str:
    """The command of an operation, as Ganeti will do it; ``over``: see `failing_over`."""
    name: str = operation["OP_ID"]
    if name == MIGRATE and operation.get("allow_failover") and operation["instance_name"] in over:
        name = FAILOVER
    return MOVES[name].command if name in MOVES else name


def job_sets(cluster: Cluster, jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs in their order, cut into sets."""
    nodes = {instance.name: instance.nodes for instance in cluster.instances}
    services = _hard_services(cluster)
    sets: list[list[Job]] = []
    touched: set[str] = set()
    for job in jobs:
        own: set[str] = set()
        for operation in job:
            name = operation["instance_name"]
            own |= {*nodes[name], *services.get(name, ())}
            nodes[name] = nodes_after(nodes[name], operation)
            own |= {*nodes[name]}
        if not sets or touched & own:
            sets.append([])
            touched = set()
        sets[-1].append(job)
        touched |= own
    return sets


def _hard_services(cluster: Cluster) -> Mapping[str, Collection[str]]:
    """Instance -> the tags of it that a hard tag ``steward:spread`` is about."""
    if not any(tag.startswith(PREFIX) for tag in cluster.tags):
        return {}
    from ganeti_steward.allocators.state.frame import TagRules  # imports the engine

    rules = TagRules.of(cluster.tags)
    hard = {at for at, rule in enumerate(rules.spread) if rule.hard}
    return {
        one.name: {tag for at, tag in rules.demand(one).services if at in hard}
        for one in cluster.instances
    }


class Step(NamedTuple):
    """What one job does to one instance."""

    instance: str
    before: tuple[str, ...]
    """its nodes, primary first"""
    after: tuple[str, ...]
    copied: int
    """MiB of disk that are copied"""
    how: str
    """see `ways`"""


def steps(cluster: Cluster, jobs: Sequence[Job]) -> list[Step]:
    """What the jobs do, in their order."""
    nodes = {instance.name: instance.nodes for instance in cluster.instances}
    found = []
    for job in jobs:
        for name in dict.fromkeys(operation["instance_name"] for operation in job):
            instance = cluster.instances[cluster.instance_index[name]]
            before, copied = nodes[name], 0
            for operation in job:
                if _is_of(operation, name):
                    nodes[name] = nodes_after(nodes[name], operation)
                    copied += instance.disk_space * MOVES[operation["OP_ID"]].copies
            found.append(Step(name, before, nodes[name], copied, ways(job, instance)))
    return found


def commands(job: Job, over: Collection[str] = ()) -> list[str]:
    """The job as lines for a shell on the master; ``over``: see `failing_over`."""
    return [_command(operation, over) for operation in job]


def _command(operation: Operation, over: Collection[str]) -> str:
    """A line for a shell; it stays right where the instance is started or stopped before."""
    kind = MOVES[operation["OP_ID"]]
    words = ["gnt-instance", kind.command]
    if kind.copies:
        words += ["-n", operation["remote_node"]]
    else:
        words.append("-f")
        words += ["--allow-failover"] if operation.get("allow_failover") else []
        words += ["--ignore-hvversions"] if operation.get("ignore_hvversions") else []
        words += ["-n", operation["target_node"]] if operation.get("target_node") else []
    line = shlex.join([*words, operation["instance_name"]])
    word = _word(operation, over)
    return line if word == kind.command else f"{line}  # Ganeti does a {word}"


def script(sets: Sequence[Sequence[Job]], over: Collection[str] = ()) -> str:
    """All jobs as a list of commands, set by set; ``over``: see `failing_over`."""
    lines = []
    for number, jobs in enumerate(sets, 1):
        lines.append(f"# job set {number} of {len(sets)}, {counted(len(jobs), 'job')}")
        lines += [line for job in jobs for line in commands(job, over)]
    return "".join(line + "\n" for line in lines)


def describe(job: Job, over: Collection[str] = ()) -> str:
    """A job in a few words, for a progress line; ``over``: see `failing_over`."""
    names = dict.fromkeys(operation["instance_name"] for operation in job)
    return f"{', '.join(names)}: {', '.join(_described(operation, over) for operation in job)}"


def _described(operation: Operation, over: Collection[str]) -> str:
    target = operation.get("remote_node") or operation.get("target_node")
    word = _word(operation, over)
    return f"{word} to {target}" if target else word
