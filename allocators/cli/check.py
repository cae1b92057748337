"""``gnt-steward check``: what is wrong with a cluster, and whether balancing would fix it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from ganeti_steward.allocators.balancing.planning.plan_balance import (
    BalancePlan,
    plan_balance,
    resolve,
)
from ganeti_steward.allocators.cli import allocator_options, check_output
from ganeti_steward.allocators.cli.check_output import Report
from ganeti_steward.allocators.health import troubles
from ganeti_steward.allocators.health.counts import Checked, checked
from ganeti_steward.allocators.health.troubles import Looked, Trouble
from ganeti_steward.core import builtins
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import (
    add_field_options,
    is_list,
    print_json,
    print_notes,
)
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.iallocator.dispatch import reserved
from ganeti_steward.core.model.options import Options, parse_options
from ganeti_steward.core.needed import ROOM_PREFIXES

if TYPE_CHECKING:
    from ganeti_steward.allocators.health.outage import Outage
    from ganeti_steward.allocators.state.state import State

#: The exit statuses, those of Nagios' plugins; 3: the cluster cannot be read.
_STATUSES: Final = {"": EXIT_OK, troubles.ADVICE: EXIT_OK, troubles.WARNING: 1, troubles.ERROR: 2}
_NOT_KNOWN: Final = 3


class NotKnown(StewardError):
    """What is wrong is not known."""

    exit_status: ClassVar[int] = _NOT_KNOWN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """hcheck's options, where hbal has them hbal's."""
    describe(
        parser,
        {
            "gnt-steward check": "the cluster of this master",
            "gnt-steward check --no-simulation --machine-readable": "quick, for monitoring",
            "gnt-steward check -G rack1 --rapi cluster.example.com": "one group, from anywhere",
            "gnt-steward check -O power:a --no-simulation": "if these nodes failed",
        },
        statuses={
            EXIT_OK: "nothing is wrong; an uneven group is advice only",
            EXIT_FAILURE: "a warning: redundancy is lost, or a rule is broken",
            2: "an error: instances are down or have no good disk; or the command line cannot be "
            "used",
            _NOT_KNOWN: "the cluster or the configuration cannot be read",
        },
        units=allocator_options.UNITS,
    )
    allocator_options.option(parser, "--no-simulation", "do not look what balancing would gain")
    allocator_options.option(
        parser, "--no-capacity-checks", "do not look for nodes that could not be emptied"
    )
    text = "look at the disks of running drbd instances, by a job of Ganeti's for each node group"
    allocator_options.option(parser, "--disks", f"{text}; it changes nothing")
    parser.add_argument(
        "--machine-readable",
        nargs="?",
        const="yes",
        default="no",
        choices=("yes", "no"),
        help=f"print shell variables, {check_output.PREFIX}...",
    )
    fields = check_output.FIELDS
    add_field_options(parser, fields, json="everything as data; with -o the fields")
    allocator_options.option(parser, "-v, --verbose", "all names, whole")
    allocator_options.add_balance_options(parser)
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Print what is wrong; the status is that of the most severe."""
    if options.machine_readable == "yes" and (options.json or is_list(options)):
        raise StewardError("--machine-readable excludes -o, --json and --separator")
    try:
        report = _report(options)
    except StewardError as err:
        raise NotKnown(str(err)) from None
    if is_list(options):
        check_output.print_counts(report, options)
    elif options.json:
        print_json(check_output.as_data(report))
    elif options.machine_readable == "yes":
        lines = check_output.variables(report)
        sys.stdout.write("".join(f"{check_output.PREFIX}{line}\n" for line in lines))
    else:
        sys.stdout.write(check_output.as_text(report, options))
    return _STATUSES[troubles.worst(report.troubles)]


def _report(options: argparse.Namespace) -> Report:
    config = configuration(builtins.ALLOCATION)
    source = read_source(options)
    print_notes(source.notes)
    more = ["--no-capacity-checks"] if options.no_capacity_checks else []
    passed = parse_options([*options.option, *more])
    loaded = allocator_options.with_loads(source.cluster, options, passed)
    wanted = allocator_options.balance_options(options, loaded)
    request, cluster = resolve(wanted, reserved(loaded, config)[0])
    if options.no_simulation:
        request = request._replace(max_moves=0)
    with progress("simulating a balance"):
        plan = plan_balance(request, cluster, config, passed)
    now = {node.name for node in source.cluster.nodes if node.offline}
    failed = frozenset(node.name for node in cluster.nodes if node.offline) - now
    with progress("looking at disks and reports"):
        checks = builtins.module(builtins.CLUSTER_CHECKS)
        looked: Looked = checks.look(source, disks=options.disks)
    groups = checked(plan)
    state, outages = _without(plan, failed, passed)
    found = _troubles(plan, groups, state, failed)
    return Report(
        plan,
        groups,
        troubles.sorted_troubles(
            (*check_output.outage_troubles(outages), *found, *looked.troubles)
        ),
        looked.skipped,
        tuple(sorted(failed)),
        outages,
    )


def _without(
    plan: BalancePlan, failed: frozenset[str], passed: Options
) -> tuple[State, tuple[Outage, ...]]:
    """The cluster in the engine's figures, and what the failure of nodes would do."""
    from ganeti_steward.allocators.health.outage import outage
    from ganeti_steward.allocators.state.load import load

    # They import the engine, which --help does not need.
    state = load(plan.cluster, None, passed.kvm_memory)
    return state, outage(state, failed) if failed else ()


def _troubles(
    plan: BalancePlan, groups: list[Checked], state: State, failed: frozenset[str]
) -> Iterator[Trouble]:
    from ganeti_steward.allocators.health.conflicts import tag_conflicts

    cluster = plan.cluster
    for group in groups:
        nodes = tuple(node for node in cluster.nodes if node.group == group.uuid)
        facts = troubles.GroupFacts(cluster, nodes, group.before, failed)
        yield from troubles.group_troubles(facts)
        yield from tag_conflicts(state, cluster.group_index[group.uuid])
        yield troubles.uneven(group.balance)
    if cluster.is_tagged(ROOM_PREFIXES):
        from ganeti_steward.allocators.health.reserves import reserve_troubles, tag_troubles

        yield from reserve_troubles(state, {cluster.group_index[group.uuid] for group in groups})
        yield tag_troubles(cluster)
