"""``gnt-steward balance``: the moves that make a cluster more even, and running them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from ganeti_steward.allocators.balancing.planning.plan_balance import (
    BalancePlan,
    plan_balance,
    resolve,
)
from ganeti_steward.allocators.cli import allocator_options, run_options, texts
from ganeti_steward.allocators.health.left import Left, has_usable_node, left_by
from ganeti_steward.allocators.jobs.job_sets import failing_over, job_sets, script, steps
from ganeti_steward.allocators.overview.curve import Curve, Point
from ganeti_steward.allocators.overview.picture import heading, write_plot
from ganeti_steward.allocators.state.names import short_names
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import (
    Value,
    add_field_options,
    is_list,
    print_fields,
    print_json,
    print_notes,
    table,
    terminal_width,
)
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.explanation import GroupBalance
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.options import Options, parse_options
from ganeti_steward.core.model.requests import Balance

JobSets = Sequence[Sequence[Job]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """hbal's options."""
    describe(
        parser,
        {
            "gnt-steward balance": "the plan for the cluster of this master",
            "gnt-steward balance -G rack1 -l 10 -C": "ten moves at most, as gnt-* commands",
            "gnt-steward balance --max-copy 200 -X --reason weekly": "run it",
        },
        statuses={
            EXIT_OK: "there is a plan, possibly an empty one; with -X: every job succeeded",
            EXIT_FAILURE: "there is no plan, it was not confirmed, or a job failed or was not "
            "started",
        },
        units=allocator_options.UNITS,
    )
    allocator_options.add_balance_options(parser)
    text = "moves may leave more instances without a place to go when their node must be emptied"
    allocator_options.option(parser, "--no-capacity-checks", text)
    run_options.add_running_options(parser, to_file=True)
    allocator_options.add_plot_option(parser, "after the plan")
    add_field_options(parser, texts.FIELDS, json="the plan as data, with its jobs")
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Show the plan; status 1 when there is no answer, or a job of ``-X`` fails."""
    config = configuration(ALLOCATION)
    if options.json and (options.exec or options.print_commands == run_options.PRINTED):
        raise StewardError("--json excludes -X, and -C without a file")
    source = read_source(options)
    run_options.check_can_run(options, source)
    print_notes(source.notes)
    passed = _passed(options)
    read = allocator_options.with_loads(source.cluster, options, passed)
    request, cluster = resolve(allocator_options.balance_options(options, read), read)
    with progress("planning moves"):
        plan = plan_balance(request, cluster, config, passed)
    sets, over = job_sets(plan.cluster, plan.jobs), failing_over(plan.cluster)
    if options.plot is not None:
        _plot(plan, options.plot, passed)
    if options.print_commands == run_options.PRINTED or is_list(options):
        # Their output has no place for it.
        left = [left_by(group, plan.cluster, request) for group in plan.groups]
        print_notes(line for one in left for line in _left_lines(one))
    if options.print_commands == run_options.PRINTED:
        sys.stdout.write(script(sets, over))
    elif options.json:
        print_json(as_data(plan, sets, request))
    elif is_list(options):
        print_fields(options, texts.FIELDS, [*texts.FIELDS], list(_moves(plan)))
    else:
        sys.stdout.write(as_text(plan, sets, options, request))
    if options.print_commands not in (None, run_options.PRINTED):
        run_options.write_script(options.print_commands, sets, over)
    if options.exec and sets:
        sys.stdout.flush()
        if not run_options.confirmed(options, plan.cluster, sets):
            return EXIT_FAILURE
        result = run_options.run_moves(source, sets, "balance")
        if not result.running:
            sys.stdout.write(_reached(plan, options, config))
        return EXIT_OK if result.complete else EXIT_FAILURE
    return EXIT_OK


def _passed(options: argparse.Namespace) -> Options:
    """What the allocators are passed as Ganeti would; raises BadInput."""
    more = ["--no-capacity-checks"] if options.no_capacity_checks else []
    return parse_options([*options.option, *more])


def _plot(plan: BalancePlan, path: str, options: Options) -> None:
    """Draw the nodes now and when the plan is done; raises StewardError."""
    from ganeti_steward.allocators.overview.filled import (
        overview,
        with_placed,
    )  # imports the engine
    from ganeti_steward.allocators.state.load import load

    # They import the engine, which --help does not need.

    now = load(plan.cluster, None, options.kvm_memory)
    found = steps(plan.cluster, plan.jobs)
    moved = [(plan.cluster.instance(one.instance), one.after) for one in found]
    note = f"now, and after {counted(len(found), 'move')}" if found else "now; no move is planned"
    title = heading("Balancing", plan.cluster.name, time.time())
    write_plot(path, overview(now, with_placed(now, moved)), title, note, [*_curves(plan)])


def _curves(plan: BalancePlan) -> Iterator[Curve]:
    """The score of each group that is changed, after each of its moves."""
    for group in plan.groups:
        if group.moves:
            copied = accumulate(move.copied / 1024 for move in group.moves)
            points = (Point(gib, move.score) for gib, move in zip(copied, group.moves, strict=True))
            yield Curve(group.group, group.score_before, tuple(points), group.bound)


def _reached(plan: BalancePlan, options: argparse.Namespace, config: Config) -> str:
    """The score of each group that was changed, of the cluster as it is now."""
    try:
        passed = _passed(options)
        read = allocator_options.with_loads(read_source(options).cluster, options, passed)
        request, cluster = resolve(allocator_options.balance_options(options, read), read)
        request = request._replace(max_moves=0)
        now = plan_balance(request, cluster, config, passed)
    except StewardError as err:
        return f"The score reached is not known: {err}\n"
    scores = {group.group: group.score_before for group in now.groups}
    return "".join(
        f"Group {group.group}: score {group.score_before:.8f} before, {scores[group.group]:.8f} "
        f"reached ({group.score_after:.8f} planned)\n"
        for group in plan.groups
        if group.moves and group.group in scores
    )


def _moves(plan: BalancePlan) -> Iterator[Mapping[str, Value]]:
    """All moves, as `texts.FIELDS`."""
    rows = [row for group in plan.groups for row in texts.move_rows(group.moves, group.group)]
    rows = rows if plan.groups else texts.move_rows(steps(plan.cluster, plan.jobs), "")
    return (dict(zip(texts.FIELDS, row, strict=True)) for row in rows)


def as_text(plan: BalancePlan, sets: JobSets, options: argparse.Namespace, request: Balance) -> str:
    """The moves of each group with its scores, what they leave, and their sums."""
    if not plan.groups:
        return _unexplained(plan, sets, options)
    moves, copied = texts.totals(plan.groups)
    limit = options.max_moves
    nothing = texts.NOTHING_ENDED if request.only_repairs else texts.BALANCED
    if limit is not None and moves >= limit:
        users = ", ".join(group.group for group in plan.groups if group.moves)
        nothing = f"No moves left for this group: -l {limit} was used up by group {users}."
        if not users:
            nothing = f"No moves: -l {limit} allows none."
    parts = [
        _group_text(group, plan.cluster, request, nothing, no_headers=options.no_headers)
        for group in plan.groups
    ]
    if len(parts) > 1 or sets:
        parts.append(_total(moves, copied, sets))
    return "\n".join(parts)


def _group_text(
    group: GroupBalance, cluster: Cluster, request: Balance, nothing: str, *, no_headers: bool
) -> str:
    """``nothing``: the sentence when there are no moves."""
    left = left_by(group, cluster, request)
    if left and not has_usable_node(group, cluster):
        names = sorted({one.instance for one in left})
        return texts.for_terminal(
            f"Group {group.group}: no usable node is left, so that nothing can be moved and there "
            f"is no score. {counted(len(names), 'instance')} stay as they are: {', '.join(names)}"
        )
    before = group.health_before
    if request.evacuate and before and not (before.primaries or before.secondaries):
        nothing = "No moves: no instance has an unusable node (-E)."
    if left and nothing == texts.BALANCED:
        nothing = texts.UNMOVED
    short = short_names([node.name for node in cluster.nodes])
    short |= short_names([instance.name for instance in cluster.instances])
    return texts.group_text(group, nothing, no_headers=no_headers, short=short) + "".join(
        map(texts.for_terminal, _left_lines(left))
    )


def _left_lines(left: Sequence[Left]) -> Iterator[str]:
    """One line for each node, role and reason."""
    lines = dict[tuple[str, str, str, str], list[str]]()
    for one in left:
        key = (one.node, one.condition, one.role, one.why)
        lines.setdefault(key, []).append(one.instance)
    for (node, condition, role, why), names in lines.items():
        yield f"Left on {node} ({condition}), {role} of {', '.join(names)}: {why}"


def _unexplained(plan: BalancePlan, sets: JobSets, options: argparse.Namespace) -> str:
    """A plan without scores; what it does is read off its jobs."""
    found = steps(plan.cluster, plan.jobs)
    if not found:
        return f"No moves: {plan.info}\n"
    rows = [row[1 : -texts.SCORED] for row in texts.move_rows(found, "")]
    headings, width = texts.HEADINGS[: -texts.SCORED], terminal_width()
    moves = table(headings, rows, no_headers=options.no_headers, width=width)
    return f"{moves}\n{_total(len(found), sum(one.copied for one in found), sets)}"


def _total(moves: int, copied: int, sets: JobSets) -> str:
    number = counted(len(sets), "job set")
    return f"{counted(moves, 'move')}, {texts.gib(copied)} GiB to be copied, {number}\n"


def as_data(plan: BalancePlan, sets: JobSets, request: Balance) -> dict[str, object]:
    """Everything for JSON; disk in MiB."""
    found = steps(plan.cluster, plan.jobs)
    return {
        "info": plan.info,
        "moves": len(found),
        "copied": sum(step.copied for step in found),
        "groups": [
            texts.group_as_data(group)
            | {"left": [one._asdict() for one in left_by(group, plan.cluster, request)]}
            for group in plan.groups
        ],
        "steps": [step._asdict() for step in found],
        "job_sets": sets,
    }
