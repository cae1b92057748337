"""``gnt-steward reserve``: nodes of a free pool for the instances that name the reservation."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from typing import Final, cast

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.fields import (
    Value,
    add_field_options,
    print_fields,
)
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.run_jobs import Interrupts
from ganeti_steward.plugins.aggregates.cli.reading import (
    TaggedCluster,
    listed,
    requesting_instances,
    run_action,
)
from ganeti_steward.plugins.aggregates.cli.reserving import (
    Wanted,
    creation,
    instances_on,
    release,
    resolve,
)
from ganeti_steward.plugins.aggregates.cli.transfers import (
    TRANSIT,
    LiveCluster,
    Transfer,
    foreign_members,
    node_tags,
    run_transfer,
)
from ganeti_steward.plugins.aggregates.members import Members
from ganeti_steward.plugins.aggregates.reservations import Reservations, reservations

#: Columns of the list -> headings.
FIELDS: Final = {
    "name": "Reservation",
    "state": "State",
    "count": "Count",
    "nodes": "Nodes",
    "groups": "Groups",
    "requested_by": "Requested by",
    "instances": "Instances there",
}
_USUAL: Final = ("name", "state", "count", "nodes", "requested_by")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    one = what.add_parser("list", help="the free pools and the reservations")
    add_field_options(one, FIELDS)
    add_source_options(one, positional=False)
    one.set_defaults(act=_list)
    for word, text, more in (
        ("create", "take nodes out of the free pool: all of them or none", False),
        ("extend", "the same for a reservation there is: more nodes, all of them or none", True),
    ):
        one = what.add_parser(word, help=text)
        _taking_options(one)
        _change_options(one)
        one.set_defaults(act=_take, more=more)
    one = what.add_parser("release", help="put the nodes of a reservation back")
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


def _change_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    return run_action(options)


def _list(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    requesting = requesting_instances(tagged)
    rows = [
        _row(tagged, under, members, requesting.get(members.name, []))
        for under in reservations(tagged.rules)
        for members in (under.free, *under.taken)
    ]
    print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK


def _row(
    tagged: TaggedCluster, under: Reservations, members: Members, requested_by: Sequence[str]
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
        "instances": instances_on(tagged, members.nodes),
    }


def _take(options: argparse.Namespace, tagged: TaggedCluster) -> int:
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
    groups = () if options.groups is None else tuple(options.groups.split(","))
    wanted = Wanted(options.name, tuple(options.node), count or 1, groups, options.more)
    transfer = creation(tagged, wanted, secrets.token_hex(4))
    print_notes(_notes(tagged, transfer))
    live = _live(tagged)
    if not options.dry_run:
        reason = f"reserve {options.what} {options.name}"
        with Interrupts() as interrupts:
            run_transfer(live, transfer, reason, interrupts)
        _check_after(live, transfer, reason)
    _print_transfer(options, transfer)
    return EXIT_OK


def _notes(tagged: TaggedCluster, transfer: Transfer) -> list[str]:
    """What may surprise later."""
    notes, there = [], instances_on(tagged, transfer.nodes)
    if there:
        notes.append(f"instances on these nodes stay there: {listed(there, every=False)}")
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
            with Interrupts() as interrupts:
                run_transfer(live, transfer, f"reserve release {options.name}", interrupts)
        _print_transfer(options, transfer)
    return EXIT_OK


def _live(tagged: TaggedCluster) -> LiveCluster:
    # Both clients read tags too; the source declares only what running jobs needs.
    return cast("LiveCluster", tagged.jobs)


def _print_transfer(options: argparse.Namespace, transfer: Transfer) -> None:
    verb = "would be moved" if options.dry_run else "moved"
    target = f" to {transfer.target}" if transfer.target else ""
    print(f"{verb} from {transfer.source}{target}: {', '.join(transfer.nodes)}")
