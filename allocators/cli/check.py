"""``gnt-steward check``: what is wrong with a cluster, and whether balancing would fix it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from ganeti_steward.allocators.balancing.planning.plan_balance import (
    BalancePlan,
    plan_balance,
    resolve,
)
from ganeti_steward.allocators.cli import allocator_options
from ganeti_steward.allocators.cli.texts import BAD, GOOD, gib, group_as_data, painted, totals
from ganeti_steward.allocators.jobs.job_sets import job_sets
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
    print_notes,
    table,
    wrapped,
)
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster, Instance, Node
from ganeti_steward.core.model.explanation import GroupBalance, GroupHealth
from ganeti_steward.core.model.options import parse_options

#: What the names of all shell variables begin with.
PREFIX: Final = "GNT_STEWARD_CHECK_"
#: Statuses of instances that say something of their node, which is unusable then.
_OF_NODES: Final = ("ERROR_nodedown", "ERROR_nodeoffline")
#: Names shown of each kind, without --verbose.
_SHOWN: Final = 10

#: Fields of the list of counts -> headings.
FIELDS: Final = {"group": "Group", "count": "Count", "now": "Now", "balanced": "Balanced"}


class Counts(NamedTuple):
    """How much is wrong in a group, or in all."""

    n1: int
    tags: int
    primaries: int
    secondaries: int
    blocked: int
    """nodes that could not be emptied"""

    @classmethod
    def of(cls, health: GroupHealth) -> Counts:
        """The counts of one group."""
        return cls(
            len(health.n1_nodes),
            len(health.clashing),
            len(health.primaries),
            len(health.secondaries),
            len({node for _, node in health.stuck or ()}),
        )

    @classmethod
    def sum(cls, counts: Sequence[Counts]) -> Counts:
        """The counts of several groups together."""
        return cls(*map(sum, zip(*counts, strict=True))) if counts else cls(0, 0, 0, 0, 0)


#: What each count is called in a table, and in a shell variable (as hcheck calls it).
_WORDS: Final = (
    ("nodes that fail N+1", "N1_FAIL"),
    ("nodes with tag conflicts", "CONFLICT_TAGS"),
    ("instances with an unusable primary", "OFFLINE_PRI"),
    ("instances with an unusable secondary", "OFFLINE_SEC"),
    ("nodes that could not be emptied", "GN1_FAIL"),
)


class Checked(NamedTuple):
    """One group with what is known to be wrong, before and after balancing."""

    uuid: str
    balance: GroupBalance
    before: GroupHealth
    after: GroupHealth
    unusable: tuple[Node, ...]
    without_disk: tuple[Node, ...]
    """usable nodes that do not report their disk"""
    wrong: tuple[Instance, ...] = ()
    """instances with an ``ERROR_`` status: down, marked down and running, on the wrong node, ..."""

    @property
    def well(self) -> bool:
        """Whether nothing of all that is looked at is wrong."""
        return self.before.well and not self.wrong


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """hcheck's options, where hbal has them hbal's."""
    describe(
        parser,
        {
            "gnt-steward check": "the cluster of this master",
            "gnt-steward check --no-simulation --machine-readable": "quick, for monitoring",
            "gnt-steward check -G rack1 --rapi cluster.example.com": "one group, from anywhere",
        },
        statuses={EXIT_FAILURE: "something is wrong, or the cluster cannot be read"},
        units=allocator_options.UNITS,
    )
    allocator_options.option(parser, "--no-simulation", "do not look what balancing would gain")
    allocator_options.option(
        parser, "--no-capacity-checks", "do not look for nodes that could not be emptied"
    )
    parser.add_argument(
        "--machine-readable",
        nargs="?",
        const="yes",
        default="no",
        choices=("yes", "no"),
        help=f"print shell variables, {PREFIX}...",
    )
    add_field_options(parser, FIELDS, json="everything as data; with -o the fields")
    allocator_options.option(parser, "-v, --verbose", "all names, whole")
    allocator_options.add_balance_options(parser)
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Print what is wrong; status 1 when anything is."""
    if options.machine_readable == "yes" and (options.json or is_list(options)):
        raise StewardError("--machine-readable excludes -o, --json and --separator")
    config = configuration(ALLOCATION)
    source = read_source(options)
    print_notes(source.notes)
    more = ["--no-capacity-checks"] if options.no_capacity_checks else []
    passed = parse_options([*options.option, *more])
    request, cluster = resolve(allocator_options.balance_options(options), source.cluster)
    if options.no_simulation:
        request = request._replace(max_moves=0)
    with progress("simulating a balance"):
        plan = plan_balance(request, cluster, config, passed)
    groups = checked(plan)
    if is_list(options):
        _print_counts(groups, options)
    elif options.json:
        sys.stdout.buffer.write(as_json(plan, groups))
    elif options.machine_readable == "yes":
        sys.stdout.write("".join(f"{PREFIX}{line}\n" for line in variables(plan, groups)))
    else:
        sys.stdout.write(as_text(plan, groups, options))
    return EXIT_OK if all(group.well for group in groups) else EXIT_FAILURE


def checked(plan: BalancePlan) -> list[Checked]:
    """The groups of a plan; raises StewardError where an allocator reports no faults."""
    cluster, found = plan.cluster, []
    for balance in plan.groups:
        before, after = balance.health_before, balance.health_after
        named = cluster.groups_named(balance.group)
        if before is None or after is None or not named:
            break
        uuid = cluster.groups[named[0]].uuid
        nodes = [node for node in cluster.nodes if node.group == uuid]
        unusable = tuple(node for node in nodes if not node.usable)
        without = tuple(node for node in nodes if node.usable and node.lacks_disk_figures)
        names = {node.name for node in nodes}
        wrong = tuple(
            one for one in cluster.instances if one.primary in names and _is_wrong(one.status)
        )
        found.append(Checked(uuid, balance, before, after, unusable, without, wrong))
    if not plan.groups or len(found) < len(plan.groups):
        raise StewardError(
            "the allocator that answered the balance request does not report what is wrong with "
            "the groups; 'balanced' does ([allocators] balance in the configuration)"
        )
    return found


def _is_wrong(status: str) -> bool:
    return status.startswith("ERROR_") and status not in _OF_NODES


def _print_counts(groups: Sequence[Checked], options: argparse.Namespace) -> None:
    """All counts and scores of the groups as one list; raises StewardError."""
    rows = list[dict[str, Value]]()
    for group in groups:
        before, after = Counts.of(group.before), Counts.of(group.after)
        scores = (f"{group.balance.score_before:.8f}", f"{group.balance.score_after:.8f}")
        counts = zip(_WORDS, before, after, strict=True)
        wrong = str(len(group.wrong))
        lines = [(word, str(now), str(then)) for (word, _), now, then in counts]
        lines.append(("instances with an error status", wrong, wrong))
        rows += [
            dict(zip(FIELDS, (group.balance.group, *line), strict=True))
            for line in (*lines, ("score", *scores))
        ]
    usual = ("group", "count", "now") if options.no_simulation else tuple(FIELDS)
    print_fields(options, FIELDS, usual, rows)


def as_text(plan: BalancePlan, groups: Sequence[Checked], options: argparse.Namespace) -> str:
    """A verdict, then each group, then all together."""
    well = all(group.well for group in groups)
    verdict = _verdict(groups, options)
    parts = [painted(f"{verdict}\n", GOOD if well else BAD)]
    parts += [_group(group, plan.cluster, options) for group in groups]
    if len(groups) > 1:
        before, after = (
            Counts.sum([Counts.of(getattr(group, when)) for group in groups])
            for when in ("before", "after")
        )
        rows = _rows(before, after, simulated=not options.no_simulation)
        parts += [table(_headings("All groups", options), rows)] if rows else []
    if not options.no_simulation:
        parts.append(_gain(plan))
    return "\n".join(parts)


def _verdict(groups: Sequence[Checked], options: argparse.Namespace) -> str:
    if all(group.well for group in groups):
        tested = "" if options.no_capacity_checks else ", and every node could be emptied"
        found = (
            "No instance has an unusable node or an error status, no node fails N+1 or has tag "
            f"conflicts{tested}."
        )
        others = (
            "Not looked at: the disks of instances (gnt-cluster verify), the reports of nodes "
            "(gnt-steward maintd status)."
        )
        return (wrapped(found) + wrapped(others)).rstrip()
    wrong = sum(len(group.wrong) for group in groups)
    errors = f"{counted(wrong, 'instance')} with an error status. " if wrong else ""
    if all(group.before.well for group in groups):
        return f"{errors}Balancing does not help them."
    return errors + _balanced(groups, simulated=not options.no_simulation)


def _balanced(groups: Sequence[Checked], *, simulated: bool) -> str:
    if not simulated:
        return "Problems found."
    if all(group.after.well for group in groups):
        return "Problems found; balancing would fix all of them."
    before, after = (
        Counts.sum([Counts.of(getattr(group, when)) for group in groups])
        for when in ("before", "after")
    )
    fixed = "none" if before == after else "some"
    left = ", ".join(
        f"{count} {word}" for (word, _), count in zip(_WORDS, after, strict=True) if count
    )
    return f"Problems found; balancing would fix {fixed} of them. Left: {left}."


def _gain(plan: BalancePlan) -> str:
    moves, copied = totals(plan.groups)
    if not moves:
        return "Balancing would move nothing.\n"
    sets = counted(len(job_sets(plan.cluster, plan.jobs)), "job set")
    return f"Balancing would be {counted(moves, 'move')}, {gib(copied)} GiB to be copied, {sets}.\n"


def _headings(title: str, options: argparse.Namespace) -> tuple[str, ...]:
    return (title, "now") if options.no_simulation else (title, "now", "balanced")


def _rows(before: Counts, after: Counts, *, simulated: bool) -> list[tuple[str, ...]]:
    counts = zip(*([before, after] if simulated else [before]), strict=True)
    rows = zip(_WORDS, counts, strict=True)
    return [(word, *map(str, numbers)) for (word, _), numbers in rows if any(numbers)]


def _group(group: Checked, cluster: Cluster, options: argparse.Namespace) -> str:
    balance, simulated = group.balance, not options.no_simulation
    rows = _rows(Counts.of(group.before), Counts.of(group.after), simulated=simulated)
    score = (f"score (never below {balance.bound:.8f})", f"{balance.score_before:.8f}")
    rows.append((*score, f"{balance.score_after:.8f}") if simulated else score)
    lines = [table(_headings(f"Group {balance.group}", options), rows)]
    short = {} if options.verbose else _short(cluster)
    for title, names in _named(group, short):
        if names:
            line = f"{title}: {_listed(names, all_of_them=options.verbose)}"
            lines.append(f"{line}\n" if options.verbose else wrapped(line))
    return "".join(lines + [f"Note: {note}\n" for note in balance.notes])


def _short(cluster: Cluster) -> dict[str, str]:
    """Short names of all nodes and instances; nodes and instances do not share names."""
    nodes = short_names([node.name for node in cluster.nodes])
    return nodes | short_names([instance.name for instance in cluster.instances])


def _named(group: Checked, short: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """What the counts are of; ``short``: the names to print, where they are others."""

    def shown(name: str) -> str:
        return short.get(name, name)

    health = group.before
    yield "Unusable", [f"{shown(node.name)} ({node.condition})" for node in group.unusable]
    yield "Disk not reported", [shown(node.name) for node in group.without_disk]
    yield "Fail N+1", [*map(shown, health.n1_nodes)]
    yield "Tag conflicts", [*map(shown, health.clashing)]
    yield "Primary unusable", [*map(shown, health.primaries)]
    yield "Secondary unusable", [*map(shown, health.secondaries)]
    yield "Error status", [f"{shown(one.name)} ({one.status})" for one in group.wrong]
    yield "Cannot move away", [f"{shown(one)} on {shown(node)}" for one, node in health.stuck or ()]


def _listed(names: Sequence[str], *, all_of_them: bool) -> str:
    shown = names if all_of_them else names[:_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def variables(plan: BalancePlan, groups: Sequence[Checked]) -> Iterator[str]:
    """``NAME=value`` for a shell; the names end as hcheck's do."""
    for at, group in enumerate(groups):
        yield f"GROUP_UUID_{at}='{group.uuid}'"
    for phase, when in (("INIT", "before"), ("FINAL", "after")):
        counts = [Counts.of(getattr(group, when)) for group in groups]
        for at, (group, numbers) in enumerate(zip(groups, counts, strict=True)):
            yield from _counted(f"{phase}_GROUP_{at}", numbers)
            score: float = getattr(group.balance, f"score_{when}")
            yield f"{phase}_GROUP_{at}_SCORE={score:.8f}"
        yield from _counted(f"{phase}_CLUSTER", Counts.sum(counts))
        wrong = not all(getattr(group, when).well for group in groups)
        yield f"{phase}_CLUSTER_NEED_REBALANCE={int(wrong)}"
    for at, group in enumerate(groups):
        yield f"GROUP_{at}_BOUND={group.balance.bound:.8f}"
    moves, copied = totals(plan.groups)
    yield f"MOVES={moves}"
    yield f"COPIED={copied}"
    yield "OK=1"


def _counted(name: str, counts: Counts) -> Iterable[str]:
    return (f"{name}_{word}={count}" for (_, word), count in zip(_WORDS, counts, strict=True))


def as_json(plan: BalancePlan, groups: Sequence[Checked]) -> bytes:
    """Everything as one JSON object; disk in MiB."""
    moves, copied = totals(plan.groups)
    data = {
        "well": all(group.well for group in groups),
        "moves": moves,
        "copied": copied,
        "groups": [
            {
                "uuid": group.uuid,
                **group_as_data(group.balance),
                "unusable": {node.name: node.condition for node in group.unusable},
                "errors": {one.name: one.status for one in group.wrong},
                "before": group.before,
                "after": group.after,
            }
            for group in groups
        ],
    }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n"
