"""``gnt-steward reserve``: nodes of a free pool for the instances that name the reservation."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Sequence
from typing import Final, cast

from ganeti_steward.allocators.jobs.run_jobs import Interrupts, interrupt_printer
from ganeti_steward.core.commands.cluster_options import add_reason_option, add_source_options
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.model.cluster import DISK_TEMPLATES, INTERNALLY_MIRRORED
from ganeti_steward.plugins.aggregates.choosing import lonely
from ganeti_steward.plugins.aggregates.cli.ends import checked_end, end_changes, write_end
from ganeti_steward.plugins.aggregates.cli.reading import (
    TaggedCluster,
    listed,
    run_action,
)
from ganeti_steward.plugins.aggregates.cli.reservation_list import (
    add_list_options,
    list_reservations,
)
from ganeti_steward.plugins.aggregates.cli.reserving import (
    Wanted,
    check_reserved,
    creation,
    instances_on,
    release,
    resolve,
)
from ganeti_steward.plugins.aggregates.cli.tagging import Change
from ganeti_steward.plugins.aggregates.cli.transfers import (
    LiveCluster,
    Transfer,
    foreign_members,
    node_tags,
    run_transfer,
)

_DATES: Final = "Dates are YYYY-MM-DD, the last day of a reservation."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    what = add_subcommands(parser, "WHAT")
    one = add_subcommand(what, "list", "the free pools and the reservations")
    describe(
        one,
        {
            "gnt-steward reserve list": "each with its nodes and its last day",
            "gnt-steward reserve list -o name,nodes --no-headers": "two columns, for a script",
        },
        units=_DATES,
    )
    add_list_options(one)
    add_source_options(one, positional=False)
    one.set_defaults(act=list_reservations)
    for word, text, more in (
        ("create", "take nodes out of the free pool: all of them or none", False),
        ("extend", "the same for a reservation there is: more nodes, all of them or none", True),
    ):
        one = add_subcommand(what, word, text)
        describe(
            one,
            {
                f"gnt-steward reserve {word} trial --count 2 --from rack1": "two nodes of rack1",
                f"gnt-steward reserve {word} trial node7 --until 2027-03-31": "one node, this long",
            },
            units=_DATES,
        )
        _taking_options(one)
        _change_options(one)
        one.set_defaults(act=_take, more=more)
    one = add_subcommand(what, "release", "put the nodes of a reservation back")
    describe(
        one,
        {
            "gnt-steward reserve release trial --dry-run": "what would be changed",
            "gnt-steward reserve release trial": "put its nodes back in the free pool",
        },
        statuses={EXIT_FAILURE: "instances request it or are on its nodes, or a job failed"},
    )
    one.add_argument("name", help="the reservation, with or without the prefix")
    one.add_argument(
        "--force", action="store_true", help="even if instances request it or are on its nodes"
    )
    _change_options(one)
    one.set_defaults(act=_release)


def _taking_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the name that instances request, with or without the prefix")
    parser.add_argument("node", nargs="*", help="these nodes; default: as many as --count says")
    parser.add_argument("--count", type=int, help="how many nodes; default: 1")
    parser.add_argument(
        "--from",
        dest="groups",
        metavar="GROUP,...",
        help="choose among the nodes of these node groups",
    )
    parser.add_argument(
        "--disk-template",
        metavar="TEMPLATE",
        help="of the instances they are for: two nodes of one group for drbd, nodes of any group "
        "for others; default: nodes of one group",
    )
    parser.add_argument(
        "--until",
        metavar="DATE",
        help="the last day of the reservation, YYYY-MM-DD; with extend also alone",
    )


def _change_options(parser: argparse.ArgumentParser) -> None:
    add_reason_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    return run_action(options)


def _take(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    wanted = _wanted(options)
    _, full = resolve(tagged, wanted.name)
    end = checked_end(full, options.until, time.time)
    only_end = wanted.more and bool(end) and not options.node and options.count is None
    transfer = None if only_end else creation(tagged, wanted, secrets.token_hex(4))
    if transfer is None:
        check_reserved(tagged, wanted.name)
    else:
        print_notes(_notes(tagged, transfer))
    live, reason = _live(tagged), f"reserve {options.what} {options.name}"
    changes = end_changes(tagged, full, end) if end or not wanted.more else []
    if not options.dry_run:
        with Interrupts(interrupt_printer("the submitted job")) as interrupts:
            if transfer is not None:
                run_transfer(live, transfer, reason, interrupts)
        if transfer is not None:
            _check_after(live, transfer, reason)
        write_end(tagged, changes, reason)
    if transfer is not None:
        _print_transfer(options, transfer)
    _print_changes(options, changes)
    return EXIT_OK


def _wanted(options: argparse.Namespace) -> Wanted:
    """What the options request; raises StewardError."""
    count: int | None = options.count
    if count is not None and (options.node or count < 1):
        fault = (
            "--count and names of nodes exclude each other"
            if options.node
            else "--count is at least 1"
        )
        raise StewardError(fault)
    if options.node and options.groups is not None:
        raise StewardError("--from and names of nodes exclude each other")
    template: str = options.disk_template or ""
    if template and template not in DISK_TEMPLATES:
        known = ", ".join(sorted(DISK_TEMPLATES))
        raise StewardError(f"unknown disk template {template!a} (known: {known})")
    if count is None:
        count = 2 if template in INTERNALLY_MIRRORED and not options.more else 1
    groups = () if options.groups is None else tuple(options.groups.split(","))
    nodes = tuple(options.node)
    return Wanted(options.name, nodes, count, groups, options.more, template)


def _notes(tagged: TaggedCluster, transfer: Transfer) -> list[str]:
    """What may surprise later."""
    notes, there = [], instances_on(tagged, transfer.nodes)
    if there:
        notes.append(f"instances on these nodes stay there: {listed(there, every=False)}")
    nodes = (*transfer.nodes, *transfer.inside)
    if len(nodes) > 1 and (alone := lonely(tagged.cluster, nodes)):
        notes.append(
            "a drbd instance needs two nodes of one group; alone in theirs are " + ", ".join(alone)
        )
    under, _ = resolve(tagged, transfer.target)
    if not under.claimable:
        notes.append(
            f"{under.prefix} is no required prefix: the tag {transfer.target} on an instance "
            f"requests nothing, steward:member-of:{transfer.target} does"
        )
    if under.free.name not in tagged.rules.settings.unclaimable:
        notes.append(
            f"instances may request the free pool; to prevent that, add the cluster tag "
            f"steward:unclaimable:{under.free.name}"
        )
    return notes


def _check_after(live: LiveCluster, transfer: Transfer, reason: str) -> None:
    """Two commands may have made or extended reservations of one name at the same time."""
    found = foreign_members(transfer, node_tags(live))
    if not found:
        return
    back = transfer._replace(source=transfer.target, target=transfer.source, inside=())
    run_transfer(live, back, f"{reason}: undone")
    done = "extended" if transfer.inside else "made"
    raise StewardError(
        f"another command has put {listed(found)} in a reservation, or {done} "
        f"{transfer.target} too; back in {transfer.source}: {listed(transfer.nodes)}"
    )


def _release(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    transfers = release(tagged, options.name, secrets.token_hex(4), force=options.force)
    live = _live(tagged)
    for transfer in transfers:
        if not options.dry_run:
            with Interrupts(interrupt_printer("the submitted job")) as interrupts:
                run_transfer(live, transfer, f"reserve release {options.name}", interrupts)
        _print_transfer(options, transfer)
    _, full = resolve(tagged, options.name)
    changes = end_changes(tagged, full, "")
    if not options.dry_run:
        write_end(tagged, changes, f"reserve release {options.name}")
    _print_changes(options, changes)
    return EXIT_OK


def _print_changes(options: argparse.Namespace, changes: Sequence[Change]) -> None:
    for change in changes:
        print(f"{'would be done' if options.dry_run else 'done'}: {change.sentence}")


def _live(tagged: TaggedCluster) -> LiveCluster:
    # Both clients read tags too; the source declares only what running jobs needs.
    return cast("LiveCluster", tagged.jobs)


def _print_transfer(options: argparse.Namespace, transfer: Transfer) -> None:
    verb = "would be moved" if options.dry_run else "moved"
    target = f" to {transfer.target}" if transfer.target else ""
    print(f"{verb} from {transfer.source}{target}: {', '.join(transfer.nodes)}")
