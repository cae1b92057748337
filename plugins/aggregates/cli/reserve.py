"""``gnt-steward reserve``: nodes of a free pool for those that name the reservation."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from typing import Final, cast

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.run_jobs import Interrupts
from ganeti_steward.plugins.aggregates.cli.reading import (
    Site,
    Value,
    add_field_options,
    askers,
    listed,
    print_fields,
    run_act,
)
from ganeti_steward.plugins.aggregates.cli.reserving import (
    Wanted,
    creation,
    inhabitants,
    release,
    resolve,
)
from ganeti_steward.plugins.aggregates.cli.transfers import (
    GUARD,
    Live,
    Transfer,
    node_tags,
    run_transfer,
    strangers,
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
    "asked": "Asked for by",
    "instances": "Instances there",
}
_USUAL: Final = ("name", "state", "count", "nodes", "asked")


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
        "--force", action="store_true", help="although instances ask for it or are on its nodes"
    )
    _change_options(one)
    one.set_defaults(act=_release)


def _taking_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="what instances ask for, with or without the prefix")
    parser.add_argument("node", nargs="*", help="these nodes; default: as many as -n says")
    parser.add_argument("-n", "--count", type=int, help="how many nodes; default: 1")
    parser.add_argument(
        "--from",
        dest="groups",
        metavar="GROUP,...",
        help="choose among the nodes of these node groups",
    )


def _change_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Do what was asked."""
    return run_act(options)


def _list(options: argparse.Namespace, site: Site) -> int:
    asked = askers(site)
    rows = [
        _row(site, under, members, asked.get(members.name, []))
        for under in reservations(site.rules)
        for members in (under.free, *under.taken)
    ]
    print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK


def _row(
    site: Site, under: Reservations, members: Members, asked: Sequence[str]
) -> dict[str, Value]:
    state = "free" if members.name == under.free.name else "reserved"
    if members.name.startswith(f"{under.prefix}{GUARD}"):
        state = "moving"
    groups = {group.uuid: group.name for group in site.cluster.groups}
    return {
        "name": members.name,
        "state": state,
        "count": len(members.nodes),
        "nodes": members.nodes,
        "groups": [groups[uuid] for uuid in members.groups],
        "asked": asked,
        "instances": inhabitants(site, members.nodes),
    }


def _take(options: argparse.Namespace, site: Site) -> int:
    count: int | None = options.count
    if count is not None and (options.node or count < 1):
        fault = "-n and names of nodes exclude each other" if options.node else "-n is at least 1"
        raise StewardError(fault)
    if options.node and options.groups is not None:
        raise StewardError("--from and names of nodes exclude each other")
    groups = () if options.groups is None else tuple(options.groups.split(","))
    wanted = Wanted(options.name, tuple(options.node), count or 1, groups, options.more)
    transfer = creation(site, wanted, secrets.token_hex(4))
    print_notes(_notes(site, transfer))
    live = _live(site)
    if not options.dry_run:
        reason = f"reserve {options.what} {options.name}"
        with Interrupts() as interrupts:
            run_transfer(live, transfer, reason, interrupts)
        _check_after(live, transfer, reason)
    _say(options, transfer)
    return EXIT_OK


def _notes(site: Site, transfer: Transfer) -> list[str]:
    """What may surprise later."""
    notes, there = [], inhabitants(site, transfer.nodes)
    if there:
        notes.append(f"instances on these nodes stay there: {listed(there, every=False)}")
    under, _ = resolve(site, transfer.target)
    if not under.claimable:
        notes.append(
            f"{under.prefix} is no required prefix: the tag {transfer.target} on an instance "
            f"asks for nothing, steward:member-of:{transfer.target} does"
        )
    if under.free.name not in site.rules.settings.unclaimable:
        notes.append(
            f"instances may ask for the free pool; the cluster tag steward:unclaimable:"
            f"{under.free.name} would prevent that"
        )
    return notes


def _check_after(live: Live, transfer: Transfer, reason: str) -> None:
    """Two commands may have made or extended reservations of one name at the same time."""
    found = strangers(transfer, node_tags(live))
    if not found:
        return
    back = transfer._replace(source=transfer.target, target=transfer.source, inside=())
    run_transfer(live, back, f"{reason}: undone")
    done = "extended" if transfer.inside else "made"
    raise StewardError(
        f"somebody else put {listed(found)} in a reservation meanwhile, or {done} "
        f"{transfer.target} too; back in {transfer.source}: {listed(transfer.nodes)}"
    )


def _release(options: argparse.Namespace, site: Site) -> int:
    transfers = release(site, options.name, secrets.token_hex(4), force=options.force)
    live = _live(site)
    for transfer in transfers:
        if not options.dry_run:
            with Interrupts() as interrupts:
                run_transfer(live, transfer, f"reserve release {options.name}", interrupts)
        _say(options, transfer)
    return EXIT_OK


def _live(site: Site) -> Live:
    # Both clients tell the tags; the source promises only what running jobs needs.
    return cast("Live", site.jobs)


def _say(options: argparse.Namespace, transfer: Transfer) -> None:
    verb = "would be moved" if options.dry_run else "moved"
    target = f" to {transfer.target}" if transfer.target else ""
    print(f"{verb} from {transfer.source}{target}: {', '.join(transfer.nodes)}")
