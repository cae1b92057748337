"""An incident as lines for people."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ganeti_steward.core.maintenance.incident import Incident, Submission
from ganeti_steward.core.maintenance.world import diagnose_object
from ganeti_steward.core.units import local_time


def incident_lines(incident: Incident, original: bytes, signature: str) -> Iterator[str]:
    """Everything that is known of an incident.

    ``original``: its diagnose object; ``signature``: what is known of that of its record.
    """
    state = f"{incident.status}, acknowledged" if incident.acknowledged else incident.status
    tag = "on the node" if incident.tagged else "not on the node"
    yield f"Incident {incident.uuid}"
    for name, text in (
        ("node", f"{incident.node_name} ({incident.node})"),
        ("action", incident.action),
        ("status", state),
        ("note", incident.note),
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
