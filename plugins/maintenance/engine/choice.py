"""Which incident of each node is handled: the most severe, of equal ones the oldest."""

from __future__ import annotations

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import AFTERWARDS
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger


def chosen(ledger: Ledger) -> list[Incident]:
    """One active incident for each node that has any, most urgent first.

    An incident is left out, with its reason, while something of it or of another incident of the
    node has not ended.
    """
    first: dict[str, Incident] = {}
    for incident in ledger.all(lambda one: one.active):
        other = first.setdefault(incident.node, incident)
        if other.uuid != incident.uuid:
            ledger.hold(
                incident.uuid,
                "superseded",
                f"incident {other.uuid} of node {incident.node_name} ({other.action}) comes first",
            )
    return [incident for incident in first.values() if not _is_busy(ledger, incident)]


def _is_busy(ledger: Ledger, incident: Incident) -> bool:
    """Whether something of the node has not ended; reported."""
    running = [
        (one, submission)
        for one in ledger.all(lambda other: other.node == incident.node)
        for submission in one.open
        if submission.step not in AFTERWARDS
    ]
    for one, submission in running:
        jobs = ", ".join(map(str, submission.jobs))
        what = f"job {jobs}" if jobs else f"step {submission.step}"
        whose = "" if one.uuid == incident.uuid else f" of incident {one.uuid}"
        ledger.hold(incident.uuid, "running", f"{what}{whose} has not ended")
    return bool(running)
