"""``gnt-steward incident``: what nodes have reported, and what was done about it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import (
    add_reason_option,
    add_source_options,
    source_options,
)
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import open_luxid
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER
from ganeti_steward.plugins.maintenance.cli import cluster
from ganeti_steward.plugins.maintenance.cli.history import (
    add_audit_option,
    add_history_arguments,
    audit_path,
)
from ganeti_steward.plugins.maintenance.edges.audit import INCIDENTS, OBJECTS, read_kept
from ganeti_steward.plugins.maintenance.edges.record import read_record
from ganeti_steward.plugins.maintenance.edges.status import cause_of, incident_json
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.incident import DEAD, Incident, Submission
from ganeti_steward.plugins.model.operations import remove_tags, set_tags
from ganeti_steward.plugins.model.progress import Emptied, Home, emptied, empties, progress
from ganeti_steward.plugins.model.world import diagnose_object
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi


class _Row(NamedTuple):
    """One of the list."""

    incident: Incident
    signature: str
    progress: str
    """empty where nothing is known of it"""
    waits: list[str]
    """what it waits for, a line each"""


#: Columns of the list -> headings and values.
_COLUMNS: Final[Mapping[str, tuple[str, Callable[[_Row], tables.Value]]]] = {
    "uuid": ("UUID", lambda one: one.incident.uuid),
    "node": ("Node", lambda one: one.incident.node_name),
    "action": ("Action", lambda one: one.incident.action),
    "status": ("Status", lambda one: one.incident.state_name),
    "first-seen": ("FirstSeen", lambda one: local_time(one.incident.first_seen)),
    "changed": ("Changed", lambda one: local_time(one.incident.changed)),
    "jobs": ("Jobs", lambda one: [str(job) for job in one.incident.jobs]),
    "open-jobs": (
        "OpenJobs",
        lambda one: [str(job) for task in one.incident.open for job in task.jobs],
    ),
    "tag": ("Tag", lambda one: one.incident.tag),
    "tagged": ("Tagged", lambda one: one.incident.tagged),
    "acknowledged": ("Acknowledged", lambda one: one.incident.acknowledged),
    "unmovable": ("Unmovable", lambda one: [name for name, _ in one.incident.unmovable]),
    "signature": ("Signature", lambda one: one.signature),
    "note": ("Note", lambda one: one.incident.note),
    "cause": ("Cause", lambda one: cause_of(one.incident)),
    "progress": (
        "Progress",
        lambda one: "; ".join(filter(None, (one.progress, *one.waits))) or one.incident.note,
    ),
    "waits": ("Waits", lambda one: one.waits),
}
FIELDS: Final = {name: heading for name, (heading, _) in _COLUMNS.items()}
_USUAL: Final = ("uuid", "node", "action", "status", "cause", "progress")

_NAME: Final = "its uuid, or how it begins, or the node whose only open one it is"
_TIMES: Final = "Times are local, with the offset from UTC."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    what = add_subcommands(parser, "WHAT")
    for name, (text, fill) in _SUBCOMMANDS.items():
        add_subcommand(what, name, text, fill)


def _list_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward incident list": "node, action and status of each",
            "gnt-steward incident list -o +tag,jobs": "with two more columns",
            "gnt-steward incident list --all": "also the incidents in this machine's audit log",
        },
        units=_TIMES,
    )
    tables.add_field_options(one, FIELDS)
    _add_all(one)
    _finish(one, _list)


def _show_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward incident show 5b0c9f7e": "the uuid may be cut"}, units=_TIMES)
    one.add_argument("uuid", help=_NAME)
    tables.add_json_option(one, "the same as data")
    _add_all(one)
    _finish(one, _show)


def _ack_options(one: argparse.ArgumentParser) -> None:
    _tag_options(one, "ack", _acknowledge)


def _cancel_options(one: argparse.ArgumentParser) -> None:
    _tag_options(one, "cancel", _cancel)


def _fence_options(one: argparse.ArgumentParser) -> None:
    _tag_options(one, "fence", _fence)


def _tag_options(
    one: argparse.ArgumentParser, word: str, act: Callable[[argparse.Namespace], int]
) -> None:
    describe(
        one,
        {
            f"gnt-steward incident {word} 5b0c9f7e": "the uuid may be cut",
            f"gnt-steward incident {word} node3.lab --submit": "the only open one of this node; "
            "do not wait for the job",
        },
    )
    one.add_argument("uuid", help=_NAME)
    cluster.add_submit_option(one)
    add_reason_option(one)
    _finish(one, act)


def _confirm_options(one: argparse.ArgumentParser) -> None:
    describe(one, {"gnt-steward incident confirm 5b0c9f7e": "the uuid may be cut"})
    one.add_argument("uuid", help=_NAME)
    one.set_defaults(act=_confirm)
    # The cluster's key is on the master, where luxid is.
    add_source_options(one, positional=False, files=False, rapi=False)


#: Name -> description, and what declares the options.
_SUBCOMMANDS: Final[Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "list": ("list all recorded incidents, the oldest first", _list_options),
    "show": ("show an incident with the reported object and its jobs", _show_options),
    "ack": ("acknowledge the result: remove its tag from the node", _ack_options),
    "cancel": ("cancel the incident: set the cancel tag on the node", _cancel_options),
    "fence": (
        'permit that the node is switched off, where [maintd] has fence = "confirm": set its tag',
        _fence_options,
    ),
    "confirm": (
        "as root on the master: confirm that a record is the latest one",
        _confirm_options,
    ),
    "history": ("print this machine's audit log", add_history_arguments),
}


def _add_all(parser: argparse.ArgumentParser) -> None:
    text = "also incidents without a record, from this machine's audit log"
    parser.add_argument("--all", action="store_true", help=text)
    add_audit_option(parser)


def _finish(parser: argparse.ArgumentParser, act: Callable[[argparse.Namespace], int]) -> None:
    parser.set_defaults(act=act)
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    status: int = options.act(options)
    return status


def _list(options: argparse.Namespace) -> int:
    client = cluster.live_client(options)
    found = _found(client, options)
    if found.records and found.unchecked:
        tables.print_notes([f"signatures are not checked: {found.unchecked}"])
    far = _emptied(client, found.records)
    waits = cluster.daemon_waits() if any(one.incident.active for one in found.records) else {}
    shown = [
        _Row(
            incident,
            signature,
            progress(incident, far.get(incident.uuid)),
            waits.get(incident.uuid, []),
        )
        for incident, signature in found.records
    ]
    rows = [{name: value(one) for name, (_, value) in _COLUMNS.items()} for one in shown]
    tables.print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK


def _emptied(client: Luxi | Rapi, records: Iterable[cluster.Recorded]) -> dict[str, Emptied]:
    """Uuid -> how far its node is emptied; only of those that empty one.  Raises StewardError."""
    emptying = [
        one.incident
        for one in records
        if one.signature != cluster.NO_RECORD and empties(one.incident)
    ]
    if not emptying:
        return {}
    rows = client.rows("instance", ("pnode", "snodes", "admin_state"))
    homes = [
        Home((row["pnode"], *(row["snodes"] or ())), row["admin_state"] == "up") for row in rows
    ]
    return {one.uuid: emptied(one, homes) for one in emptying}


def _show(options: argparse.Namespace) -> int:
    client = cluster.live_client(options)
    record = cluster.record_named(_found(client, options), options.uuid)
    original = _original(options, record.incident)
    far = _emptied(client, [record]).get(record.incident.uuid)
    if options.json:
        shown = incident_json(record.incident, emptied=far) | {
            "original": diagnose_object(original),
            "signature": record.signature,
        }
        # What holds it is known to the running daemon only.
        del shown["held"]
        tables.print_json(shown)
    else:
        waits = cluster.daemon_waits().get(record.incident.uuid, ())
        lines = incident_lines(record.incident, original, record.signature, far, waits)
        tables.print_lines(lines)
    return EXIT_OK


def _found(client: Luxi | Rapi, options: argparse.Namespace) -> cluster.ClusterRecords:
    """Those that are recorded, and with --all those that were; raises StewardError."""
    found = cluster.read_incidents(client)
    tables.print_notes(found.faults)
    if not options.all:
        return found
    recorded = {one.incident.uuid for one in found.records}
    kept = read_kept(audit_path(options), INCIDENTS).items()
    before = [
        cluster.Recorded(read_record(text), cluster.NO_RECORD)
        for uuid, text in kept
        if uuid not in recorded
    ]
    return found._replace(records=(*before, *found.records))


def _original(options: argparse.Namespace, incident: Incident) -> bytes:
    """The diagnose object: all of it where the audit log has it."""
    if not incident.object:
        return incident.original
    try:
        objects = read_kept(audit_path(options), OBJECTS, incident.object)
    except StewardError:
        return incident.original
    return objects.get(incident.object, "").encode() or incident.original


def _not_ignored(client: Luxi | Rapi, word: str) -> Incident:
    """An incident that the daemon does not ignore, as far as is known here."""
    record = cluster.record_named(cluster.read_incidents(client), word)
    if record.ignored:
        raise StewardError(record.ignored)
    return record.incident


def _acknowledge(options: argparse.Namespace) -> int:
    client = cluster.live_client(options)
    incident = _not_ignored(client, options.uuid)
    if incident.acknowledged:
        print(f"Nothing to do: incident {incident.uuid} is acknowledged already.")
        return EXIT_OK
    if not incident.state.result:
        raise StewardError(
            f"incident {incident.uuid} is {incident.status}; only the tag of a completed or "
            f"failed one can be removed. To end it: gnt-steward incident cancel {incident.uuid}"
        )
    if not incident.tagged:
        raise StewardError(
            f"the tag {incident.tag} is not set on {incident.node_name} yet: the daemon sets it "
            "after the round in which the incident ended, when jobs of the node have ended (since "
            f"{local_time(incident.changed)}); gnt-steward maintd status says what holds it"
        )
    return cluster.run_tag_job(
        client,
        remove_tags("node", incident.node_name, [incident.tag]),
        f"incident ack {incident.uuid}",
        f"Removed {incident.tag} from {incident.node_name}.",
        submit=options.submit,
    )


def _cancel(options: argparse.Namespace) -> int:
    client = cluster.live_client(options)
    incident = _not_ignored(client, options.uuid)
    if incident.state.withdrawn:
        print(f"Nothing to do: incident {incident.uuid} is canceled already.")
        return EXIT_OK
    return cluster.run_tag_job(
        client,
        set_tags("node", incident.node_name, [incident.cancel_tag]),
        f"incident cancel {incident.uuid}",
        f"Set {incident.cancel_tag} on {incident.node_name}; the daemon's next round cancels it.",
        submit=options.submit,
    )


def _fence(options: argparse.Namespace) -> int:
    client = cluster.live_client(options)
    incident = _not_ignored(client, options.uuid)
    if incident.action not in (EVACUATE_FAILOVER, DEAD) or not incident.active:
        raise StewardError(
            f"incident {incident.uuid} ({incident.action}, {incident.status}) switches no node "
            f"off: only an active one with {EVACUATE_FAILOVER} or {DEAD} does"
        )
    return cluster.run_tag_job(
        client,
        set_tags("node", incident.node_name, [incident.fence_tag]),
        f"incident fence {incident.uuid}",
        f"Set {incident.fence_tag} on {incident.node_name}; once nothing else forbids it, the "
        "daemon has Ganeti's out-of-band program switch it off.",
        submit=options.submit,
    )


def _confirm(options: argparse.Namespace) -> int:
    """Sign it again; returns the exit status.  Raises StewardError."""
    client, key = open_luxid(source_options(options)), cluster.own_key()
    record = cluster.record_named(cluster.read_incidents(client), options.uuid)
    uuid = record.incident.uuid
    if record.signature == cluster.VALID:
        print(f"Nothing to do: the daemon uses the record of incident {uuid}.")
        return EXIT_OK
    try:
        incident = Store(client, lambda: key).confirm(uuid)
    except ValueError as err:
        raise StewardError(f"incident {uuid} cannot be confirmed: {err}") from None
    print(f"The record of incident {uuid} of {incident.node_name} is used from now on.")
    return EXIT_OK


def incident_lines(
    incident: Incident,
    original: bytes,
    signature: str,
    far: Emptied | None,
    waits: Iterable[str] = (),
) -> Iterator[str]:
    """Everything that is known of an incident.

    ``original``: its diagnose object; ``signature``: what is known of that of its record; ``far``:
    how far its node is emptied; ``waits``: what it waits for, a line each.
    """
    tag = "on the node" if incident.tagged else "not on the node"
    yield f"Incident {incident.uuid}"
    for name, text in (
        ("node", f"{incident.node_name} ({incident.node})"),
        ("action", incident.action),
        ("cause", cause_of(incident) or "-"),
        ("status", incident.state_name),
        ("note", incident.note),
        ("progress", progress(incident, far) or "-"),
        ("signature", signature),
        ("tag", f"{incident.tag} ({tag})"),
        ("first seen", local_time(incident.first_seen)),
        ("healthy since", local_time(incident.healthy_since)),
        ("status since", local_time(incident.changed)),
        ("last progress", local_time(incident.progressed)),
        ("jobs", ", ".join(map(str, incident.jobs)) or "-"),
    ):
        yield f"  {name + ':':15}{text}"
    for one in incident.open:
        yield f"  {'in progress:':15}{_submission(one)}"
    for line in waits:
        yield f"  {'waits:':15}{line}"
    for name, reason in incident.unmovable:
        yield f"  {'not moved:':15}{name}: {reason}"
    yield "  reported object:"
    for line in json.dumps(diagnose_object(original), indent=2).splitlines():
        yield f"    {line}"


def _submission(one: Submission) -> str:
    jobs = ", ".join(map(str, one.jobs))
    what = f"command {one.command}" if one.command else f"jobs {jobs}" if jobs else "no jobs yet"
    names = ", ".join((*one.nodes, *one.instances))
    refused = f"; refused: {one.refused}" if one.refused else ""
    return f"{one.step} since {local_time(one.at)} ({what}), uses {names}{refused}"
