"""``gnt-steward group-evacuate``: move the instances of a node group to other groups.

The working equivalent of ``gnt-group evacuate``, which fails in Ganeti 3.0.2: the request is
change-group for all instances of the group, and the jobs are those of single instances.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.allocators.cli import run_options
from ganeti_steward.allocators.cli.allocator_options import add_passed_options, option
from ganeti_steward.allocators.cli.texts import gib
from ganeti_steward.allocators.jobs.job_sets import failing_over, job_sets, script, steps
from ganeti_steward.allocators.state.names import group_named
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import (
    Value,
    add_field_options,
    is_list,
    print_fields,
    print_lines,
    print_messages,
    print_notes,
)
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.answer import Refusal
from ganeti_steward.core.model.cluster import Cluster, Group
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.model.requests import ChangeGroup

#: Name of a field -> its heading.
_FIELDS: Final = {
    "instance": "Instance",
    "from": "From",
    "group": "Group",
    "to": "To",
    "how": "How",
    "copied": "GiB",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward group-evacuate rack1": "what would go where",
            "gnt-steward group-evacuate rack1 --to rack2,rack3 -C": "as gnt-* commands",
            "gnt-steward group-evacuate rack1 --partial -X": "move what can be moved",
        },
        statuses={
            EXIT_FAILURE: "an instance cannot be moved, it was not confirmed, or a job failed"
        },
        units="Copied data is in GiB.",
    )
    parser.add_argument("group", help="the node group to be left, by name or uuid")
    option(parser, "--to GROUP,...", "only to these groups; default: to any other")
    option(parser, "--partial", "with -X or -C: move what can be moved although some cannot")
    run_options.add_running_options(parser)
    add_passed_options(parser)
    add_field_options(parser, _FIELDS)
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Show what goes where; status 1 when an instance cannot be moved or a job fails."""
    config = configuration(ALLOCATION)
    arguments = parse_options(options.option)
    source = read_source(options)
    run_options.check_can_run(options, source)
    cluster = source.cluster
    group = group_named(cluster, options.group)
    wanted = [] if options.to is None else options.to.split(",")
    targets = [group_named(cluster, name) for name in wanted]
    if group in targets:
        raise StewardError(f"group {group.name} is the one to be left")
    names = _instances(group, cluster)
    print_notes((*source.notes, *_notes(group, cluster)))
    if not names:
        if options.json or is_list(options):
            print_fields(options, _FIELDS, [*_FIELDS], [])
        else:
            print_lines([f"Group {group.name} has no instances."])
        return EXIT_OK
    request = ChangeGroup(tuple(names), tuple(target.uuid for target in targets))
    with progress("planning moves"):
        outcome = dispatch(request, cluster, config, arguments, explain=False)
    if isinstance(outcome, Refusal):
        raise StewardError(outcome.info)
    result: Any = outcome.result
    moved, failed, jobs = result
    sets = job_sets(cluster, jobs)
    if options.print_commands:
        commands = script(sets, failing_over(cluster))
        sys.stdout.write(commands if options.partial or not failed else "")
    elif moved:
        print_fields(options, _FIELDS, [*_FIELDS], list(_plan(moved, jobs, cluster)))
    print_messages(
        f"{name} cannot be moved: {reason or 'no reason was given'}" for name, reason in failed
    )
    if failed and not options.partial:
        summary = f"{counted(len(failed), 'instance')} of {len(names)} cannot be moved"
        if options.exec or options.print_commands:
            print_messages([f"{summary}; --partial moves the others"])
        return EXIT_FAILURE
    if options.exec and sets:
        if not run_options.confirmed(options, cluster, sets):
            return EXIT_FAILURE
        result = run_options.run_moves(source, sets, f"group-evacuate {group.name}")
        return EXIT_OK if result.complete and not failed else EXIT_FAILURE
    return EXIT_FAILURE if failed else EXIT_OK


def _group_of(node: str, cluster: Cluster) -> str:
    return cluster.nodes[cluster.node_index[node]].group


def _instances(group: Group, cluster: Cluster) -> list[str]:
    """Instances whose primary is in the group."""
    return [
        instance.name
        for instance in cluster.instances
        if _group_of(instance.nodes[0], cluster) == group.uuid
    ]


def _notes(group: Group, cluster: Cluster) -> list[str]:
    return [
        f"{instance.name} stays: its primary {instance.nodes[0]} is in another group, only its "
        f"secondary is in {group.name}"
        for instance in cluster.instances
        if _group_of(instance.nodes[0], cluster) != group.uuid
        and any(_group_of(node, cluster) == group.uuid for node in instance.nodes[1:])
    ]


def _plan(
    moved: Sequence[tuple[str, str, Sequence[str]]],
    jobs: Sequence[Job],
    cluster: Cluster,
) -> Iterator[Mapping[str, Value]]:
    """The moves, as `_FIELDS`."""
    copied, ways = Counter[str](), dict[str, str]()
    for step in steps(cluster, jobs):
        copied[step.instance] += step.copied
        ways[step.instance] = "+".join(filter(None, [ways.get(step.instance), step.how]))
    for name, group, nodes in moved:
        before = cluster.instances[cluster.instance_index[name]].nodes
        row = (name, "/".join(before), group, "/".join(nodes), ways[name], gib(copied[name]))
        yield dict(zip(_FIELDS, row, strict=True))
