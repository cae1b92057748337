"""One simulation: the daemon's own rounds between what happens to the cluster.

A round is run when something has changed that it can see, or when a time has come that the
configuration or an incident sets; all other rounds would decide what the one before has decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Observer, Round
from ganeti_steward.plugins.maintenance.daemon.rounds import Parts, Rounds
from ganeti_steward.plugins.maintenance.daemon.wakeup import Signals, Wakeup
from ganeti_steward.plugins.maintenance.edges.store import Records
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner
from ganeti_steward.plugins.maintenance.routine.planner import PluginRoutine
from ganeti_steward.plugins.maintenance.simulation.assumptions import DAY, SECOND, Assumptions
from ganeti_steward.plugins.maintenance.simulation.deadlines import next_deadline
from ganeti_steward.plugins.maintenance.simulation.failures import Failure, drawn
from ganeti_steward.plugins.maintenance.simulation.hardware import Hardware
from ganeti_steward.plugins.maintenance.simulation.job_queue import SimulatedQueue
from ganeti_steward.plugins.maintenance.simulation.measured import Levels, Measured
from ganeti_steward.plugins.maintenance.simulation.operator import Operator
from ganeti_steward.plugins.maintenance.simulation.results import Results, Spans, results
from ganeti_steward.plugins.maintenance.simulation.running_jobs import RunningJobs
from ganeti_steward.plugins.maintenance.simulation.schedule import Schedule
from ganeti_steward.plugins.maintenance.simulation.site import Site

#: s after which the daemon has seen that a job has ended.
_SEEN_AFTER: Final = 2
Progress = Callable[[float], None]


class Simulation:
    """A cluster, its hardware, its operator and the daemon."""

    def __init__(self, start: World, config: Config, assumed: Assumptions) -> None:
        """Raises PluginError."""
        self._begin, self._assumed = start.now, assumed
        self._settings = config.section(Maintd)
        self.schedule = schedule = Schedule(start.now)
        self.site = Site(start, self._clock)
        self.store = _MemoryStore()
        self.measured = Measured(self._clock)
        self.measured.job_ended = lambda: self._wake(_SEEN_AFTER)
        self.hardware = Hardware(self.site, schedule, assumed, news=self._news, died=self._died)
        self.operator = Operator(self.site, self.store.incidents, self.hardware, schedule, assumed)
        jobs = RunningJobs(self.site, schedule, self.measured, assumed)
        self.queue = SimulatedQueue(self.site, self.store, schedule, jobs)
        self.observers: list[Observer] = [self.measured.round, self._notice]
        """called after each round"""
        self._wakeup = Wakeup()
        self._rounds = Rounds(self._parts(config), self._settings, Signals(self._wakeup))
        self._next_round: int | None = None
        self._spans = Spans()

    def _parts(self, config: Config) -> Parts:
        return Parts(
            voting=lambda: Vote(Mastership.MASTER, "the simulated daemon is the only one"),
            store=self.store,
            queue=self.queue,
            read_world=self._world,
            agents=self.hardware,
            planner=PluginPlanner(config),
            routine_planner=PluginRoutine(config),
            step=step,
            clock=self._clock,
        )

    def _world(self, now: int, *, storage: bool) -> World:
        """With all figures, which no job has to find out here."""
        return self.site.world(now)

    def _clock(self) -> int:
        return self.schedule.now

    # Time

    def run(self, progress: Progress = lambda share: None) -> Results:
        """Run to the end; ``progress`` is called with the share that is done."""
        for failure in drawn(sorted(self.site.nodes), self._assumed):
            self.schedule.after(failure.at, self._failing(failure))
        end = self._begin + int(self._assumed.days * DAY)
        try:
            while (at := self._next()) is not None and at < end:
                self._happen(at)
                share = (at - self._begin) / (end - self._begin)
                self._spans.note(share, self._levels())
                progress(share)
        finally:
            self._wakeup.close()
        self.schedule.now = end
        return self._results()

    def _next(self) -> int | None:
        known = [at for at in (self.schedule.next, self._next_round) if at is not None]
        return min(known, default=None)

    def _happen(self, at: int) -> None:
        event = self.schedule.next
        if event is not None and event <= at:
            self.schedule.run()
        else:
            self.schedule.now, self._next_round = at, None
            self._round()

    def _failing(self, failure: Failure) -> Callable[[], None]:
        return lambda: self.hardware.fail(failure)

    # The daemon

    def _round(self) -> None:
        """One round, unless the master does not run."""
        if not any(node.master and self.site.alive(node.name) for node in self.site.nodes.values()):
            self._wake(self._settings.round_interval)
            return
        outcome = self._rounds.round()
        for observer in self.observers:
            observer(outcome)
        if outcome.changes:
            self._wake(1)
        elif (at := next_deadline(outcome, self._settings, self.schedule.now)) is not None:
            self._wake((at - self.schedule.now) / SECOND)

    def _notice(self, outcome: Round) -> None:
        self.operator.notice(outcome.incidents, outcome.held)

    def _wake(self, seconds: float) -> None:
        """Run a round at the latest then."""
        at = self.schedule.now + int(seconds * SECOND)
        self._next_round = at if self._next_round is None else min(at, self._next_round)

    def _news(self) -> None:
        """A report or a tag has changed: it is seen in the next poll, or the next round."""
        interval = int(self._settings.poll_interval * SECOND)
        self._wake((interval - (self.schedule.now - self._begin) % interval) / SECOND)

    def _died(self, node: str) -> None:
        instances = sum(one.primary == node and one.up for one in self.site.instances.values())
        self.measured.died(instances)
        self.operator.notice_death(node)

    # Results

    def _levels(self) -> Levels:
        """How many of each there are now."""
        site = self.site
        out = len(site.dead | site.out)
        return Levels(self.hardware.ill, self.measured.under_repair, out, site.down)

    def _results(self) -> Results:
        self.measured.hold(set())
        self.site.finish()
        return results(
            self._assumed,
            self.measured,
            self.site.downtime,
            (len(self.site.nodes), sum(one.up for one in self.site.instances.values())),
            Counter(one.status for one in self.store.incidents.values()),
            self._spans,
        )


class _MemoryStore:
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
