"""``gnt-steward aggregate fix``: the plan for misplaced instances, shown or run."""

from __future__ import annotations

import argparse
import sys

from ganeti_steward.allocators.cli.allocator_options import add_passed_options
from ganeti_steward.allocators.cli.run_options import (
    PRINTED,
    add_running_options,
    check_can_run,
    confirmed,
    run_moves,
    write_script,
)
from ganeti_steward.allocators.cli.texts import gib
from ganeti_steward.allocators.jobs.job_sets import failing_over, job_sets, script
from ganeti_steward.core.commands.tables import add_json_option, print_json, print_notes, table
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, join_faults
from ganeti_steward.core.model.names import Names
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.units import counted
from ganeti_steward.plugins.aggregates.cli.fixing import FixPlan, data_of, fix
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster
from ganeti_steward.plugins.aggregates.cli.standing import never_seen
from ganeti_steward.plugins.aggregates.language.tags import VERSION

_HEADINGS = ("#", "Instance", "From", "To", "GiB", "How")


def add_fix_options(parser: argparse.ArgumentParser) -> None:
    """Which instances, and the options of every command with moves."""
    parser.add_argument("instance", nargs="*", help="only these instances; default: all misplaced")
    add_running_options(parser, to_file=True)
    add_json_option(parser, "the plan as data, with its jobs")
    add_passed_options(parser)


def run_fix(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    """Show the plan; status 1 when an instance stays misplaced, or a job of ``-X`` fails."""
    if options.json and (options.exec or options.print_commands == PRINTED):
        raise StewardError("--json excludes -X, and -C without a file")
    check_can_run(options, tagged.source)
    closing = tagged.rules.closing()
    if closing:
        raise StewardError(join_faults([fault.sentence for fault in closing]))
    print_notes(never_seen(tagged))
    plan = fix(tagged, parse_options(options.option), _names(options, tagged))
    sets, over = job_sets(tagged.cluster, plan.jobs), failing_over(tagged.cluster)
    if options.print_commands == PRINTED:
        sys.stdout.write(script(sets, over))
        print_notes(f"{one.instance}: {one.text}" for one in plan.left)
    elif options.json:
        print_json({"version": VERSION, **dict(data_of(plan)), "job_sets": sets})
    else:
        sys.stdout.write(as_text(plan, len(sets)))
    if options.print_commands not in (None, PRINTED):
        write_script(options.print_commands, sets, over)
    done = True
    if options.exec and sets:
        sys.stdout.flush()
        done = confirmed(options, tagged.cluster, sets)
        done = done and run_moves(tagged.source, sets, "aggregate fix").complete
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
        lines.append(table(_HEADINGS, rows))
        moves = counted(len(plan.moves), "move")
        lines.append(f"{moves}, {copied} GiB to be copied, {counted(sets, 'job set')}\n")
    lines += [f"Left: {one.instance}: {one.text}\n" for one in plan.left]
    return "".join(lines)
