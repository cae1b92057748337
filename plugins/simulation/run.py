"""One simulation: the daemon's own rounds between what happens to the cluster.

A round is run when something has changed that it can see, or when a time has come that the
configuration or an incident sets; all other rounds would decide what the one before has decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Observer, Parts, Round
from ganeti_steward.plugins.maintenance.daemon.rounds import Rounds
from ganeti_steward.plugins.maintenance.daemon.wakeup import Signals, Wakeup
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.queue.short_jobs import CHECK_DISKS
from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner, PluginRoutine
from ganeti_steward.plugins.maintenance.runtime import Runtime
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.simulation.assumptions import DAY, SECOND, Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.daemon import MemoryStore, SimulatedQueue, next_deadline
from ganeti_steward.plugins.simulation.hardware import AILMENT, Failure, Hardware, drawn
from ganeti_steward.plugins.simulation.jobs import Row, SimulatedJobs
from ganeti_steward.plugins.simulation.operations import SimulatedOperations
from ganeti_steward.plugins.simulation.operator import Operator
from ganeti_steward.plugins.simulation.results import Levels, Measured, Results
from ganeti_steward.plugins.simulation.rolls import Rolls

#: s after which the daemon has seen that a job has ended.
SEEN_AFTER: Final = 2
#: s after which a check of disks has certainly ended.
_CHECKED: Final = 10
Progress = Callable[[float], None]


class Simulation:
    """A cluster, its hardware, its operator and the daemon."""

    def __init__(self, start: World, config: Config, assumed: Assumptions) -> None:
        """Raises PluginError."""
        self._begin, self._assumed = start.now, assumed
        self._settings = config.section(Maintd)
        self.schedule = schedule = Schedule(start.now)
        self.cluster = cluster = SimulatedCluster(start, self._clock)
        self.store = MemoryStore()
        self.measured = Measured(self._clock, cluster)
        operations = SimulatedOperations(cluster, assumed, self.measured.did)
        jobs = SimulatedJobs(schedule, operations, self._job_ended)
        self.hardware = Hardware(
            cluster, schedule, assumed, news=self._news, died=self._died, cut_off=self._cut_off
        )
        self.operator = Operator(
            cluster, jobs, self.store.incidents, self.hardware, schedule, assumed
        )
        self.queue = SimulatedQueue(cluster, self.store, schedule, jobs)
        self.rolls = Rolls(cluster, self.store, schedule, assumed, self._news)
        self.observers: list[Observer] = [self.measured.round, self._notice, self.rolls.notice]
        """called after each round"""
        self._wakeup = Wakeup()
        self._rounds = Rounds(self._parts(config), self._settings, Signals(self._wakeup))
        self._next_round: int | None = None

    def _parts(self, config: Config) -> Parts:
        return Parts(
            voting=lambda: Vote(Mastership.MASTER, "the simulated daemon is the only one"),
            store=self.store,
            queue=self.queue,
            read_world=self._world,
            agents=self.hardware,
            read_disks=self.queue.disks,
            planner=PluginPlanner(config),
            routine_planner=PluginRoutine(config),
            step=step,
            runtime=Runtime(clock=self._clock),
        )

    def _world(self, now: int, *, storage: bool) -> World:
        """With all figures, which no job has to find out here."""
        return self.cluster.world(now)

    def _clock(self) -> int:
        return self.schedule.now

    # Time

    def run(self, progress: Progress = lambda share: None) -> Results:
        """Run to the end; ``progress`` is called with the share that is done."""
        for failure in drawn(sorted(self.cluster.nodes), self._assumed):
            self.expect(failure)
        self.rolls.begin()
        end = self._begin + int(self._assumed.days * DAY)
        try:
            while (at := self._next()) is not None and at < end:
                self._happen(at)
                share = (at - self._begin) / (end - self._begin)
                self.measured.level(share, self._levels())
                progress(share)
        finally:
            self._wakeup.close()
        self.schedule.now = end
        repairs = [one for one in self.store.incidents.values() if not one.maintenance]
        left = Counter(one.status for one in repairs)
        rolls = self.rolls.results(self.hardware.reboots.total())
        return self.measured.results(self._assumed, left, rolls)

    def expect(self, failure: Failure) -> None:
        """Have a failure happen; called before the simulation runs."""
        self.schedule.after(failure.at, lambda: self.hardware.fail(failure))
        self._check_disks_before(failure.at)
        if failure.kind == AILMENT:
            self._check_disks_before(failure.at + failure.lasts)

    def _check_disks_before(self, at: int) -> None:
        """Have the last check of disks before a failure made; ``at``: ns after the start.

        All checks between two failures find the same.
        """
        settings = self._settings
        if CHECK_DISKS in settings.routine and settings.disk_check_interval:
            for seconds in (settings.disk_check_interval, settings.round_interval):
                interval = int(seconds * SECOND)
                last = (at - _CHECKED * SECOND) // interval * interval
                self.schedule.after(max(last, 0), lambda: self._wake(0))

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

    # The daemon

    def _round(self) -> None:
        """One round, unless nothing of the master answers."""
        if not any(
            node.master and self.cluster.answers(node.name) for node in self.cluster.nodes.values()
        ):
            self._wake(self._settings.round_interval)
            return
        outcome = self._rounds.round()
        for observer in self.observers:
            observer(outcome)
        if outcome.changes:
            self._wake(self._next_after(outcome))
        elif (at := next_deadline(outcome, self._settings, self.schedule.now)) is not None:
            self._wake((at - self.schedule.now) / SECOND)

    def _next_after(self, changed: Round) -> float:
        """s from a round that has changed an incident to the next one"""
        return 1

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

    @property
    def _seen_after(self) -> float:
        """s until the round after the end of a job has decided"""
        return SEEN_AFTER

    def _job_ended(self, job: Row) -> None:
        self.measured.ended(job)
        self._wake(self._seen_after)

    def _died(self, node: str) -> None:
        self.measured.died(node)
        self.operator.notice_silence(node)

    def _cut_off(self, node: str) -> None:
        self.measured.cut_offs += 1
        self.operator.notice_silence(node)

    # Results

    def _levels(self) -> Levels:
        """How many of each there are now."""
        cluster = self.cluster
        out = len(cluster.dead | cluster.out)
        return Levels(self.hardware.ill, self.measured.under_repair, out, cluster.down)
