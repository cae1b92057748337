"""``gnt-steward reserve``: nodes of a free pool for the instances that name the reservation."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Sequence
from typing import Final, cast

from ganeti_steward.allocators.jobs.run_jobs import Interrupts, interrupt_printer
from ganeti_steward.core.commands.cluster_options import add_reason_option
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields, print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.model.cluster import INTERNALLY_MIRRORED
from ganeti_steward.plugins.aggregates.cli import reading, reserving
from ganeti_steward.plugins.aggregates.cli.tagging import print_changes
from ganeti_steward.plugins.aggregates.cli.transfers import (
    LiveCluster,
    Transfer,
    checked_end,
    end_changes,
    foreign_members,
    node_tags,
    run_transfer,
    write_end,
)
from ganeti_steward.plugins.aggregates.language.limits import entitled_text
from ganeti_steward.plugins.aggregates.membership import Members
from ganeti_steward.plugins.aggregates.reservations import (
    TRANSIT,
    PrefixReservations,
    lonely,
    reservations,
)

_DATES: Final = "Dates are YYYY-MM-DD, the last day of a reservation."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    actions = {
        "list": ("the free pools and the reservations", _list, _describe_list),
        "create": (
            "take nodes out of the free pool: all of them or none",
            _take,
            _describe_taking,
        ),
        "extend": (
            "the same for a reservation there is: more nodes, all of them or none",
            _take,
            _describe_taking,
        ),
        "release": ("put the nodes of a reservation back", _release, _describe_release),
    }
    reading.add_actions(parser, actions, writing=("create", "extend", "release"))


def _describe_release(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            "gnt-steward reserve release trial --dry-run": "what would be changed",
            "gnt-steward reserve release trial": "put its nodes back in the free pool",
        },
        statuses={EXIT_FAILURE: "instances request it or are on its nodes, or a job failed"},
    )
    parser.add_argument("name", help="the reservation, with or without the prefix")
    parser.add_argument(
        "--force", action="store_true", help="even if instances request it or are on its nodes"
    )
    _change_options(parser)


def _describe_taking(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            f"{parser.prog} trial --count 2 --from rack1": "two nodes of rack1",
            f"{parser.prog} trial node7 --until 2027-03-31": "one node, this long",
        },
        units=_DATES,
    )
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
    _change_options(parser)


def _change_options(parser: argparse.ArgumentParser) -> None:
    add_reason_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")


#: Runs the sub-command; returns the exit status.
run: Final = reading.run_action


def _take(options: argparse.Namespace, tagged: reading.TaggedCluster) -> int:
    wanted = _wanted(options)
    _, full = reserving.resolve(tagged, wanted.name)
    end = checked_end(full, options.until, time.time)
    transfer = None
    if wanted.more and end and not options.node and options.count is None:
        reserving.check_reserved(tagged, wanted.name)
    else:
        transfer = reserving.creation(tagged, wanted, secrets.token_hex(4))
        print_notes(_notes(tagged, transfer))
    live, reason = _live(tagged), f"reserve {options.what} {options.name}"
    changes = end_changes(tagged, full, end) if end or not wanted.more else []
    if not options.dry_run:
        if transfer is not None:
            with Interrupts(interrupt_printer("the submitted job")) as interrupts:
                run_transfer(live, transfer, reason, interrupts)
            _check_after(live, transfer, reason)
        write_end(tagged, changes, reason)
    if transfer is not None:
        _print_transfer(options, transfer)
    print_changes(options, changes)
    return EXIT_OK


def _wanted(options: argparse.Namespace) -> reserving.Wanted:
    """What the options request; raises StewardError."""
    count: int | None = options.count
    if count is not None and options.node:
        raise StewardError("--count and names of nodes exclude each other")
    if count is not None and count < 1:
        raise StewardError("--count is at least 1")
    if options.node and options.groups is not None:
        raise StewardError("--from and names of nodes exclude each other")
    template, more = options.disk_template or "", options.what == "extend"
    if template:
        reading.check_template(template)
    if count is None:
        count = 2 if template in INTERNALLY_MIRRORED and not more else 1
    groups = () if options.groups is None else tuple(options.groups.split(","))
    nodes = tuple(options.node)
    return reserving.Wanted(options.name, nodes, count, groups, more, template)


def _notes(tagged: reading.TaggedCluster, transfer: Transfer) -> list[str]:
    """What may surprise later."""
    notes, there = [], reserving.instances_on(tagged, transfer.nodes)
    if there:
        notes.append(f"instances on these nodes stay there: {reading.listed(there, every=False)}")
    nodes = (*transfer.nodes, *transfer.inside)
    if len(nodes) > 1 and (alone := lonely(tagged.cluster, nodes)):
        notes.append(
            "a drbd instance needs two nodes of one group; alone in theirs are " + ", ".join(alone)
        )
    under, _ = reserving.resolve(tagged, transfer.target)
    if not under.claimable:
        notes.append(
            f"{under.prefix} is not a required prefix: the tag {transfer.target} on an instance "
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
        f"another command has put {reading.listed(found)} in a reservation, or {done} "
        f"{transfer.target} too; back in {transfer.source}: {reading.listed(transfer.nodes)}"
    )


def _release(options: argparse.Namespace, tagged: reading.TaggedCluster) -> int:
    transfers = reserving.release(tagged, options.name, secrets.token_hex(4), force=options.force)
    live = _live(tagged)
    for transfer in transfers:
        if not options.dry_run:
            with Interrupts(interrupt_printer("the submitted job")) as interrupts:
                run_transfer(live, transfer, f"reserve release {options.name}", interrupts)
        _print_transfer(options, transfer)
    _, full = reserving.resolve(tagged, options.name)
    changes = end_changes(tagged, full, "")
    if not options.dry_run:
        write_end(tagged, changes, f"reserve release {options.name}")
    print_changes(options, changes)
    return EXIT_OK


def _live(tagged: reading.TaggedCluster) -> LiveCluster:
    # Both clients read tags too; the source declares only what running jobs needs.
    return cast("LiveCluster", tagged.jobs)


def _print_transfer(options: argparse.Namespace, transfer: Transfer) -> None:
    verb = "would be moved" if options.dry_run else "moved"
    target = f" to {transfer.target}" if transfer.target else ""
    print(f"{verb} from {transfer.source}{target}: {', '.join(transfer.nodes)}")


#: Columns of the list -> headings.
FIELDS: Final = {
    "name": "Reservation",
    "state": "State",
    "count": "Count",
    "nodes": "Nodes",
    "groups": "Groups",
    "requested_by": "Requested by",
    "instances": "Instances there",
    "until": "Until",
    "entitled": "Entitled",
}
_USUAL: Final = ("name", "state", "count", "until", "nodes", "requested_by")


def _describe_list(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            "gnt-steward reserve list": "each with its nodes and its last day",
            "gnt-steward reserve list -o name,nodes --no-headers": "two columns, for a script",
        },
        units=_DATES,
    )
    add_field_options(parser, FIELDS)


def _list(options: argparse.Namespace, tagged: reading.TaggedCluster) -> int:
    """Print them, and notes on those that have ended or end soon."""
    requesting = reading.requesting_instances(tagged)
    found = reservations(tagged.rules)
    rows = [
        _row(tagged, under, members, requesting.get(members.name, []))
        for under in found
        for members in (under.free, *under.taken)
    ]
    print_fields(options, FIELDS, _USUAL, rows)
    print_notes(reading.end_notes(tagged.rules, time.time))
    return EXIT_OK


def _row(
    tagged: reading.TaggedCluster,
    under: PrefixReservations,
    members: Members,
    requested_by: Sequence[str],
) -> dict[str, Value]:
    state = "free" if members.name == under.free.name else "reserved"
    if members.name.startswith(f"{under.prefix}{TRANSIT}"):
        state = "moving"
    groups = {group.uuid: group.name for group in tagged.cluster.groups}
    return {
        "name": members.name,
        "state": state,
        "count": len(members.nodes),
        "nodes": members.nodes,
        "groups": [groups[uuid] for uuid in members.groups],
        "requested_by": requested_by,
        "instances": reserving.instances_on(tagged, members.nodes),
        "until": tagged.rules.until.get(members.name) or "-",
        "entitled": entitled_text(tagged.rules.entitled, members.name) or "-",
    }
