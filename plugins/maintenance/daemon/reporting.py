"""What is reported about each round: the status, the audit log, systemd."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.jobs.job_sets import steps
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import MOVES, Operation
from ganeti_steward.core.service.sd_notify import notify
from ganeti_steward.plugins.filters.actions.changes import Releases
from ganeti_steward.plugins.maintenance.daemon.figures import (
    Drawn,
    Moves,
    drawn,
    figures_of,
)
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.edges.audit import INCIDENTS, OBJECTS, Audit, KeptRow
from ganeti_steward.plugins.maintenance.edges.history import (
    LATEST,
    AuditEntry,
    ReportedStates,
    Trail,
)
from ganeti_steward.plugins.maintenance.edges.outlet import Outlet
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.maintenance.edges.status import Candidate, RoundLine, Status
from ganeti_steward.plugins.maintenance.engine.decision import Change
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.progress import Emptied, Home, emptied, empties
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held, Task
from ganeti_steward.plugins.model.world import Reported, World

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.standard_room import Room


def moves_under_way(before: Moves, outcome: Round) -> Moves:
    """The moves of jobs that have not ended, and in observe mode those that would be submitted.

    ``before``: those of the round before.

    The job queue does not say where a job moves its instance, so it is remembered from the round
    that submitted it.
    """
    if outcome.world is None:
        return before
    observed = outcome.decision.observed if outcome.decision else ()
    tasks = [*(one.task for one in outcome.started), *(one.task for one in outcome.routine)]
    moves = {**before, **_targets(outcome.world.cluster, [*tasks, *observed])}
    open_tasks = (task for incident in outcome.incidents.values() for task in incident.open)
    open_jobs = (job for job in outcome.world.routine if job.open)
    busy = {
        name
        for task in chain[Submission | RoutineJob | Task](open_tasks, open_jobs, tasks, observed)
        for name in task.instances
    }
    return {name: nodes for name, nodes in moves.items() if name in busy}


def _targets(cluster: Cluster, tasks: Iterable[Task]) -> Moves:
    jobs = [[one for one in job if _is_move(one, cluster)] for task in tasks for job in task.jobs]
    return {step.instance: step.after for step in steps(cluster, jobs)}


def _is_move(operation: Operation, cluster: Cluster) -> bool:
    """Whether it moves a known instance, and not to a node that an allocator has yet to find."""
    kind = operation["OP_ID"]
    if kind not in MOVES or operation["instance_name"] not in cluster.instance_index:
        return False
    return not MOVES[kind].copies or "remote_node" in operation


#: Rounds, and entries of the audit log, that the status shows.
_RECENT: Final = 20
KEPT: Final = LATEST

#: ns between two counts of the room for more instances.
_COUNT_EVERY: Final = 900 * 10**9

#: ns for which plugins are notified of a change that an earlier daemon may not have reported.
_RECENT_CHANGE: Final = 3600 * 10**9


class StatusReport:
    """Publishes the status after each round; what a failed round could not read stays shown."""

    def __init__(
        self,
        publish: Callable[[Status], None],
        poll: Callable[[], Poll],
        mode: Callable[[], str],
        problems: Callable[[], tuple[Held, ...]],
        history: Callable[[], tuple[AuditEntry, ...]],
        started: int,
        room: Callable[[World], tuple[Room, ...]],
        candidates: Callable[[World, Poll], tuple[Candidate, ...]] = lambda world, poll: (),
    ) -> None:
        """``problems``: what is held back in addition to what the round reports.

        ``history``: the latest entries of the audit log.

        ``started``: when the daemon started, ns since the epoch; ``room``: counts how many more
        instances fit; ``candidates``: compares the master candidates.
        """
        self._publish, self._poll, self._mode, self._problems = publish, poll, mode, problems
        self._history, self._room, self._candidates = history, room, candidates
        self._counted = -_COUNT_EVERY
        """when the room was counted, ns since the epoch"""
        self._steps: Counter[str] = Counter()
        self._moves: Moves = {}
        self._status = Status(started)
        self._picture = Outlet("how full the nodes are cannot be shown")
        self._counting = Outlet("how many more instances fit cannot be shown")
        self._comparing = Outlet("the master candidates cannot be compared")

    @property
    def problems(self) -> tuple[Held, ...]:
        """What hides nothing else: the picture of the nodes, the room, the candidates."""
        outlets = (self._picture, self._counting, self._comparing)
        return tuple(one for outlet in outlets for one in outlet.problems)

    def __call__(self, outcome: Round) -> None:
        """Publish the status after a round."""
        self._steps.update(started.task.step for started in outcome.started)
        self._steps.update(started.task.step for started in outcome.routine)
        status = self._status._replace(
            mode=self._mode(),
            poll=self._poll(),
            rounds=self._status.rounds + 1,
            round_ended=outcome.at + int(outcome.seconds * 10**9),
            round_seconds=outcome.seconds,
            round_fault=outcome.fault,
            undecided=outcome.undecided,
            started_tasks=dict(self._steps),
            recent=(*self._status.recent[1 - _RECENT :], self._line(outcome)),
            history=self._history(),
        )
        if outcome.world is not None:
            picture = self._picture(partial(self._drawn, outcome.world, outcome), Drawn())
            fits = self._fits(outcome)
            nothing: tuple[Candidate, ...] = ()
            compare = partial(self._candidates, outcome.world, status.poll)
            candidates = self._comparing(compare, nothing)
            status = status._replace(
                pause=pause_reason(outcome.world.cluster_tags),
                incidents=tuple(
                    sorted(outcome.incidents.values(), key=lambda one: (one.first_seen, one.uuid))
                ),
                emptied=self._emptied(outcome.world, outcome.incidents.values()),
                held=tuple(self._since(outcome.at, (*outcome.held, *self._problems()))),
                routine=outcome.world.routine,
                waiting=outcome.waiting,
                nodes={uuid: node.name for uuid, node in outcome.world.nodes.items()},
            )
            figures = figures_of(outcome.world, picture.scores, fits)
            status = status._replace(
                overview=picture.overview, figures=figures, candidates=candidates
            )
        self._status = status
        self._publish(status)

    def _since(self, now: int, found: Iterable[Held]) -> Iterator[Held]:
        """With since when each was held in all rounds, where who says it does not know better."""
        before = {(one.subject, one.brake): one.since for one in self._status.held}
        for one in found:
            since = one.since or before.get((one.subject, one.brake)) or now
            yield one._replace(since=since)

    def _emptied(self, world: World, incidents: Iterable[Incident]) -> Mapping[str, Emptied]:
        before = self._status.emptied
        homes = [Home(one.nodes, one.up) for one in world.cluster.instances]
        return {
            one.uuid: emptied(one, homes, before.get(one.uuid))
            for one in filter(empties, incidents)
        }

    def _line(self, outcome: Round) -> RoundLine:
        ended = outcome.at + int(outcome.seconds * 10**9)
        number, started = self._status.rounds + 1, len(outcome.started) + len(outcome.routine)
        return RoundLine(number, ended, outcome.seconds, started, len(outcome.held), outcome.fault)

    def _drawn(self, world: World, outcome: Round) -> Drawn:
        self._moves = moves_under_way(self._moves, outcome)
        return drawn(world, self._moves)

    def _fits(self, outcome: Round) -> tuple[Room, ...]:
        """Counted now and then only: it may take longer than the round."""
        if outcome.world is None or abs(outcome.at - self._counted) < _COUNT_EVERY:
            return self._status.figures.room
        self._counted = outcome.at
        return self._counting(partial(self._room, outcome.world), ())


class AuditReport:
    """Writes what happened to the audit log, and keeps the latest of it for the status."""

    def __init__(self, audit: Audit, before: Iterable[AuditEntry] = ()) -> None:
        """``before``: entries of an earlier daemon, the latest last."""
        self._audit, self._trail = audit, Trail()
        self._reported = ReportedStates(audit.states if audit.is_kept else None)
        self._latest = deque(before, maxlen=KEPT)
        self._before: Mapping[str, Incident] = {}
        """incidents after the last round whose vote was won"""
        self._changes: tuple[Change, ...] = ()

    def latest(self) -> tuple[AuditEntry, ...]:
        """The latest entries, the latest last."""
        return tuple(self._latest)

    def changes(self, outcome: Round) -> tuple[Change, ...]:
        """The changes of the round that was written last, with those that were not reported before.

        What an earlier daemon may have reported long ago is left out: after a master failover
        the log of this machine does not have it.
        """
        return *self._changes, *outcome.changes

    def __call__(self, outcome: Round) -> None:
        """Write the entries of a round."""
        self._changes = ()
        if outcome.decision is None or outcome.world is None:
            return
        done = outcome.decision._replace(
            changes=outcome.changes,
            started=outcome.started,
            routine=outcome.routine,
            releases=Releases(outcome.released),
            held=outcome.held,
        )
        now, incidents = outcome.world.now, outcome.world.incidents
        missing = [] if outcome.undecided else self._reported.missing(incidents, now)
        self._changes = tuple(self._missed(missing, incidents, now))
        entries = [*missing, *self._trail.entries(done, incidents, now)]
        self._reported.note(entries)
        if not outcome.undecided:
            self._before = outcome.incidents
        # A nanosecond apart, so that they are read in the order in which they happened.
        entries = [entry._replace(at=entry.at + at) for at, entry in enumerate(entries)]
        self._latest.extend(entries)
        self._audit.write(entries, _kept(self.changes(outcome), outcome.world))

    def _missed(
        self, entries: Iterable[AuditEntry], incidents: Mapping[str, Incident], now: int
    ) -> Iterator[Change]:
        """What was not reported, as changes for the plugins."""
        for entry in entries:
            before, after = self._before.get(entry.incident), incidents.get(entry.incident)
            recent = after is not None and now - after.changed < _RECENT_CHANGE
            if before is not None or recent:
                yield Change(before, after, entry.event, entry.reason)


def _kept(changes: Iterable[Change], world: World) -> Iterator[KeptRow]:
    """What the records have no more: incidents that were forgotten, and most of large objects."""
    for before, after, *_ in changes:
        if after is None and before is not None:
            yield KeptRow(INCIDENTS, before.uuid, world.now, write_record(before))
        report = world.observations.get(after.node) if after and after.object else None
        if isinstance(report, Reported):
            yield KeptRow(OBJECTS, report.object_id, world.now, report.original.decode())


def report_to_systemd(outcome: Round, problems: Iterable[Held] = ()) -> None:
    """One line for ``systemctl status``; ``problems``: of what does not report rounds."""
    if outcome.fault:
        notify(f"STATUS=the last round failed: {outcome.fault}")
        return
    if outcome.undecided:
        notify(f"STATUS=whether this node is the master is undecided: {outcome.undecided}")
        return
    active = sum(incident.active for incident in outcome.incidents.values())
    notify(
        f"STATUS={len(outcome.incidents)} incidents, {active} active; "
        f"{len(outcome.waiting)} jobs are waited for; {len(outcome.held)} things are held back"
        + "".join(f"; {one.sentence}" for one in problems)
    )
