"""Requests of planned maintenance: written as signed records, ended by tags of the node."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.tables import Value, print_notes
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import open_luxid
from ganeti_steward.plugins.maintenance.cli.cluster import (
    Recorded,
    own_key,
    read_incidents,
    run_tag_job,
)
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.debts import Debts, all_debts, debts_of
from ganeti_steward.plugins.model.incident import (
    MAINTENANCE_PAUSE_TAG,
    PAUSE_TAG,
    Incident,
    Maintenance,
)
from ganeti_steward.plugins.model.operations import set_tags
from ganeti_steward.plugins.model.progress import progress
from ganeti_steward.plugins.model.works import (
    BY_ADMIN,
    misses_deadline,
    requested,
    work_began,
)
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.model.cluster import Cluster, Node

#: Fields of the list of maintenances -> headings.
FIELDS: Final = {
    "uuid": "UUID",
    "node": "Node",
    "state": "State",
    "status": "Status",
    "choice": "Choice",
    "returns": "Returns",
    "full": "Full",
    "work": "Work",
    "before": "Before",
    "after": "After",
    "deadline": "Deadline",
    "minutes": "Minutes",
    "master_before": "MasterBefore",
    "master_after": "MasterAfter",
    "ran": "Instances",
    "requested": "Requested",
    "changed": "Changed",
    "signature": "Signature",
    "note": "Note",
    "waits": "Waits",
}
#: It has not begun and would end after its deadline.
LATE: Final = "late"
#: States that people have requested by a tag.
CANCELING: Final = "canceling"
PAUSED: Final = "paused"
PAUSES: Final = (PAUSE_TAG, MAINTENANCE_PAUSE_TAG)
USUAL: Final = ("node", "state", "requested", "changed", "waits")


#: No forecast was made.
NOTHING_EXPECTED: Final[Mapping[str, int]] = MappingProxyType({})


class RequestedMaintenance(NamedTuple):
    """A maintenance as its record has it."""

    incident: Incident
    request: Maintenance
    signature: str


def requests_of(client: Luxi | Rapi) -> list[RequestedMaintenance]:
    """All that are recorded, in the order in which nodes are taken; raises StewardError."""
    found = read_incidents(client)
    print_notes(found.faults)
    return [
        RequestedMaintenance(recorded.incident, recorded.incident.maintenance, recorded.signature)
        for recorded in found.records
        if recorded.incident.maintenance
    ]


def active_nodes(known: Sequence[RequestedMaintenance]) -> set[str]:
    """The uuids of the nodes with an active maintenance."""
    return {one.incident.node for one in known if one.incident.active}


def write_requests(
    options: argparse.Namespace,
    nodes: Sequence[Node],
    request: Maintenance,
    reason: str,
    expected: Mapping[str, int] = NOTHING_EXPECTED,
) -> list[Incident]:
    """Write a record for each of these nodes, which are taken in this order.

    ``reason``: why, in the admin's words; ``expected``: see `made`.  Raises StewardError; the
    records before it are written then.
    """
    client, key = open_luxid(source_options(options)), own_key()
    store = Store(client, lambda: key)
    store.read_all()
    incidents = made(nodes, request, reason, time.time_ns(), expected)
    for incident in incidents:
        store.write(incident)
    return incidents


def made(
    nodes: Sequence[Node],
    request: Maintenance,
    reason: str,
    now: int,
    expected: Mapping[str, int] = NOTHING_EXPECTED,
) -> list[Incident]:
    """An incident for each of these nodes, which are taken in this order; ``now``: ns.

    ``expected``: name of a node -> how long its maintenance takes, s.
    """
    if len(nodes) > 1:
        request = request._replace(roll=str(uuid4()), roll_nodes=len(nodes))
    return [
        requested(
            node,
            request._replace(expected=expected.get(node.name, 0)),
            now + number,
            str(uuid4()),
            reason,
        )
        for number, node in enumerate(nodes)
    ]


def wanted(options: argparse.Namespace, choice: str) -> Maintenance:
    """What the options of ``start``, ``roll`` or ``plan`` request of each node.

    ``choice``: what is done with instances that cannot migrate.
    """
    # Copies of two nodes that are away may have no place, those of one have.
    at_once = options.at_once or int(options.full)
    return Maintenance(
        choice,
        not options.no_return,
        work=getattr(options, "work", BY_ADMIN),
        at_once=at_once,
        full=options.full,
        tag=getattr(options, "remove_tag", None) or "",
        before=getattr(options, "before", None) or "",
        after=getattr(options, "after", None) or "",
        master_before=getattr(options, "master_before", None) or "",
        master_after=getattr(options, "master_after", None) or "",
        with_master=getattr(options, "with_master", False),
    )


def in_the_way(
    cluster: Cluster,
    names: Sequence[str],
    known: Sequence[RequestedMaintenance],
    *,
    with_master: bool,
) -> list[str]:
    """Why a request for these nodes is refused, a sentence each.

    ``with_master``: whether the maintenance of the master may be requested, which waits then.
    """
    active = active_nodes(known)
    nodes = [cluster.node(name) for name in names]
    faults = [f"{node.name} has an active maintenance" for node in nodes if node.uuid in active]
    faults += [f"{node.name} is offline" for node in nodes if node.offline]
    faults += [
        f"{node.name} is the master: first make another node the master (gnt-cluster "
        "master-failover there); with --with-master the maintenance waits for that"
        for node in nodes
        if node.master and not with_master
    ]
    return faults


def without_power(client: Luxi | Rapi, names: Sequence[str]) -> list[str]:
    """Why ``power`` cannot work on some of these nodes, a sentence each; raises StewardError."""
    programs = {row["name"]: row["ndparams"] for row in client.rows("node", ["name", "ndparams"])}
    return [
        f"{name} has no out-of-band program, which --work power needs "
        f"(gnt-node modify --node-parameters oob_program=PROGRAM {name})"
        for name in names
        if not (programs.get(name) or {}).get("oob_program")
    ]


def row_of(
    recorded: RequestedMaintenance, cluster: Cluster, now: int, waits: Sequence[str] = ()
) -> Mapping[str, Value]:
    """A maintenance for the list; ``now``: ns; ``waits``: what it waits for, a line each."""
    incident, request = recorded.incident, recorded.request
    return {
        "uuid": incident.uuid,
        "node": incident.node_name,
        "state": state_of(incident, request, cluster, now),
        "status": incident.status,
        "choice": request.choice,
        "returns": request.returns,
        "full": request.full,
        "work": request.work,
        "before": request.before or "-",
        "after": request.after or "-",
        "deadline": local_time(request.deadline),
        "minutes": f"{request.expected / 60:.1f}" if request.expected else "-",
        "master_before": request.master_before or "-",
        "master_after": request.master_after or "-",
        "ran": request.ran,
        "requested": local_time(incident.first_seen),
        "changed": local_time(incident.changed),
        "signature": recorded.signature,
        "note": incident.note,
        "waits": "; ".join(waits) or incident.note,
    }


def unfinished_rows(
    known: Sequence[RequestedMaintenance], cluster: Cluster
) -> list[Mapping[str, Value]]:
    """A row for each node of which something is to be undone and that has no active maintenance."""
    active = active_nodes(known)
    return [
        dict.fromkeys(FIELDS, "")
        | {
            "node": debts.node.name,
            "state": "unfinished",
            "ran": debts.instances,
            "note": f"{debts.sentence}; {debts.undone_by} undoes it",
        }
        for debts in all_debts(cluster)
        if debts.node.uuid not in active
    ]


def to_undo(known: Sequence[RequestedMaintenance], cluster: Cluster, word: str) -> Debts | None:
    """What is to be undone of a node, or of the node of a maintenance that is not active.

    None: nothing is, or its maintenance is active and undoes it at its end.
    """
    from ganeti_steward.allocators.state.names import named as nodes_named  # imports the engine

    names = set(nodes_named(cluster.nodes, word)) or {
        one.incident.node_name for one in known if word and one.incident.uuid.startswith(word)
    }
    active = active_nodes(known)
    found = [
        one for one in all_debts(cluster) if one.node.name in names and one.node.uuid not in active
    ]
    return found[0] if len(found) == 1 else None


def left_by(recorded: RequestedMaintenance, cluster: Cluster) -> Iterator[str]:
    """What stays as it is after a cancel, and how to undo it, a line each."""
    incident = recorded.incident
    node = cluster.nodes_by_uuid.get(incident.node)
    debts = node and debts_of(cluster, node)
    if doing := progress(incident):
        yield f"Its running jobs go on: {doing}."
    if debts:
        yield f"It stays as it is: {debts.sentence}."
        yield from (f"    {command}" for command in debts.commands)
    if debts or doing:
        yield f"gnt-steward maintenance done {incident.node_name} undoes all of it."


def undo(options: argparse.Namespace, debts: Debts) -> Incident:
    """Request that a node is taken back, and its instances with it; raises StewardError."""
    if options.rapi:
        raise StewardError(
            f"the maintenance of {debts.node.name} is not active: what it has left is undone by "
            f"{debts.undone_by} on the master"
        )
    request = Maintenance("refuse", worked=time.time_ns(), ran=debts.instances)
    drained = debts.node.drained and not debts.drained
    reason = f"undo what an earlier maintenance has left: {debts.sentence}"
    (incident,) = write_requests(options, [debts.node], request._replace(drained=drained), reason)
    return incident


def state_of(incident: Incident, request: Maintenance, cluster: Cluster, now: int) -> str:
    """How far it is, in one word; ``now``: ns.

    The tags of people apply as soon as they are set, before the daemon has read them.
    """
    if not incident.active:
        return "done" if incident.state.succeeded else incident.status
    node = cluster.nodes_by_uuid.get(incident.node)
    if node is None:
        return "requested"
    worked = request.worked or (incident.state.begun and incident.done_tag in node.tags)
    if incident.cancel_tag in node.tags:
        return CANCELING
    if work_began(incident) and not worked:
        return "working"
    if not (incident.state.begun or worked) and misses_deadline(request, now):
        return LATE
    if any(one.startswith(PAUSES) for one in (*cluster.tags, *node.tags)):
        return PAUSED
    if not incident.state.begun:
        return "requested"
    if worked:
        return "returning" if node.drained and not request.drained else "home"
    return "ready" if request.ready else "emptying"


def named(
    known: Sequence[RequestedMaintenance], cluster: Cluster, word: str
) -> RequestedMaintenance:
    """The maintenance of a node, or of the uuid that begins so; raises StewardError.

    Of several of one node it is the latest.
    """
    from ganeti_steward.allocators.state.names import named as nodes_named  # imports the engine

    names = nodes_named(cluster.nodes, word)
    found = [recorded for recorded in known if recorded.incident.node_name in names]
    found = found or [
        recorded for recorded in known if word and recorded.incident.uuid.startswith(word)
    ]
    if not found:
        raise StewardError(f"no maintenance of {word!a} is recorded")
    if len({recorded.incident.node for recorded in found}) > 1:
        raise StewardError(f"{len(found)} maintenances begin with {word!a}")
    return found[-1]


def set_word(
    client: Luxi | Rapi, recorded: RequestedMaintenance, word: str, *, submit: bool
) -> int:
    """Set the tag ``done`` or ``cancel`` of a maintenance; returns the exit status."""
    incident = recorded.incident
    if ignored := Recorded(incident, recorded.signature).ignored:
        raise StewardError(ignored)
    if not incident.active:
        ack = f" To end it: gnt-steward incident ack {incident.uuid}." if incident.tagged else ""
        print(f"Nothing to do: the maintenance of {incident.node_name} is not active.{ack}")
        return EXIT_OK
    if word == "done" and recorded.request.worked:
        print(f"Nothing to do: {incident.node_name} is being taken back.")
        return EXIT_OK
    if word == "done" and not incident.state.begun:
        raise StewardError(
            f"the maintenance of {incident.node_name} has not begun. To end it: gnt-steward "
            f"maintenance cancel {incident.node_name}"
        )
    tag = incident.done_tag if word == "done" else incident.cancel_tag
    return run_tag_job(
        client,
        set_tags("node", incident.node_name, [tag]),
        f"maintenance {word} {incident.node_name}",
        f"Set {tag} on {incident.node_name}.",
        submit=submit,
    )
