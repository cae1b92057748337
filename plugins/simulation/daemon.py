"""The parts of the daemon's loop that a simulation replaces, and when the next round has to be.

That is when it can decide something else although nothing has happened in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.edges.store import Records
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.queue.calls import TaskOutcome
from ganeti_steward.plugins.maintenance.queue.orphans import Unrecorded
from ganeti_steward.plugins.maintenance.queue.routine_jobs import RECENT, Seen, tagged_numbers
from ganeti_steward.plugins.maintenance.queue.short_jobs import CHECK_DISKS, read_check
from ganeti_steward.plugins.maintenance.queue.submit import HandedOver, LookedUp, noted
from ganeti_steward.plugins.maintenance.repairs.attempts import tried_again_at
from ganeti_steward.plugins.model.disks import LOST_CONNECTION, DiskHealth
from ganeti_steward.plugins.model.incident import DEAD, Incident, Submission
from ganeti_steward.plugins.model.progress import Transfer
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.windows import is_open, read_window
from ganeti_steward.plugins.model.world import OFF_LIMIT, World
from ganeti_steward.plugins.simulation.assumptions import SECOND
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.jobs import SimulatedJobs

#: ns after which routine work that waits is looked at again: a plugin has times of its own.
_ROUTINE: Final = 600 * SECOND
#: Every window opens within a week, counted from last midnight.
_DAYS: Final = 9
#: ns from the silence of a node until reports of its peers show whether DRBD is connected to it.
_LINKS_KNOWN: Final = 210 * SECOND


class MemoryStore:
    """The part `Store` of the daemon's loop."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}

    def read_all(self, *, rewrite: bool = False) -> Records:
        """All incidents."""
        return Records(dict(self.incidents))

    def write(self, incident: Incident) -> None:
        """Write one record."""
        self.incidents[incident.uuid] = incident

    def remove(self, uuid: str) -> None:
        """Remove one record."""
        self.incidents.pop(uuid, None)

    def reconcile(self, incidents: Mapping[str, Incident]) -> None:
        """No rule holds creations here."""


class SimulatedQueue:
    """The part `Queue` of the daemon's loop."""

    def __init__(
        self, cluster: SimulatedCluster, store: MemoryStore, schedule: Schedule, jobs: SimulatedJobs
    ) -> None:
        self._cluster, self._store, self._schedule, self._jobs = cluster, store, schedule, jobs
        self._routine: dict[int, RoutineJob] = {}
        """of jobs that have not ended, or not an hour ago, as the daemon knows them"""

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        """Take the jobs of all tasks, and record their numbers."""
        changed: dict[str, Incident] = {}
        for one in started:
            numbers = tuple(self._jobs.add(job) for job in one.task.jobs)
            before = changed.get(one.incident, incidents[one.incident])
            changed[one.incident] = noted(before, one.submission, numbers)
            self._store.write(changed[one.incident])
        own = {one.submission: TaskOutcome(tuple(self._add_routine(one))) for one in routine}
        self._jobs.advance()
        return HandedOver(changed, {}, own)

    def _add_routine(self, started: RoutineStarted) -> Iterator[int]:
        task = started.task
        nodes, instances = tuple(sorted(task.nodes)), tuple(sorted(task.instances))
        for job, copied in zip(task.jobs, started.copied, strict=True):
            number = self._jobs.add(job)
            self._routine[number] = RoutineJob(
                number,
                started.plugin,
                task.step,
                task.subject,
                nodes,
                instances,
                copied,
                self._schedule.now,
            )
            yield number

    def routine(self, now: int, *, wanted: bool) -> Seen:
        """The jobs of routine work: those that have not ended, and those of the last hour."""
        disks: dict[str, DiskHealth] = {}
        found = []
        for one in self._routine.values():
            state, ended = self._jobs.state(one.number), self._jobs.ended(one.number)
            job = one._replace(status=state.status, error=state.error, ended=ended)
            if not job.open and now - ended >= RECENT:
                continue
            found.append(job)
            if job.step == CHECK_DISKS and job.status == SUCCESS:
                disks |= read_check(state.results, job.submitted)
        self._routine = {one.number: one for one in found}
        return Seen(tuple(found), disks=disks)

    def tagged_jobs(self) -> Mapping[int, JobState]:
        """Number -> state of each job that a tag of an instance names."""
        numbers = tagged_numbers(t for one in self._cluster.instances.values() for t in one.tags)
        return {number: self._jobs.state(number) for number in numbers}

    def disks(self, world: World, jobs: Mapping[int, JobState]) -> Mapping[str, DiskHealth]:
        """Of nodes under maintenance: both copies are in sync while both nodes run."""
        nodes = {one.node_name for one in world.incidents.values() if one.maintenance}
        return {
            one.name: DiskHealth(world.now, self._disk_faults(one))
            for one in self._cluster.instances.values()
            if one.secondaries and not nodes.isdisjoint(one.nodes)
            if all(map(self._cluster.answers, one.nodes))
        }

    def _disk_faults(self, one: Instance) -> tuple[str, ...]:
        unconnected = one.name in self._cluster.unconnected
        return (f"disk 0 on {one.primary} {LOST_CONNECTION}",) if unconnected else ()

    def ended(self, numbers: Iterable[int]) -> bool:
        """Whether one of these jobs has ended."""
        return any(self._jobs.state(number).ended for number in numbers)

    def withdraw(self, submission: str, reason: str) -> None:
        """Each is handed over."""

    def look_up(self, submissions: Iterable[Submission]) -> LookedUp:
        """None is lost: the simulated daemon does not stop in between."""
        return LookedUp()

    def unrecorded(self, incidents: Iterable[Incident]) -> Unrecorded:
        """No record is lost either."""
        return Unrecorded()

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission."""
        numbers = {n for one in incidents for each in one.open for n in each.jobs}
        return {number: self._jobs.state(number) for number in sorted(numbers)}

    def transfers(self, numbers: Iterable[int]) -> Mapping[int, Transfer]:
        """Every simulated migration ends in time."""
        return {}

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started."""
        return {number: "canceled" for number in numbers if self._jobs.cancel(number)[0]}


def next_deadline(outcome: Round, settings: Maintd, now: int) -> int | None:
    """ns since the epoch, later than ``now``; None: not before something happens."""
    found = [
        at for one in outcome.incidents.values() for at in _of_incident(one, settings) if at > now
    ]
    # What has seconds left is decided again after them.
    lefts = [value for one in outcome.held for name, value in one.values if name == "left"]
    found += [now + _ns(left + 1) for left in lefts if isinstance(left, int)]
    found += [one.until for one in outcome.held if one.until > now]
    if any(one.brake == "window" for one in outcome.held):
        found.append(opening(settings.windows, now, time.localtime(now / SECOND).tm_gmtoff))
    # Disks are checked before something happens: `Simulation` wakes the daemon for it.
    if outcome.decision and {*outcome.decision.since} - {CHECK_DISKS}:
        found.append(now + _ROUTINE)
    if outcome.fault:
        found.append(now + int(settings.round_interval * SECOND))
    return min(found, default=None)


def _of_incident(one: Incident, settings: Maintd) -> Iterator[int]:
    """Times at which the step compares an incident with a setting."""
    yield one.retry_at
    if one.healthy_since is not None:
        yield one.healthy_since + _ns(settings.healthy_delay)
    if not one.state.begun:
        yield one.observed_since + _ns(settings.hold_time)
    if one.state.handled:
        yield one.changed + _ns(settings.fold_after)
    if one.maintenance:
        begun, silent = one.maintenance.begun, one.silent_since
        yield from (at + _ns(settings.return_limit) + SECOND for at in (begun, silent) if at)
        if one.maintenance.blocked:
            yield one.maintenance.blocked + _ns(settings.blocked_limit)
    if one.active:
        if one.action == DEAD:
            yield one.observed_since + _LINKS_KNOWN
        if one.off_at:
            yield one.off_at + OFF_LIMIT + SECOND
        yield from (tried_again_at(attempt, settings) for attempt in one.attempts)
        # The alarm is raised when more time than that has passed.
        yield one.progressed + _ns(settings.stuck_after) + SECOND


def _ns(seconds: float) -> int:
    return int(seconds * SECOND)


def opening(windows: Sequence[str], now: int, utc_offset: int) -> int:
    """When the next of the windows opens, ns since the epoch; ``utc_offset``: s."""
    local = datetime.fromtimestamp(now // SECOND, UTC) + timedelta(seconds=utc_offset)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    starts = [found.start for text in windows if (found := read_window(text))]
    opened = min(
        at
        for day in range(_DAYS)
        for start in starts
        for at in [midnight + timedelta(days=day, minutes=start)]
        if at > local.replace(tzinfo=None) and is_open(windows, at)
    )
    return int((opened.replace(tzinfo=UTC).timestamp() - utc_offset) * SECOND)
