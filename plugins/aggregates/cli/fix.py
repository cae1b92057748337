"""``gnt-steward aggregate fix``: moves misplaced instances where they would be placed today."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.balancing.planning.plan_balance import plan_balance
from ganeti_steward.allocators.cli import run_options
from ganeti_steward.allocators.cli.allocator_options import add_passed_options
from ganeti_steward.allocators.cli.texts import gib
from ganeti_steward.allocators.jobs.job_sets import Step, failing_over, job_sets, script, steps
from ganeti_steward.allocators.state.names import Names
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import (
    add_json_option,
    print_json,
    print_notes,
    table,
    terminal_width,
)
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import NOT_MIRRORED
from ganeti_steward.core.model.options import Options, parse_options
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.core.model.site_rules import ROLES
from ganeti_steward.plugins.aggregates.cli.reading import (
    Misplaced,
    TaggedCluster,
    listed,
    misplaced,
    never_seen,
)
from ganeti_steward.plugins.aggregates.requirements import read_requirements
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.opcodes import Job


_HEADINGS = ("#", "Instance", "From", "To", "GiB", "How")


def describe_fix(parser: argparse.ArgumentParser) -> None:
    """Which instances, and the options of every command with moves."""
    describe(
        parser,
        {
            "gnt-steward aggregate fix": "the moves, as a plan",
            "gnt-steward aggregate fix web1 -X --yes": "move one instance, without confirmation",
        },
        statuses={EXIT_FAILURE: "an instance stays misplaced, or a job failed"},
        units="Copied data is in GiB.",
    )
    parser.add_argument("instance", nargs="*", help="only these instances; default: all misplaced")
    run_options.add_running_options(parser, to_file=True)
    add_json_option(parser, "the plan as data, with its jobs")
    add_passed_options(parser)


def run_fix(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    """Show the plan; status 1 when an instance stays misplaced, or a job of ``-X`` fails."""
    if options.json and (options.exec or options.print_commands == run_options.PRINTED):
        raise StewardError("--json excludes -X, and -C without a file")
    run_options.check_can_run(options, tagged.source)
    tagged.rules.check_usable()
    print_notes(never_seen(tagged))
    plan = fix(tagged, parse_options(options.option), _names(options, tagged))
    sets, over = job_sets(tagged.cluster, plan.jobs), failing_over(tagged.cluster)
    if options.print_commands == run_options.PRINTED:
        sys.stdout.write(script(sets, over))
        print_notes(f"{one.instance}: {one.text}" for one in plan.left)
    elif options.json:
        moves, left = ([one._asdict() for one in some] for some in (plan.moves, plan.left))
        print_json({"moves": moves, "left": left, "job_sets": sets})
    else:
        sys.stdout.write(as_text(plan, len(sets)))
    if options.print_commands not in (None, run_options.PRINTED):
        run_options.write_script(options.print_commands, sets, over)
    done = True
    if options.exec and sets:
        sys.stdout.flush()
        done = run_options.confirmed(options, tagged.cluster, sets)
        done = done and run_options.run_moves(tagged.source, sets, "aggregate fix").complete
    return EXIT_OK if done and not plan.left else EXIT_FAILURE


def _names(options: argparse.Namespace, tagged: TaggedCluster) -> frozenset[str] | None:
    """The instances named; raises StewardError."""
    if not options.instance:
        return None
    names = Names(tagged.cluster)
    found = names.instances(options.instance)
    names.check()
    return found


def as_text(plan: FixPlan, sets: int) -> str:
    """The moves, their sum, and what stays misplaced."""
    if not plan.moves and not plan.left:
        return "No instance is misplaced.\n"
    lines = []
    if plan.moves:
        rows = [
            (
                str(number),
                move.instance,
                "/".join(move.before),
                "/".join(move.after),
                gib(move.copied),
                move.how,
            )
            for number, move in enumerate(plan.moves, 1)
        ]
        copied = gib(sum(move.copied for move in plan.moves))
        lines.append(table(_HEADINGS, rows, width=terminal_width()))
        moves = counted(len(plan.moves), "move")
        lines.append(f"{moves}, {copied} GiB to be copied, {counted(sets, 'job set')}\n")
    lines += [f"Left: {one.instance}: {one.text}\n" for one in plan.left]
    return "".join(lines)


class Left(NamedTuple):
    """An instance that stays misplaced."""

    instance: str
    text: str
    """why, and what can be done"""


class FixPlan(NamedTuple):
    """What is done about misplaced instances."""

    jobs: tuple[Job, ...]
    """in the order in which they must be run"""
    moves: tuple[Step, ...]
    left: tuple[Left, ...]
    info: str
    """of the allocator"""


def fix(tagged: TaggedCluster, options: Options, names: Collection[str] | None = None) -> FixPlan:
    """The plan, for these instances or all; raises StewardError when there is no answer.

    Only misplaced instances are moved, and only within their node groups, by the allocators
    configured for balancing.
    """
    cluster = tagged.cluster
    wrong = _by_instance(tagged, names)
    stuck = {name: text for name in wrong if (text := _immovable(tagged, cluster.instance(name)))}
    movable = frozenset(wrong) - frozenset(stuck)
    jobs, moves, info = _plan(tagged, options, wrong, movable)
    after = tagged.with_cluster(_moved(cluster, moves))
    still = _by_instance(after, movable)
    left = [Left(name, text) for name, text in stuck.items()]
    left += [Left(name, _why(after, cluster.instance(name), still[name])) for name in still]
    return FixPlan(tuple(jobs), tuple(moves), tuple(sorted(left)), info)


def _plan(
    tagged: TaggedCluster,
    options: Options,
    wrong: Mapping[str, Sequence[Misplaced]],
    movable: frozenset[str],
) -> tuple[list[Job], list[Step], str]:
    """Jobs, moves and the allocator's info; each move makes its instance comply in a role more."""
    cluster, info = tagged.cluster, ""
    while movable:
        groups = {cluster.node(one.node).group for n in movable for one in wrong[n]}
        request = Balance(groups=tuple(sorted(groups)), select=movable, fix=True)
        plan = plan_balance(request, cluster, tagged.config, options)
        info, moves = plan.info, steps(cluster, plan.jobs)
        after = _by_instance(tagged.with_cluster(_moved(cluster, moves)), movable)
        useless = {
            move.instance
            for move in moves
            if len(after.get(move.instance, ())) >= len(wrong[move.instance])
        }
        if not useless:
            return plan.jobs, moves, info
        # The plan also lowers the score; what that moves in vain is planned without.
        movable -= useless
    return [], [], info


def _by_instance(
    tagged: TaggedCluster, names: Collection[str] | None
) -> dict[str, list[Misplaced]]:
    found: dict[str, list[Misplaced]] = {}
    for one in misplaced(tagged):
        if names is None or one.instance in names:
            found.setdefault(one.instance, []).append(one)
    return found


def _moved(cluster: Cluster, moves: Sequence[Step]) -> Cluster:
    nodes = {move.instance: move.after for move in moves}
    return cluster.replace(
        instances=(one._replace(nodes=nodes.get(one.name, one.nodes)) for one in cluster.instances)
    )


def _immovable(tagged: TaggedCluster, instance: Instance) -> str:
    """Why balancing never moves an instance; empty when it may."""
    faults = read_requirements(tagged.rules, instance).faults
    if faults:
        return faults[0].sentence
    if instance.template in NOT_MIRRORED:
        node = _nearest(tagged.cluster, instance, _allowed(tagged, instance, ROLES[0]))
        return (
            f"its disks exist only on {instance.nodes[0]}; move it by hand: gnt-instance move -n "
            f"{node} {instance.name}"
        )
    if not instance.auto_balance:
        return (
            "its parameter auto_balance is off; to let it move: gnt-instance modify -B "
            f"auto_balance=yes {instance.name}"
        )
    return ""


def _nearest(cluster: Cluster, instance: Instance, allowed: Sequence[str]) -> str:
    """One of the nodes, of the group the instance is in if there is one."""
    nodes = {name: cluster.node(name) for name in allowed}
    home = cluster.node(instance.nodes[0]).group
    same = [name for name, node in nodes.items() if node.group == home]
    return next(iter((*same, *allowed)), "NODE")


def _why(tagged: TaggedCluster, instance: Instance, wrong: Sequence[Misplaced]) -> str:
    """Why no move was found, and what else there is."""
    cluster, one = tagged.cluster, wrong[0]
    home = cluster.node(one.node).group
    allowed = _allowed(tagged, instance, one.role)
    groups = {cluster.node(name).group for name in allowed}
    name = cluster.group(home).name
    if home in groups:
        here = [n for n in allowed if cluster.node(n).group == home]
        return (
            f"no move within group {name} reaches a node that complies as {one.role}: "
            f"{listed(here, every=False)}"
        )
    others = sorted(cluster.group(uuid).name for uuid in groups)
    if not others:
        return f"no usable node of the cluster complies as {one.role}"
    return (
        f"no usable node of group {name} complies as {one.role}; another group: gnt-instance "
        f"change-group --to {others[0]} {instance.name}"
    )


def _allowed(tagged: TaggedCluster, instance: Instance, role: str) -> list[str]:
    """The usable nodes an instance would be placed on in a role."""
    evaluator = Evaluator(tagged.rules, tagged.cluster)
    requirements = read_requirements(tagged.rules, instance).requirements
    return [
        node.name
        for node in tagged.cluster.nodes
        if node.usable and evaluator.node(requirements, instance.template, node, role) is None
    ]
