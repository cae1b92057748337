"""How many incidents a node may have, and how soon another one: what nodes report is limited.

A node decides what it reports, and each incident takes room in Ganeti's configuration.  So it has
a few at most, gets further ones more and more slowly, and those that a person has dealt with are
moved to the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.world import Reported
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import severity
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger
from ganeti_steward.plugins.maintenance.engine.transitions import Event

_SECOND: Final = 10**9
_DAY: Final = 86400 * _SECOND
#: Incidents of a node that count; after so many the next one is more than a day away.
_COUNTED: Final = 32


def may_open(ledger: Ledger, node: Node, report: Reported) -> bool:
    """Whether a node gets an incident for what it reports; reported where it does not.

    Where the node has too many, those that need nothing more are moved to the audit log first.
    """
    left = _seconds_left(ledger, node, report)
    if left > 0:
        opened = len(_opened(ledger, node.uuid, report.status))
        sentence = (
            f"node {node.name} has reported {opened} objects with {report.status} within a day: "
            f"another one gets an incident in {left:.0f} s"
        )
        ledger.hold(node.name, "changing", sentence, opened=opened, left=int(left))
        return False
    if _has_room(ledger, node, report):
        return True
    known = sorted(one.uuid for one in _incidents(ledger, node))
    sentence = (
        f"node {node.name} has {len(known)} incidents, {', '.join(known)}, of at most "
        f"{ledger.config.most_incidents}: what it reports now ({report.status}) gets none before "
        "one of them is acknowledged or canceled"
    )
    ledger.hold(node.name, "incidents", sentence, limit=ledger.config.most_incidents)
    return False


def _seconds_left(ledger: Ledger, node: Node, report: Reported) -> float:
    """How long another incident of the action has to wait; 0 or less: not any more.

    The same object again, after its record was deleted or its failure acknowledged, is not the
    node's doing.
    """
    opened = _opened(ledger, node.uuid, report.status)
    if not opened or opened[-1][1] == report.object_id:
        return 0
    pause = ledger.config.incident_pause * 2.0 ** (len(opened) - 1)
    return pause - (ledger.now - opened[-1][0]) / _SECOND


def note_opened(ledger: Ledger, incident: Incident) -> None:
    """Note that an incident was opened; the same object again counts once."""
    before = _opened(ledger, incident.node, incident.action)
    if not before or before[-1][1] != incident.object_id:
        after = (*before, (ledger.now, incident.object_id))[-_COUNTED:]
        ledger.opened[_key(incident.node, incident.action)] = after


def of_last_day(ledger: Ledger) -> dict[str, tuple[tuple[int, str], ...]]:
    """When incidents were opened; after a restart only the records are left."""
    recorded: dict[str, list[tuple[int, str]]] = {}
    for one in ledger.incidents.values():
        known = recorded.setdefault(_key(one.node, one.action), [])
        known.append((one.first_seen, one.object_id))
    return {
        key: tuple(recent[-_COUNTED:])
        for key, times in sorted({**recorded, **ledger.inputs.recent.opened}.items())
        # What a clock that was set back has left does not count.
        if (recent := sorted(one for one in times if 0 <= ledger.now - one[0] < _DAY))
    }


def fold_old(ledger: Ledger) -> None:
    """Move incidents to the audit log that a person has dealt with, and that are long over."""
    for incident in ledger.all(lambda one: one.state.handled):
        elapsed = (ledger.now - incident.changed) / _SECOND
        if elapsed >= ledger.config.fold_after and _needs_nothing(ledger, incident):
            reason = f"it has been {incident.state_name} for {elapsed:.0f} s"
            ledger.happen(incident.uuid, Event.FOLDED, reason)


def _key(node: str, action: str) -> str:
    return f"{node} {action}"


def _opened(ledger: Ledger, node: str, action: str) -> tuple[tuple[int, str], ...]:
    return ledger.opened.get(_key(node, action), ())


def _incidents(ledger: Ledger, node: Node) -> list[Incident]:
    """Those of a node, the oldest first."""
    found = ledger.all(lambda one: one.node == node.uuid)
    return sorted(found, key=lambda one: (one.changed, one.uuid))


def _has_room(ledger: Ledger, node: Node, report: Reported) -> bool:
    """Whether the node may have one more incident; makes room for it."""
    most = ledger.config.most_incidents
    known = _incidents(ledger, node)
    for incident in known:
        if len(known) < most:
            break
        if _needs_nothing(ledger, incident):
            reason = f"node {node.name} reports something else and has {len(known)} incidents"
            ledger.happen(incident.uuid, Event.FOLDED, reason)
            known = _incidents(ledger, node)
    return len(known) < most or _is_worst(known, report)


def _is_worst(known: Iterable[Incident], report: Reported) -> bool:
    """Whether a report is more severe than all incidents of its node: it must not be missed."""
    return all(severity(one.action) < severity(report.status) for one in known)


def _needs_nothing(ledger: Ledger, incident: Incident) -> bool:
    """Whether the daemon has no use for its record: nothing was begun, or a person knows of it."""
    node = ledger.world.nodes.get(incident.node)
    if node is None or incident.open or {*node.tags} & {*incident.own_tags}:
        return False
    if incident.state.begun and not incident.state.handled:
        return False
    report = ledger.world.observations.get(incident.node)
    return not (isinstance(report, Reported) and report.object_id == incident.object_id)
