"""Requests of planned maintenance: written as signed records, ended by tags of the node."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.tables import Value, print_notes
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import open_luxid
from ganeti_steward.plugins.maintenance.cli.cluster import (
    IGNORED,
    own_key,
    read_incidents,
    run_tag_job,
)
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.operations import set_tags
from ganeti_steward.plugins.model.works import requested, work_began
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "ran": "Instances",
    "requested": "Requested",
    "changed": "Changed",
    "signature": "Signature",
    "note": "Note",
}
USUAL: Final = ("node", "state", "requested", "changed", "note")


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


def write_requests(
    options: argparse.Namespace, nodes: Sequence[Node], request: Maintenance, reason: str
) -> list[Incident]:
    """Write a record for each of these nodes, which are taken in this order.

    ``reason``: why, in the admin's words.  Raises StewardError; the records before it are written
    then.
    """
    client, key = open_luxid(source_options(options)), own_key()
    store = Store(client, lambda: key.key, counters=key.counters)
    store.read_all()
    now, written = time.time_ns(), []
    for number, node in enumerate(nodes):
        incident = requested(node, request, now + number, str(uuid4()), reason)
        store.write(incident)
        written.append(incident)
    return written


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
    active = {recorded.incident.node for recorded in known if recorded.incident.active}
    nodes = [cluster.node(name) for name in names]
    faults = [f"{node.name} has an active maintenance" for node in nodes if node.uuid in active]
    faults += [f"{node.name} is offline" for node in nodes if node.offline]
    faults += [
        f"{node.name} is the master: another node has to be the master first (gnt-cluster "
        "master-failover there); --with-master requests it, and it waits for that"
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


def row_of(recorded: RequestedMaintenance, cluster: Cluster) -> Mapping[str, Value]:
    """A maintenance for the list."""
    incident, request = recorded.incident, recorded.request
    return {
        "uuid": incident.uuid,
        "node": incident.node_name,
        "state": state_of(incident, request, cluster),
        "status": incident.status,
        "choice": request.choice,
        "returns": request.returns,
        "full": request.full,
        "work": request.work,
        "ran": request.ran,
        "requested": local_time(incident.first_seen),
        "changed": local_time(incident.changed),
        "signature": recorded.signature,
        "note": incident.note,
    }


def state_of(incident: Incident, request: Maintenance, cluster: Cluster) -> str:
    """How far it is, in one word."""
    if not incident.active:
        return "done" if incident.state.succeeded else incident.status
    node = cluster.nodes_by_uuid.get(incident.node)
    if not incident.state.begun or node is None:
        return "requested"
    if work_began(incident) and not request.worked:
        return "working"
    if request.worked:
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
    if recorded.signature == IGNORED:
        raise StewardError(f"the daemon ignores incident {incident.uuid}: it is not signed")
    if not incident.active:
        print(f"Nothing to do: the maintenance of {incident.node_name} is not active.")
        return EXIT_OK
    if word == "done" and not incident.state.begun:
        raise StewardError(f"the maintenance of {incident.node_name} has not begun")
    tag = incident.done_tag if word == "done" else incident.cancel_tag
    return run_tag_job(
        client,
        set_tags("node", incident.node_name, [tag]),
        f"maintenance {word} {incident.node_name}",
        f"Set {tag} on {incident.node_name}.",
        submit=submit,
    )
