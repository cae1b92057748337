"""Applies what nodes report and what admins request by tags.

A node decides what it reports, and each incident takes room in Ganeti's configuration.  So it has
a few at most, gets further ones more and more slowly, and those that a person has dealt with are
moved to the audit log.
"""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import object_id, severity
from ganeti_steward.plugins.maintenance.engine.ends import queued_jobs
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.model.incident import (
    CANCEL_TAG,
    CLOSED_TAG,
    DEAD,
    DONE_TAG,
    FENCE_TAG,
    LEAVING,
    READY_TAG,
    STOPPED_TAG,
    Incident,
    action_severity,
)
from ganeti_steward.plugins.model.kept_object import kept_of
from ganeti_steward.plugins.model.task import TAG
from ganeti_steward.plugins.model.world import Reported

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
        until = ledger.now + int(left * _SECOND)
        ledger.hold(node.name, "changing", sentence, until=until, opened=opened, left=int(left))
        return False
    if _has_room(ledger, node, report):
        return True
    known = sorted(incident.uuid for incident in _incidents(ledger, node))
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
    for incident in ledger.incidents.values():
        known = recorded.setdefault(_key(incident.node, incident.action), [])
        known.append((incident.first_seen, incident.object_id))
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
    found = ledger.all(lambda incident: incident.node == node.uuid)
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
    if len(known) < most:
        return True
    # One that is more severe than all incidents of its node must not be missed.
    return all(action_severity(incident.action) < severity(report.status) for incident in known)


def _needs_nothing(ledger: Ledger, incident: Incident) -> bool:
    """Whether the daemon has no use for its record: nothing was begun, or a person knows of it."""
    node = ledger.world.nodes.get(incident.node)
    if node is None or incident.open or {*node.tags} & {*incident.own_tags}:
        return False
    if incident.state.begun and not incident.state.handled:
        return False
    report = ledger.world.observations.get(incident.node)
    return not (isinstance(report, Reported) and report.object_id == incident.object_id)


#: ns after which it is recorded again that disks are in sync.
_SYNCED_NEWS = 300 * _SECOND


def apply_clock(ledger: Ledger) -> None:
    """Replace moments that are still to come by now: the clock was set back.

    Otherwise the daemon holds or keeps an incident for as long as the clock was ahead.
    """
    now = ledger.now
    for one in ledger.all():
        healthy, silent = one.healthy_since, one.silent_since
        ledger.update(
            one._replace(
                observed_since=min(one.observed_since, now),
                healthy_since=None if healthy is None else min(healthy, now),
                silent_since=None if silent is None else min(silent, now),
                changed=min(one.changed, now),
                progressed=min(one.progressed, now),
            )
        )


def apply_left(ledger: Ledger) -> None:
    """Forget the incidents of nodes that have left the cluster."""
    for incident in ledger.all(lambda one: one.node not in ledger.world.nodes):
        ledger.cancels += queued_jobs(ledger, incident)
        ledger.happen(incident.uuid, Event.NODE_LEFT, f"node {incident.node_name} left the cluster")


def apply_tags(ledger: Ledger) -> None:
    """Apply cancels, and the removal of result tags; neither is held back by any brake."""
    for incident in ledger.all():
        node = ledger.world.nodes[incident.node]
        if incident.node_name != node.name:
            ledger.update(incident._replace(node_name=node.name))
        if incident.cancel_tag in node.tags:
            ledger.happen(incident.uuid, Event.CANCEL, f"tag {incident.cancel_tag} was set")
        else:
            _apply_result_tag(ledger, ledger.incidents[incident.uuid], node)
    for incident in ledger.all(lambda one: one.maintenance is not None):
        _apply_word(ledger, incident)
    for incident in ledger.all(lambda one: one.state.withdrawn):
        ledger.cancels += queued_jobs(ledger, incident)
    _report_unknown_tags(ledger)


def _apply_word(ledger: Ledger, incident: Incident) -> None:
    """Note that the work of a maintenance is over; forget one that is over itself."""
    tags = ledger.world.nodes[incident.node].tags
    request = incident.maintenance
    if request and incident.state.under_repair and incident.done_tag in tags:
        worked = request.worked or ledger.now
        ledger.update(incident._replace(maintenance=request._replace(worked=worked)))
    elapsed = (ledger.now - incident.changed) / _SECOND
    if (
        incident.state.handled
        and elapsed >= ledger.config.healthy_delay
        and not (incident.open or {*tags} & {*incident.own_tags})
    ):
        reason = f"the maintenance has been over for {elapsed:.0f} s"
        ledger.happen(incident.uuid, Event.FOLDED, reason)


def _apply_result_tag(ledger: Ledger, incident: Incident, node: Node) -> None:
    if not incident.state.result:
        return
    if incident.tag in node.tags:
        ledger.update(incident._replace(tagged=True))
        return
    before = ledger.inputs.world.incidents[incident.uuid]
    # A tag that was set in this very moment need not be among the node's tags yet.
    if before.tagged and not any(submission.step == TAG for submission in incident.open):
        _apply_removed_tag(ledger, incident, node)


def _apply_removed_tag(ledger: Ledger, incident: Incident, node: Node) -> None:
    """A failed incident whose fault is gone stays known until what it closed was opened."""
    removed, event = f"tag {incident.tag} was removed", Event.TAG_REMOVED
    if not incident.state.succeeded and incident.closed_tag in node.tags:
        report = ledger.world.observations.get(node.uuid)
        if not isinstance(report, Reported):
            sentence = (
                f"{removed}: whether the repair starts again or closed volumes are opened depends "
                f"on the next report of node {node.name} (without the tag {incident.closed_tag} "
                "it is forgotten)"
            )
            ledger.hold(incident.uuid, "silent", sentence)
            return
        if report.object_id != incident.object_id:
            event = Event.TAG_REMOVED_CLOSED
    ledger.happen(incident.uuid, event, removed)


def _report_unknown_tags(ledger: Ledger) -> None:
    known = {
        tag for incident in ledger.inputs.world.incidents.values() for tag in incident.own_tags
    }
    known |= {f"{STOPPED_TAG}{uuid}" for uuid in ledger.world.nodes}
    for node in ledger.world.cluster.nodes:
        for tag in sorted({*node.tags} - known):
            if tag.startswith((CANCEL_TAG, CLOSED_TAG, DONE_TAG, FENCE_TAG, STOPPED_TAG)):
                ledger.hold(node.name, "unknown", f"tag {tag} names no incident")
        _report_stale_word(ledger, node)


def _report_stale_word(ledger: Ledger, node: Node) -> None:
    """A confirmation that a node is off must not count when it is off the next time."""
    tag = f"{STOPPED_TAG}{node.uuid}"
    if tag in node.tags and not node.offline and ledger.world.answers(node.name):
        sentence = (
            f"tag {tag} says that no instance runs on {node.name}, which answers: gnt-node "
            f"remove-tags {node.name} {tag}"
        )
        ledger.hold(node.name, "stopped", sentence)


def apply_reports(ledger: Ledger) -> None:
    """Note new incidents, and which ones are reported no more; silence says neither."""
    ledger.opened = of_last_day(ledger)
    for uuid, node in sorted(ledger.world.nodes.items()):
        report = ledger.world.observations.get(uuid)
        if isinstance(report, Reported):
            _apply_report(ledger, node, report)
        else:
            _apply_silence(ledger, node)
    fold_old(ledger)


def _apply_silence(ledger: Ledger, node: Node) -> None:
    """Begin the healthy delay again: it is time in which the node was seen to be healthy."""
    for incident in ledger.all(lambda one: one.node == node.uuid and _is_reported(one)):
        if incident.healthy_since is not None and incident.silent_since is None:
            ledger.update(incident._replace(silent_since=ledger.now))


def _apply_report(ledger: Ledger, node: Node, report: Reported) -> None:
    known = False
    for incident in ledger.all(lambda one: one.node == node.uuid and _is_reported(one)):
        if incident.object_id == report.object_id:
            known = True
            seen(ledger, incident)
        else:
            not_seen(ledger, incident, f"node {incident.node_name} reports {report.status} instead")
    if report.needs_repair and not known and may_open(ledger, node, report):
        note = f"node {node.name} reports {report.status}"
        incident = new_incident(node, report.original, report.status, note, ledger.now)
        note_opened(ledger, incident)
        ledger.add(incident, note)


def new_incident(node: Node, original: bytes, action: str, note: str, now: int) -> Incident:
    """An incident that begins ``now`` (ns since the epoch); the other arguments: see `Incident`."""
    # Derived, not random: the same world gives the same decision.
    uuid = str(uuid5(NAMESPACE_URL, f"{node.uuid} {now} {original.decode()}"))
    kept = kept_of(original)
    return Incident(
        uuid,
        node.uuid,
        node.name,
        kept,
        action,
        tag=READY_TAG + uuid,
        first_seen=now,
        observed_since=now,
        changed=now,
        progressed=now,
        note=note,
        object="" if kept == original else object_id(original),
    )


def _is_reported(incident: Incident) -> bool:
    """Whether it is about what its node reports."""
    return not (incident.maintenance or incident.action == DEAD)


def seen(ledger: Ledger, incident: Incident) -> None:
    """What it is about is there."""
    if incident.healthy_since is not None:
        ledger.update(
            incident._replace(healthy_since=None, silent_since=None, observed_since=ledger.now)
        )


def not_seen(ledger: Ledger, incident: Incident, instead: str) -> None:
    """What it is about is not there; ``instead``: what is, in words."""
    if incident.healthy_since is None or incident.silent_since is not None:
        ledger.update(incident._replace(healthy_since=ledger.now, silent_since=None))
        incident = ledger.incidents[incident.uuid]
    since = incident.healthy_since if incident.healthy_since is not None else ledger.now
    elapsed = (ledger.now - since) / _SECOND
    node = ledger.world.nodes[incident.node]
    # It is known until these are gone: they would name nothing.
    tags = incident.own_tags if incident.state.withdrawn else (incident.closed_tag,)
    tagged = any(tag in node.tags for tag in tags)
    if elapsed >= ledger.config.healthy_delay and not (incident.open or tagged):
        event = Event.HEALTHY_UNDONE if _nothing_done(incident) else Event.HEALTHY
        ledger.happen(incident.uuid, event, f"{instead} for {elapsed:.0f} s")


def _nothing_done(incident: Incident) -> bool:
    """Whether its repair was begun without effect: a command that never arrived, say.

    It would wait for a report for ever, and keep other nodes from being repaired.
    """
    # Not its jobs: those that set and remove tags are no part of the repair.
    handed_over = incident.open or incident.attempts or incident.last_task or incident.off_at
    return incident.state.under_repair and not handed_over


def apply_answers(ledger: Ledger) -> None:
    """Note which nodes answer that are confirmed to be off: to remove the tags may take long.

    Ganeti does not connect to an offline node, but its agent may report.
    """
    for incident in ledger.all():
        node = ledger.world.nodes[incident.node]
        confirmed = any(tag in node.tags for tag in incident.stopped_tags)
        confirmed_at = (incident.confirmed_at or ledger.now) if confirmed else 0
        answers = not node.offline and ledger.world.answers(node.name)
        off = max(confirmed_at, incident.off_at)
        found = ledger.world.observations.get(incident.node)
        reports = isinstance(found, Reported) and found.at > off
        # A person who confirms it again knows of what was reported before.
        before = incident.reported and not (confirmed and not incident.confirmed_at)
        ledger.update(
            incident._replace(
                confirmed_at=confirmed_at,
                answered=confirmed and (answers or incident.answered),
                reported=off > 0 and (reports or before),
            )
        )


def apply_disks(ledger: Ledger) -> None:
    """Note when the copies of the disks of a node that is evacuated were in sync."""
    for incident in ledger.all(lambda one: one.active and one.action in LEAVING):
        before, found = dict(incident.synced), {}
        for instance in ledger.world.instances_on(ledger.world.nodes[incident.node].name):
            health, known = ledger.world.disks.get(instance.name), before.get(instance.name, 0)
            # Not in each round: the record is written again each time.
            news = health and health.in_sync and health.at - known > _SYNCED_NEWS
            if at := health.at if health and news else known:
                found[instance.name] = at
        ledger.update(incident._replace(synced=tuple(sorted(found.items()))))
