"""``gnt-steward incident history``: what the audit log of this machine has."""

from __future__ import annotations

import argparse
from typing import Final

from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.fields import Value, add_field_options, print_fields
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.units import local_time
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.audit import read_audit
from ganeti_steward.plugins.maintenance.edges.history import Entry

#: Columns -> headings.
FIELDS: Final = {
    "at": "At",
    "kind": "Kind",
    "incident": "Incident",
    "node": "Node",
    "event": "Event",
    "before": "Before",
    "after": "After",
    "reason": "Reason",
}
_USUAL: Final = ("at", "incident", "node", "event", "after", "reason")


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Which entries, and how they are printed."""
    describe(
        parser,
        {
            "gnt-steward incident history": "everything, the oldest entry first",
            "gnt-steward incident history --node node3.example.com": "one node",
        },
        units="Times are local, with the offset from UTC.",
    )
    add = parser.add_argument
    add("uuid", nargs="?", default="", help="only this incident: its uuid, or how it begins")
    add("-n", "--node", default="", help="only this node, by its full name or uuid")
    add_audit_option(parser)
    add_field_options(parser, FIELDS)
    parser.set_defaults(act=show_history)


def add_audit_option(parser: argparse.ArgumentParser) -> None:
    """Which audit log."""
    text = "the audit log; default: as configured"
    parser.add_argument("--audit-file", metavar="FILE", help=text)


def audit_path(options: argparse.Namespace) -> str:
    """The audit log that is named or configured; raises StewardError."""
    if options.audit_file is not None:
        return str(options.audit_file)
    return configuration(("maintd",)).section(Maintd).audit_file


def show_history(options: argparse.Namespace) -> int:
    """Print the entries, the oldest first; raises StewardError."""
    path = audit_path(options)
    found = [
        one
        for one in read_audit(path, node=options.node)
        if one.incident.startswith(options.uuid.lower())
    ]
    if options.uuid and not found:
        raise StewardError(f"the audit log {path} has nothing about incident {options.uuid!a}")
    print_fields(options, FIELDS, _USUAL, [_row(one) for one in found])
    return EXIT_OK


def _row(one: Entry) -> dict[str, Value]:
    return {
        "at": local_time(one.at),
        "kind": one.kind,
        "incident": one.incident,
        "node": one.node_name or "-",
        "event": one.event,
        "before": one.before or "-",
        "after": one.after or "-",
        "reason": one.reason,
    }
