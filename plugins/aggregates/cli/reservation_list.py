"""``gnt-steward reserve list``: free pools and reservations, and when they end."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Final

from ganeti_steward.core.commands.tables import Value, add_field_options, print_notes
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster, requesting_instances
from ganeti_steward.plugins.aggregates.cli.reserving import instances_on
from ganeti_steward.plugins.aggregates.cli.versions import add_version_option, print_rows
from ganeti_steward.plugins.aggregates.language.entitlement import entitled_text
from ganeti_steward.plugins.aggregates.language.until import Clock, warning
from ganeti_steward.plugins.aggregates.members import Members
from ganeti_steward.plugins.aggregates.membership import Rules
from ganeti_steward.plugins.aggregates.reservations import TRANSIT, Reservations, reservations

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
_NEW: Final = ("until", "entitled")


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """The columns, and JSON."""
    add_field_options(parser, FIELDS)
    add_version_option(parser)


def list_reservations(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    """Print them, and notes on those that have ended or end soon."""
    requesting = requesting_instances(tagged)
    found = reservations(tagged.rules)
    rows = [
        _row(tagged, under, members, requesting.get(members.name, []))
        for under in found
        for members in (under.free, *under.taken)
    ]
    print_rows(options, "reservations", FIELDS, _USUAL, rows, _NEW)
    print_notes(end_notes(tagged.rules, time.time))
    return EXIT_OK


def end_notes(rules: Rules, clock: Clock) -> Iterator[str]:
    """What is to be known about the ends of reservations with nodes."""
    for under in reservations(rules):
        for members in under.taken:
            text = warning(rules.until, members.name, clock)
            if text:
                name = members.name
                yield f"{text}; 'gnt-steward reserve release {name}' frees its nodes"


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
        "until": tagged.rules.until.get(members.name) or "-",
        "entitled": entitled_text(tagged.rules.entitled, members.name) or "-",
    }
