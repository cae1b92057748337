"""``gnt-steward incident history``: what the audit log of this machine has."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.audit import read_audit
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry
from ganeti_steward.plugins.texts import local_time

#: Columns -> headings and values.
_COLUMNS: Final[Mapping[str, tuple[str, Callable[[AuditEntry], Value]]]] = {
    "at": ("At", lambda one: local_time(one.at)),
    "kind": ("Kind", lambda one: one.kind),
    "incident": ("Incident", lambda one: one.incident),
    "node": ("Node", lambda one: one.node_name or "-"),
    "event": ("Event", lambda one: one.event),
    "before": ("Before", lambda one: one.before or "-"),
    "after": ("After", lambda one: one.after or "-"),
    "reason": ("Reason", lambda one: one.reason),
}
FIELDS: Final = {name: heading for name, (heading, _) in _COLUMNS.items()}
_USUAL: Final = ("at", "incident", "node", "event", "after", "reason")


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Which entries, and how they are forecasts."""
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
    rows = [{name: value(one) for name, (_, value) in _COLUMNS.items()} for one in found]
    print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK
