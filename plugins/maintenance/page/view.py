"""From the status to what the page shows of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from ganeti_steward.core.maintenance.incident import BAD, Incident, Submission
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.task import Held
from ganeti_steward.core.maintenance.world import Observation, Reported
from ganeti_steward.plugins.maintenance.edges.history import Entry
from ganeti_steward.plugins.maintenance.edges.status import (
    Status,
    observation_word,
    reported_object,
)
from ganeti_steward.plugins.maintenance.page.values import (
    EndedJob,
    Event,
    GroupView,
    HeldView,
    IncidentView,
    NodeView,
    RoundView,
    View,
    Work,
    moment,
)

#: Entries of the history that are shown of an incident, and of everything.
_OF_INCIDENT: Final = 20
_OF_ALL: Final = 50

#: Nodes up to which all groups are open.
_UNFOLDED: Final = 60

#: What an observation means for the colour of its word.
_LOOKS: Final = {"healthy": "good", "ill": "bad", "silent": "warn", "refused": "warn"}


def view(status: Status, fault: str, now: int) -> View:
    """``fault``: see `View.fault`; ``now``: ns since the epoch."""
    incidents = status.incidents
    names = {one.uuid: f"{one.node_name}: {one.action}" for one in incidents or ()}
    nodes = {name: _node(name, uuid, status, now) for uuid, name in status.nodes.items()}
    observed = Counter((one.look, one.word) for one in nodes.values())
    groups = tuple(_groups(status, nodes))
    made = moment(now, now)
    return View(
        status=status,
        fault=fault,
        made=made.iso if made else "",
        round_ended=moment(status.round_ended, now),
        poll_ended=moment(status.poll.ended, now),
        started=moment(status.started, now),
        incidents=None
        if incidents is None
        else tuple(_incident(one, status, now) for one in sorted(incidents, key=_urgency)),
        work=(
            *(_work(task, one, now) for one in incidents or () for task in one.open),
            *(_routine(one, now) for one in status.routine if one.open),
        ),
        ended=tuple(
            EndedJob(moment(one.ended, now), one)
            for one in sorted(status.routine, key=lambda one: -one.number)
            if not one.open
        ),
        held=_held(status.held, names),
        groups=groups,
        observed=tuple((look, word, n) for (look, word), n in sorted(observed.items())),
        folded=len(nodes) > _UNFOLDED,
        planned=any(one.whole and one.whole.after for one in groups),
        rounds=tuple(RoundView(moment(one.ended, now), one) for one in reversed(status.recent)),
        history=_events(status.history[-_OF_ALL:], now),
    )


def _urgency(incident: Incident) -> tuple[bool, bool, int]:
    """Sorts what failed first, then what is active, each by age."""
    return incident.state.look != BAD, not incident.active, incident.first_seen


def _incident(one: Incident, status: Status, now: int) -> IncidentView:
    mine = [entry for entry in status.history if entry.incident == one.uuid]
    seen = status.poll.observations.get(one.node)
    return IncidentView(
        incident=one,
        look=one.state.look,
        seen=moment(one.first_seen, now),
        changed=moment(one.changed, now),
        progressed=moment(one.progressed, now),
        healthy=moment(one.healthy_since, now),
        reported=json.dumps(reported_object(one, seen), indent=2, ensure_ascii=False),
        work=tuple(_work(task, one, now) for task in one.open),
        held=tuple(status.held_for(one.uuid)),
        history=_events(mine[-_OF_INCIDENT:], now),
    )


def _events(entries: list[Entry] | tuple[Entry, ...], now: int) -> tuple[Event, ...]:
    return tuple(Event(moment(one.at, now), one) for one in reversed(entries))


def _work(task: Submission, incident: Incident, now: int) -> Work:
    jobs = ", ".join(map(str, task.jobs))
    what = f"command {task.command}" if task.command else f"jobs {jobs}" if jobs else "no jobs yet"
    uses = (*task.nodes, *task.instances)
    return Work(moment(task.at, now), incident.node_name, task.step, what, uses)


def _routine(one: RoutineJob, now: int) -> Work:
    subject = f"{one.plugin} {one.subject}".rstrip()
    uses = (*one.nodes, *one.instances)
    return Work(moment(one.submitted, now), subject, one.step, f"job {one.number}", uses)


def _held(held: tuple[Held, ...], names: dict[str, str]) -> tuple[HeldView, ...]:
    """``names``: uuid of an incident -> what to call it."""
    by_brake: dict[str, list[tuple[str, str]]] = {}
    for one in held:
        by_brake.setdefault(one.brake, []).append(
            (names.get(one.subject, one.subject), one.sentence)
        )
    return tuple(HeldView(brake, tuple(found)) for brake, found in by_brake.items())


def _groups(status: Status, nodes: dict[str, NodeView]) -> Iterator[GroupView]:
    if not status.overview and nodes:
        yield GroupView("", None, _sorted(nodes.values()))
    for group in status.overview:
        members = [(nodes.get(one.name), one) for one in group.nodes]
        yield GroupView(
            group.whole.name,
            group.whole,
            _sorted(node._replace(filled=one) for node, one in members if node is not None),
        )


def _sorted(nodes: Iterable[NodeView]) -> tuple[NodeView, ...]:
    return tuple(sorted(nodes, key=lambda node: (node.well, node.name)))


def _node(name: str, uuid: str, status: Status, now: int) -> NodeView:
    found = status.poll.observations.get(uuid)
    word = observation_word(found)
    detail, at = _observed(found)
    return NodeView(name, word, _LOOKS.get(word, ""), detail, moment(at, now), None)


def _observed(found: Observation | None) -> tuple[str, int]:
    """What a node reports, or why there is no report; and since when or when, ns."""
    if found is None:
        return "not polled yet", 0
    if isinstance(found, Reported):
        return found.status, found.at
    return found.why, found.since
