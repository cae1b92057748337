"""From the status to what the page shows of it, in words; the template only arranges the values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Final, NamedTuple

from ganeti_steward.allocators.overview.amounts import KINDS, Filled, percent
from ganeti_steward.allocators.state.sizes import format_size
from ganeti_steward.core.errors import few
from ganeti_steward.core.version import VERSION
from ganeti_steward.plugins.maintenance.edges.history import CHANGE, LATEST, TASK, AuditEntry
from ganeti_steward.plugins.maintenance.edges.status import (
    RoundLine,
    Status,
    cause_of,
    observation_word,
    reported_object,
    wait_line,
)
from ganeti_steward.plugins.maintenance.page.trends import HOURS, Trend, trends
from ganeti_steward.plugins.maintenance.page.verdict import Verdict, degraded, failing, verdict
from ganeti_steward.plugins.model.cause import cause
from ganeti_steward.plugins.model.incident import BAD, WARN, Incident, Submission
from ganeti_steward.plugins.model.progress import RollProgress, progress, rolls
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Observation, Reported, diagnose_object
from ganeti_steward.plugins.texts import utc_time

_SECOND: Final = 10**9

#: Seconds from which on a unit is used, the unit in seconds, and its name.
_UNITS: Final = ((2 * 86400, 86400, "days"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


class TimeAndAge(NamedTuple):
    """A time, and how long ago it was when the page was made."""

    iso: str
    """UTC, to the second"""
    age: str
    """``5 min ago``"""


def duration(seconds: float) -> str:
    """``45 s``, ``5 min``, ``3 h``, ``2 days``; rounded down."""
    whole = max(int(seconds), 0)
    return next(f"{whole // unit} {name}" for least, unit, name in _UNITS if whole >= least)


def moment(at: int | None, now: int) -> TimeAndAge | None:
    """``at``, ``now``: ns since the epoch; None for no time."""
    if not at:
        return None
    return TimeAndAge(utc_time(at), f"{duration((now - at) // _SECOND)} ago")


class Work(NamedTuple):
    """A task that was submitted and has not ended."""

    since: int
    """ns since the epoch"""
    subject: str
    step: str
    what: str
    """its jobs or its command"""
    uses: tuple[str, ...]
    """nodes and instances"""


class IncidentView(NamedTuple):
    """An incident with everything about it."""

    incident: Incident
    look: str
    """``bad``, ``warn``, ``good`` or empty"""
    cause: str
    """what its node reports as broken; empty where nothing is known of that"""
    progress: str
    """how far it is; empty where nothing is under way"""
    reported: str
    """the reported object, as JSON in lines"""
    work: tuple[Work, ...]
    held: tuple[tuple[str, str], ...]
    """what holds it: a word and a line each"""
    history: tuple[AuditEntry, ...]
    """the latest first"""


class NodeView(NamedTuple):
    """A node: its last report, and how full it is."""

    name: str
    word: str
    look: str
    detail: str
    """what it reports, or why there is no report"""
    at: int
    """when, or since when, it shows that, ns since the epoch; 0: not polled yet"""
    filled: Filled | None

    @property
    def well(self) -> bool:
        """Whether there is nothing to look at."""
        return self.look == "good" and not (self.filled and self.filled.notes)


class GroupView(NamedTuple):
    """A node group; without figures all nodes are in one."""

    name: str
    whole: Filled | None
    nodes: tuple[NodeView, ...]
    """those to look at first"""

    @property
    def to_look_at(self) -> int:
        """Number of nodes that are not well."""
        return sum(not node.well for node in self.nodes)

    @property
    def summary(self) -> str:
        """The group in one line: its nodes and how full they are."""
        parts = [f"{len(self.nodes)} nodes"]
        if self.to_look_at:
            parts.append(f"{self.to_look_at} to look at")
        if self.whole:
            amounts = zip(KINDS, self.whole.now, strict=True)
            parts += [f"{kind} {percent(amount)}" for kind, amount in amounts]
        return ", ".join(parts)


class HeldView(NamedTuple):
    """Everything that one brake holds back."""

    brake: str
    sentences: tuple[tuple[str, str], ...]
    """what is held back, and the sentence"""


class RoundsView(NamedTuple):
    """One round, or several in a row that started nothing, did not fail and held back as much."""

    numbers: str
    """``17``, or ``17 to 36``"""
    seconds: float
    """of the longest"""
    last: RoundLine


class Tile(NamedTuple):
    """One figure of the first lines."""

    name: str
    value: str
    look: str = ""


class PageView(NamedTuple):
    """The whole page."""

    status: Status
    verdict: Verdict
    tiles: tuple[Tile, ...]
    """the cluster in figures"""
    trends: tuple[Trend, ...]
    """of the last day"""
    trends_since: int
    """when the entries begin that the trends count, where that is less than a day; else 0"""
    fault: str
    """why the daemon does not count as healthy; empty when it does"""
    now: int
    """when the page was made, ns since the epoch"""
    incidents: tuple[IncidentView, ...] | None
    """those with something to do or to look at first; None: not read yet"""
    rolls: tuple[str, ...]
    """how far each roll of planned maintenance is, a sentence each"""
    work: tuple[Work, ...]
    """of routine work; that of incidents is with them"""
    tasks: int
    """that are under way, those of incidents included"""
    ended: tuple[RoutineJob, ...]
    """jobs of routine work that ended within the last hour, the latest first"""
    held: tuple[HeldView, ...]
    """not what is held of an incident, which is with it; silent agents first"""
    held_elsewhere: int
    """what is held of incidents"""
    groups: tuple[GroupView, ...]
    observed: tuple[tuple[str, str, int], ...]
    """look, word and number of nodes"""
    folded: bool
    """whether groups without a node to look at are closed: there are many nodes"""
    planned: bool
    """whether the bars show something planned"""
    history: tuple[AuditEntry, ...]
    """the latest first, without what is with an incident"""
    rounds: tuple[RoundsView, ...]
    """the last ones, the latest first"""
    version: str = VERSION


#: Entries of the history that are shown of an incident, and of everything.
_OF_INCIDENT: Final = 20
_OF_ALL: Final = 50

#: ns between a task and the record of the change that it makes.
_SAME: Final = 60 * _SECOND

#: Scores, and sizes of instances, that are shown; there may be one of each group.
_SCORES: Final = 4

#: The brake of nodes without a valid report.
_SILENT: Final = "silent"

#: Nodes up to which all groups are open.
_UNFOLDED: Final = 60

#: What an observation means for the colour of its word.
_LOOKS: Final = {"healthy": "good", "ill": BAD, "silent": WARN, "refused": WARN}
_WORST: Final = (BAD, WARN, "", "good")


def view(status: Status, fault: str, now: int) -> PageView:
    """``fault``: see `PageView.fault`; ``now``: ns since the epoch."""
    incidents = status.incidents
    known = {incident.uuid for incident in incidents or ()}
    shown = tuple(_incident(one, status) for one in sorted(incidents or (), key=_urgency))
    work = tuple(_routine(job) for job in status.routine if job.open)
    nodes = {name: _node(name, uuid, status) for uuid, name in status.nodes.items()}
    observed = Counter((view.look, view.word) for view in nodes.values())
    groups = tuple(_groups(status, nodes))
    return PageView(
        status=status,
        verdict=verdict(status, fault),
        tiles=tuple(_tiles(status)),
        trends=tuple(trends(status.history, now)),
        trends_since=_begin(status.history, now),
        fault=fault,
        now=now,
        incidents=None if incidents is None else shown,
        rolls=tuple(_roll(one) for one in rolls(incidents or (), now)),
        work=work,
        tasks=sum(len(one.work) for one in shown) + len(work),
        ended=tuple(
            one for one in sorted(status.routine, key=lambda one: -one.number) if not one.open
        ),
        held=_held(tuple(one for one in status.held if one.subject not in known)),
        held_elsewhere=sum(one.subject in known for one in status.held),
        groups=groups,
        observed=tuple(
            (look, word, number)
            for (look, word), number in sorted(
                observed.items(), key=lambda one: (_WORST.index(one[0][0]), one[0])
            )
        ),
        folded=len(nodes) > _UNFOLDED,
        planned=any(view.whole and view.whole.after for view in groups),
        history=_latest((one for one in status.history if one.incident not in known), _OF_ALL),
        rounds=tuple(_rounds(status.recent)),
    )


def _begin(history: tuple[AuditEntry, ...], now: int) -> int:
    """When the first of the entries was made, where older ones of the day are not here; else 0."""
    is_cut = len(history) >= LATEST and now - history[0].at < HOURS * 3600 * _SECOND
    return history[0].at if is_cut else 0


def _tiles(status: Status) -> Iterator[Tile]:
    """Only figures that are known."""
    figures = status.figures
    if status.overview:
        lacking, down = failing(status), len(figures.down)
        yield Tile("Instances down", str(down), BAD if down else "")
        number = f"{len(lacking)} nodes fail" if len(lacking) > 1 else "1 node fails"
        yield Tile("N+1", number if lacking else "holds", WARN if lacking else "")
        yield Tile("Degraded disks", degraded(status), WARN if figures.degraded else "")
    several = len(figures.scores) > 1
    scores = [
        f"{name} {score:.2f}" if several else f"{score:.2f}" for name, score in figures.scores
    ]
    if scores:
        yield Tile("Score (smaller is better)", few(scores, _SCORES))
    for room in figures.room[:_SCORES]:
        name = f"Room for {format_size(room.memory, 'h')} instances"
        yield Tile(name, f"about {room.fits}" if room.fits else "none")


def _roll(roll: RollProgress) -> str:
    """Without the time where the records do not have it for all nodes that are left."""
    parts = [f"{roll.over} of {roll.nodes} nodes are over"]
    if roll.late:
        parts.append(f"{roll.late} would be late and will not begin")
    if roll.seconds is not None:
        parts.append(f"about {duration(roll.seconds)} of work left")
    return ", ".join(parts)


def _latest(entries: Iterable[AuditEntry], number: int) -> tuple[AuditEntry, ...]:
    """So many at most, the latest first; a task and the change that it makes are one."""
    found = tuple(entries)
    changes = {(one.incident, one.reason): one.at for one in found if one.kind == CHANGE}
    left = (
        one
        for one in reversed(found)
        if one.kind != TASK or abs(one.at - changes.get((one.incident, one.reason), 0)) > _SAME
    )
    return tuple(islice(left, number))


def _rounds(recent: Iterable[RoundLine]) -> Iterator[RoundsView]:
    """The latest first."""
    for _, alike in groupby(reversed(tuple(recent)), _outcome):
        lines = tuple(alike)
        first, last = lines[-1].number, lines[0].number
        numbers = str(last) if first == last else f"{first} to {last}"
        yield RoundsView(numbers, max(one.seconds for one in lines), lines[0])


def _outcome(line: RoundLine) -> tuple[int, int]:
    """Equal for rounds that make one row: the number of one that did something is its own."""
    return (line.number if line.started or line.fault else 0), line.held


def _urgency(incident: Incident) -> tuple[bool, bool, int]:
    """Sorts what failed first, then what is active, each by age."""
    return incident.state.look != BAD, not incident.active, incident.first_seen


def _incident(incident: Incident, status: Status) -> IncidentView:
    mine = tuple(entry for entry in status.history if entry.incident == incident.uuid)
    seen = status.poll.observations.get(incident.node)
    return IncidentView(
        incident=incident,
        look=incident.state.look,
        cause=cause_of(incident, seen),
        progress=progress(incident, status.emptied.get(incident.uuid)),
        reported=json.dumps(reported_object(incident, seen), indent=2, ensure_ascii=False),
        work=tuple(_work(task, incident) for task in incident.open),
        held=tuple((one.brake, wait_line(one)) for one in status.held_for(incident.uuid)),
        history=_latest(mine, _OF_INCIDENT),
    )


def _work(task: Submission, incident: Incident) -> Work:
    jobs = ", ".join(map(str, task.jobs))
    what = f"command {task.command}" if task.command else f"jobs {jobs}" if jobs else "no jobs yet"
    uses = (*task.nodes, *task.instances)
    return Work(task.at, incident.node_name, task.step, what, uses)


def _routine(job: RoutineJob) -> Work:
    subject = f"{job.plugin} {job.subject}".rstrip()
    uses = (*job.nodes, *job.instances)
    return Work(job.submitted, subject, job.step, f"job {job.number}", uses)


def _held(held: tuple[Held, ...]) -> tuple[HeldView, ...]:
    by_brake: dict[str, list[tuple[str, str]]] = {}
    for one in sorted(held, key=lambda one: one.brake != _SILENT):
        by_brake.setdefault(one.brake, []).append((one.subject, wait_line(one)))
    return tuple(HeldView(brake, tuple(found)) for brake, found in by_brake.items())


def _groups(status: Status, nodes: dict[str, NodeView]) -> Iterator[GroupView]:
    if not status.overview and nodes:
        yield GroupView("", None, _sorted(nodes.values()))
    for group in status.overview:
        members = [(nodes.get(filled.name), filled) for filled in group.nodes]
        yield GroupView(
            group.whole.name,
            group.whole,
            _sorted(node._replace(filled=filled) for node, filled in members if node is not None),
        )


def _sorted(nodes: Iterable[NodeView]) -> tuple[NodeView, ...]:
    return tuple(sorted(nodes, key=lambda node: (node.well, node.name)))


def _node(name: str, uuid: str, status: Status) -> NodeView:
    found = status.poll.observations.get(uuid)
    word = observation_word(found)
    detail, at = _observed(found)
    return NodeView(name, word, _LOOKS.get(word, ""), detail, at, None)


def _observed(found: Observation | None) -> tuple[str, int]:
    """What a node reports, or why there is no report; and since when or when, ns."""
    if found is None:
        return "not polled yet", 0
    if isinstance(found, Reported):
        what = cause(diagnose_object(found.original))
        return f"{found.status}: {what}" if what else found.status, found.at
    return found.why, found.since
