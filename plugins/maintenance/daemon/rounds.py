"""The only loop of the daemon: one round after another."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.daemon.carry_out import CarryOut
from ganeti_steward.plugins.maintenance.daemon.job_releases import Released, question_of
from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster
from ganeti_steward.plugins.maintenance.daemon.parts import Parts, Round
from ganeti_steward.plugins.maintenance.daemon.wakeup import DaemonStopped, Signals, Waiter
from ganeti_steward.plugins.maintenance.engine.brakes import may_begin
from ganeti_steward.plugins.maintenance.engine.decision import (
    CLUSTER,
    NOT_KNOWN,
    Inputs,
    Lasting,
    PluginPlan,
    Recent,
)
from ganeti_steward.plugins.maintenance.engine.ledger import with_commands
from ganeti_steward.plugins.maintenance.engine.planned_brakes import (
    handed_over_to,
    is_requested,
    wants_handover,
)
from ganeti_steward.plugins.maintenance.queue.transfers import late_jobs
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.progress import Transfer
from ganeti_steward.plugins.model.task import MASTER_FAILOVER, Held, RoutinePlan, Wait
from ganeti_steward.plugins.model.world import Reported, Succession
from ganeti_steward.plugins.texts import describe_fault

if TYPE_CHECKING:
    from ganeti_steward.plugins.maintenance.config import Maintd
    from ganeti_steward.plugins.maintenance.edges.judge import RecordFault
    from ganeti_steward.plugins.maintenance.edges.store import Records
    from ganeti_steward.plugins.maintenance.engine.decision import Decision
    from ganeti_steward.plugins.model.world import Observation, World


_log: Final = logging.getLogger(__name__)

#: How many records that are ignored, or were rewritten, a round reports one by one.
_MOST_NOTES: Final = 20


class Rounds:
    """Runs rounds until a signal ends it, all is over, or this node is no longer the master."""

    def __init__(self, parts: Parts, settings: Maintd, signals: Signals) -> None:
        self._parts, self._settings = parts, settings
        self._signals = signals
        self._since: Mapping[str, Lasting] = {}
        """of the last decision; what it forgets in a restart only makes routine work wait longer"""
        self._recent = Recent()
        """of the last decision, with the commands that were handed over after it"""
        self._undecided = ""
        """why the last vote at the beginning of a round was undecided; empty when it was won"""
        self._lost = ""
        """why this node is not the master any more; empty while it is"""
        self._successor = ""
        """the node that becomes the master, by a request of this daemon; empty: none does"""
        self._waiting = Waiter(signals, parts.alive, parts.runtime.monotonic)

    def run(self) -> None:
        """Run rounds; returns when a signal ends it or all is over, raises NotMaster."""
        while not self._signals.stopping:
            self._reload()
            self._parts.alive()
            outcome = self.round()
            self._parts.observers.round(outcome)
            if outcome.lost:
                raise NotMaster(outcome.lost)
            if self._parts.is_over(outcome):
                return
            self._wait(outcome)

    def _reload(self) -> None:
        if self._signals.reload_requested:
            self._signals.reload_requested = False
            self._settings = self._parts.reload() or self._settings

    # One round

    def round(self) -> Round:
        """Run one round; raises NotMaster, and Stopped where a signal ends it in time.

        Where the master is another node by the time of the submission, what was recorded before it
        is returned.
        """
        at, began = self._parts.runtime.clock(), self._parts.runtime.monotonic()
        try:
            outcome = self._round(at)
        except NotMaster:
            raise
        except Exception as err:
            outcome = Round(at, 0, fault=_failed(err))
        return outcome._replace(seconds=self._parts.runtime.monotonic() - began)

    def decide(
        self, *, may_query: bool = True, lasting: bool = False, rewrite: bool = False
    ) -> tuple[Inputs, Decision, tuple[Held, ...]]:
        """What a round would do now; also everything that is not done.

        ``may_query``: whether a job may be submitted that queries free space.  ``lasting``: whether
        what must last, for routine work and for instances that are down, is taken as having lasted:
        it is not known how long.
        ``rewrite``: whether records may be written again that need it; nothing else is changed.
        """
        inputs, records = self._inputs(may_query, rewrite)
        faults = records.faults
        self._parts.observers.step(inputs, self._settings)
        decision = self._step(inputs, faults)
        if lasting and (decision.since or decision.recent.down):
            since = {
                plugin: Lasting(dict.fromkeys(one.since, 0))
                for plugin, one in decision.since.items()
            }
            recent = inputs.recent._replace(down=dict.fromkeys(decision.recent.down, 0))
            decision = self._step(inputs._replace(since=since, recent=recent), faults)
        self._since, self._recent = decision.since, decision.recent
        return inputs, decision, (*_about_records(records), *decision.held)

    def _step(self, inputs: Inputs, faults: Sequence[RecordFault]) -> Decision:
        parts = self._parts
        return parts.step(inputs, self._settings, partial(self._plan, faults), self._plan_routine)

    def _round(self, at: int) -> Round:
        parts = self._parts
        with self._signals.interruptible():
            result = parts.voting()
            won = result.mastership is Mastership.MASTER
            self._note_vote("" if won else result.reason)
            writes = won and not self._successor
            inputs, decision, held = self.decide(may_query=writes, rewrite=writes)
        world = inputs.world
        outcome = Round(at, 0, world, decision, world.incidents, held=held)
        self._successor = _successor(inputs)
        if won and self._successor:
            # What this node writes now could overwrite what the new master writes.
            sentence = (
                f"nothing is submitted or recorded: {self._successor} was requested to become the "
                "master, and has not answered yet"
            )
            more = Held("cluster", "master", sentence)
            return _with_waiting(outcome._replace(held=(*outcome.held, more)))
        if not won:
            sentence = f"nothing is submitted or recorded: {result.reason}"
            more = Held("cluster", "master", sentence)
            held_jobs = self._release(inputs, world.incidents, result.reason)
            outcome = outcome._replace(undecided=result.reason, released=held_jobs.done)
            return _with_waiting(outcome._replace(held=(*outcome.held, *held_jobs.held, more)))
        carried = CarryOut(
            parts.store,
            parts.queue,
            parts.agents,
            self._vote,
            lambda: self._signals.stopping,
            parts.read_words,
        )
        fault, held_jobs = "", Released()
        # What was recorded is reported, whatever happens after it.
        try:
            carried.do(decision, world)
            # Jobs that are released now would be cut in half by a failover.
            if not any(one.task.step == MASTER_FAILOVER for one in carried.started):
                held_jobs = self._release(inputs, carried.incidents)
        except Exception as err:
            fault = _failed(err)
        self._recent = with_commands(self._recent, carried.started, carried.incidents, world.now)
        changes = tuple(
            change
            for change in decision.changes
            for incident in [change.after or change.before]
            if incident is not None and incident.uuid not in carried.unrecorded
        )
        return _with_waiting(
            outcome._replace(
                waiting=tuple(carried.routine_jobs),
                incidents=carried.incidents,
                changes=changes,
                started=tuple(carried.started),
                routine=tuple(carried.routine),
                released=held_jobs.done,
                fault=fault,
                lost=self._lost or held_jobs.lost,
                held=(*outcome.held, *carried.held, *held_jobs.held),
            )
        )

    def _release(
        self, inputs: Inputs, incidents: Mapping[str, Incident], undecided: str = ""
    ) -> Released:
        """Have something done about held jobs; what was done."""
        if self._parts.releasing is None:
            return Released()
        now, mode = self._parts.runtime.clock(), self._settings.mode
        return self._parts.releasing(question_of(inputs, incidents, now, mode, undecided))

    def _note_vote(self, undecided: str) -> None:
        """Log when a vote is undecided for another reason than the one before, and its end."""
        if undecided and undecided != self._undecided:
            _log.warning("whether this node is the master is undecided: %s", undecided)
        elif self._undecided and not undecided:
            _log.info("this node is the master again")
        self._undecided = undecided

    def _vote(self) -> Vote:
        """The vote before a submission; a signal need not wait for candidates that are down.

        A lost one ends the daemon after the round, whose outcome is reported before.
        """
        try:
            with self._signals.interruptible():
                return self._parts.voting()
        except DaemonStopped:
            return Vote(Mastership.UNDECIDED, "the daemon ends")
        except NotMaster as err:
            self._lost = str(err)
            return Vote(Mastership.NOT_MASTER, f"this node is not the master any more: {err}")

    def _inputs(self, may_query: bool, rewrite: bool) -> tuple[Inputs, Records]:
        """Everything the step depends on, and the records."""
        parts, settings = self._parts, self._settings
        records = parts.store.read_all(rewrite=rewrite)
        incidents, faults = records.incidents, records.faults
        submissions = list(_submissions(incidents))
        # Before the world: what a job that has succeeded did is seen there.
        jobs = parts.queue.states(incidents.values())
        looked_up = parts.queue.look_up(submissions)
        unrecorded = parts.queue.unrecorded(incidents.values())
        observations = {
            uuid: seen
            for uuid, seen in parts.agents.observations().items()
            if not _unreadable(faults, uuid)
        }
        # Also before the world.
        routine = parts.queue.routine(parts.runtime.clock(), wanted=bool(settings.routine))
        tagged = parts.queue.tagged_jobs() if settings.routine else {}
        storage = may_query and (bool(settings.routine) or _has_work(incidents, observations))
        world = parts.read_world(parts.runtime.clock(), storage=storage)
        parts.agents.watch(world.nodes)
        # It needs the addresses of the nodes, in the first round as well.
        results = parts.agents.results(incidents.values())
        world = world._replace(
            incidents=incidents,
            observations=observations,
            routine=routine.jobs,
            disks=routine.disks,
            orphans=unrecorded.orphans,
            tagged_jobs=tagged,
        )
        world = parts.read_watcher(world, unrecorded.last_job)
        if may_query:
            world = world._replace(disks={**world.disks, **parts.read_disks(world, jobs)})
        if may_query and settings.repair_storage:
            world = world._replace(storage=parts.read_storage(world))
        utc_offset = time.localtime(world.now / 10**9).tm_gmtoff
        inputs = Inputs(
            self._gated(self._succeeded(world, unrecorded.open), utc_offset, may_query=may_query),
            jobs,
            results,
            looked_up.found,
            looked_up.refused,
            looked_up.awaited,
            last_job=unrecorded.last_job,
            utc_offset=utc_offset,
            unreadable={fault.node: fault.text for fault in faults if fault.node},
            calls_known=unrecorded.known and routine.known,
            since=self._since,
            recent=self._recent,
            transfers=self._transfers(incidents.values(), jobs, world.now),
            only=parts.only,
        )
        return inputs, records

    def _transfers(
        self, incidents: Iterable[Incident], jobs: Mapping[int, JobState], now: int
    ) -> Mapping[int, Transfer]:
        """What jobs copy that may do so for too long; ``now``: ns since the epoch."""
        limit = int(self._settings.slow_migration_after * 10**9)
        slow = late_jobs(incidents, jobs, now - limit) if limit else []
        return self._parts.queue.transfers(slow) if slow else {}

    def _succeeded(self, world: World, jobs: tuple[int, ...]) -> World:
        """With what has to be known before another node is made the master; ``jobs``: all open."""
        if not wants_handover(world):
            return world
        return world._replace(succession=Succession(self._parts.current_candidates(), jobs))

    def _gated(self, world: World, utc_offset: int, *, may_query: bool) -> World:
        """With what speaks against a maintenance that was requested; ``utc_offset``: s.

        Disks are verified only where it would begin otherwise: the jobs wait for locks.
        """
        if not any(map(is_requested, world.incidents.values())):
            return world
        world = world._replace(gates=self._parts.gates(world))
        if self._parts.verify_disks is None:
            return world
        verifies = may_query and may_begin(world, self._settings, utc_offset, self._parts.only)
        return world._replace(unclean=self._parts.verify_disks(world) if verifies else None)

    def _plan(
        self, faults: Sequence[RecordFault], incident: Incident, world: World
    ) -> Sequence[PluginPlan]:
        """What the plugins plan; a fault of one incident is no fault of the others."""
        fault = _unreadable(faults, incident.node)
        if fault:
            return [PluginPlan("", Wait(f"nothing is done to the node: {fault}"))]
        try:
            return self._parts.planner(incident, world)
        except Exception as err:
            _log.exception("incident %s cannot be planned", incident.uuid)
            return [PluginPlan("", Wait(f"it cannot be planned: {describe_fault(err)}"))]

    def _plan_routine(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What a plugin of routine work plans; its fault is no fault of the others."""
        try:
            return self._parts.routine_planner(plugin, world)
        except Exception as err:
            _log.exception("the routine work of %s cannot be planned", plugin)
            return [Wait(f"it cannot be planned: {describe_fault(err)}")]

    # Between rounds

    def _wait(self, outcome: Round) -> None:
        # After a change the next round may have more to do at once; jobs of routine work may need
        # tags that name them.
        seconds = 0 if outcome.changes or outcome.routine else self._settings.round_interval
        ended = partial(self._any_ended, outcome.waiting) if outcome.waiting else None
        self._waiting.wait(seconds, ended)

    def _any_ended(self, numbers: Iterable[int]) -> bool:
        try:
            with self._signals.interruptible():
                return self._parts.queue.ended(numbers)
        except StewardError:
            # The next round reports it, after the interval.
            return False


def _failed(err: Exception) -> str:
    """Log why a round failed, and say it in one sentence."""
    if isinstance(err, StewardError):
        _log.error("round failed: %s", err)
    else:
        _log.exception("round failed")
    return describe_fault(err)


def _successor(inputs: Inputs) -> str:
    """The node that is becoming the master, as far as is known; empty where none is."""
    world, results = inputs.world, inputs.results
    over = {id_ for id_, result in results.items() if result.state != NOT_KNOWN}
    waiting = {
        uuid: incident._replace(open=tuple(one for one in incident.open if one.id not in over))
        for uuid, incident in world.incidents.items()
    }
    return handed_over_to(world._replace(incidents=waiting))


def open_jobs(incidents: Mapping[str, Incident]) -> set[int]:
    """Numbers of the jobs of open submissions."""
    return {number for submission in _submissions(incidents) for number in submission.jobs}


def _submissions(incidents: Mapping[str, Incident]) -> Iterator[Submission]:
    for incident in incidents.values():
        yield from incident.open


def _with_waiting(outcome: Round) -> Round:
    """With the jobs of repairs, and those of routine work or of no record that it has seen."""
    numbers = {*outcome.waiting, *open_jobs(outcome.incidents)}
    if outcome.world:
        numbers |= {job.number for job in outcome.world.routine if job.open}
        numbers |= {orphan.number for orphan in outcome.world.orphans if orphan.number}
    return outcome._replace(waiting=tuple(sorted(numbers)))


def _has_work(incidents: Mapping[str, Incident], observations: Mapping[str, Observation]) -> bool:
    """Whether new nodes for instances may have to be found."""
    ill = (isinstance(seen, Reported) and seen.needs_repair for seen in observations.values())
    return any(incident.active for incident in incidents.values()) or any(ill)


def _unreadable(faults: Sequence[RecordFault], node: str) -> str:
    """Why nothing may be done to a node (by uuid): a record that names it is unreadable."""
    return next((fault.text for fault in faults if fault.node == node), "")


def _about_records(records: Records) -> list[Held]:
    """What is wrong with records: everybody who may write rules can write any number of them."""
    shown = (*records.faults, *records.notes[:_MOST_NOTES])
    held = [Held(fault.uuid, "record", fault.text) for fault in shown]
    more = len(records.notes) - _MOST_NOTES
    if more > 0:
        held.append(Held(CLUSTER, "record", f"{more} more filter rules look like incidents"))
    return held
