"""Carries out a decision: the record first, then what it announces, then the job numbers.

After a crash between any two of these the next round finds in the queue what was submitted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import StewardError, few
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.plugins.maintenance.confd.choice import Mastership
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon import words
from ganeti_steward.plugins.maintenance.edges.commands import (
    RepairRunner,
    agent_calls,
    commands_of,
)
from ganeti_steward.plugins.maintenance.edges.poll import Poll, Poller, Target, agent_reports
from ganeti_steward.plugins.maintenance.engine.decision import CLUSTER, CommandResult
from ganeti_steward.plugins.maintenance.queue.submit import without
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import MASTER_FAILOVER, Held
from ganeti_steward.plugins.model.works import command_object, master_object, runs_on
from ganeti_steward.plugins.model.world import Observation, Reported
from ganeti_steward.plugins.texts import describe_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ganeti_steward.plugins.maintenance.confd.choice import Vote
    from ganeti_steward.plugins.maintenance.daemon.parts import Agents, Queue, RecordStore
    from ganeti_steward.plugins.maintenance.engine.decision import (
        Decision,
        RoutineStarted,
        Started,
    )
    from ganeti_steward.plugins.maintenance.queue.calls import TaskOutcome
    from ganeti_steward.plugins.model.world import World


class NodeAgents:
    """All agents of the cluster; the settings may change while commands run."""

    def __init__(
        self, settings: Maintd, wake: Callable[[], None], *, runs_commands: bool = True
    ) -> None:
        """``wake`` is called by other threads when there is news.

        ``runs_commands``: False where another process has started those that run.
        """
        self._wake, self._runs_commands = wake, runs_commands
        self._targets: tuple[Target, ...] = ()
        self._runner = RepairRunner(lambda: agent_calls(self._settings, self._key), wake)
        self._settings = settings
        self._key = KeyFile(settings.key_file, DiskTimeout())
        self._poller = self._new_poller(Poll())

    def _new_poller(self, known: Poll) -> Poller:
        settings = self._settings
        fetch = agent_reports(settings, self._key)
        return Poller(fetch, settings.poll_interval, self._wake, targets=self._targets, known=known)

    def key(self) -> bytes:
        """The cluster's key; raises NoKey."""
        return self._key.key()

    def start_polling(self) -> None:
        """Begin to poll in a thread of its own."""
        self._poller.start()

    def poll_once(self) -> None:
        """Poll all agents now, without a thread that goes on."""
        self._poller.poll()

    def configure(self, settings: Maintd) -> None:
        """Use other settings from now on; what is known stays."""
        self._poller.stop()
        self._settings = settings
        if settings.key_file != self._key.path:
            self._key = KeyFile(settings.key_file, DiskTimeout())
        self._poller = self._new_poller(self._poller.latest)
        self._poller.start()

    def stop(self) -> None:
        """End polling within a moment."""
        self._poller.stop()

    @property
    def latest(self) -> Poll:
        """What all polls until now have shown."""
        return self._poller.latest

    def watch(self, nodes: Mapping[str, Node]) -> None:
        """Poll the agents of these nodes (by uuid), offline ones included, and no others."""
        self._targets = tuple(map(_target, nodes.values()))
        self._poller.set_targets(self._targets)

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> the last observation."""
        return self._poller.latest.observations

    def start(self, node: Node, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run; returns at once."""
        self._runner.start(submission, _target(node), command, original)

    def take_over(self, node: Node, submission: str, wanted: bytes) -> None:
        """Have a node made the master by its agent; returns at once."""
        target = _target(node)
        self._runner.start(submission, target, MASTER_FAILOVER, wanted, takes_over=True)

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        """Submission id -> what is known, of open submissions whose command is not running.

        Nodes are known from the first `watch` on.
        """
        if not (self._runs_commands and self._targets):
            return {}
        return self._runner.results(commands_of(incidents, self._targets))


def _target(node: Node) -> Target:
    return Target(node.uuid, node.name, node.primary_ip)


#: Numbers of jobs that a sentence names.
_SHOWN: Final = 5

_log: Final = logging.getLogger(__name__)


class CarryOut:
    """One decision while it is carried out."""

    def __init__(
        self,
        store: RecordStore,
        queue: Queue,
        agents: Agents,
        voting: Callable[[], Vote],
        stopping: Callable[[], bool],
        read_words: Callable[[World], World],
    ) -> None:
        """``voting``: the vote before a submission; raises nothing.

        ``stopping``: whether the daemon is to end; nothing new is begun then.  ``read_words``: the
        world with the tags of now; raises StewardError."""
        self._store, self._queue, self._agents = store, queue, agents
        self._voting, self._stopping, self._read_words = voting, stopping, read_words
        self._deposed = False
        """whether this node is not the master any more: nothing is recorded"""
        self.held: list[Held] = []
        self.started: list[Started] = []
        """the tasks of repairs that were handed over"""
        self.routine: list[RoutineStarted] = []
        """the tasks of routine work that were handed over"""
        self.routine_jobs: list[int] = []
        """numbers of their jobs"""
        self.incidents: dict[str, Incident] = {}
        """as they are recorded by now"""
        self.unrecorded: set[str] = set()
        """uuids of incidents whose change could not be recorded"""

    def do(self, decision: Decision, world: World) -> None:
        """Do what was decided; a fault of one incident is held and does not stop the others."""
        self.incidents = dict(world.incidents)
        # Those that end first: killed in between, it leaves no more nodes under repair than may be.
        ends = [one for one in decision.records if not one.state.under_repair]
        begins = [one for one in decision.records if one.state.under_repair]
        for incident in ends:
            self._write(incident)
        for uuid in decision.removed:
            self._remove(uuid)
        for incident in begins:
            self._write(incident)
        if not self._stopping():
            with self._part(CLUSTER, "record", "rules that hold creations could not be changed"):
                self._store.reconcile(self.incidents)
        for number, answer in self._queue.cancel(decision.cancels).items():
            _log.info("cancel job=%d %s", number, answer)
        started = [one for one in decision.started if one.incident not in self.unrecorded]
        self._start(started, decision.routine, world)

    def _write(self, incident: Incident) -> bool:
        if self._stopping():
            self.unrecorded.add(incident.uuid)
            return False
        with self._part(incident.uuid, "record", "its record could not be written") as part:
            self._store.write(incident)
            self.incidents[incident.uuid] = incident
        if part.failed:
            self.unrecorded.add(incident.uuid)
        return not part.failed

    def _remove(self, uuid: str) -> None:
        with self._part(uuid, "record", "its record could not be removed") as part:
            self._store.remove(uuid)
            self.incidents.pop(uuid, None)
        if part.failed:
            self.unrecorded.add(uuid)

    def _start(
        self, started: Sequence[Started], routine: Sequence[RoutineStarted], world: World
    ) -> None:
        """Hand tasks over; the records of repairs hold the intents already."""
        reason = self._not_now() if started or routine else ""
        if reason:
            for one in started:
                self._withdraw(one, "master", reason)
            self.held += [_held_routine(each, "master", reason) for each in routine]
            return
        started, routine = self._wanted(started, routine, world)
        jobs = [one for one in started if not one.task.command]
        if jobs or routine:
            self._submit(jobs, routine)
        for one in started:
            if one.task.command:
                with self._part(one.incident, "submit", f"step {one.task.step}"):
                    self._run(one, world)

    def _wanted(
        self, started: Sequence[Started], routine: Sequence[RoutineStarted], world: World
    ) -> tuple[list[Started], list[RoutineStarted]]:
        """Those tasks that people have not held back since the cluster was read."""
        if not (started or routine):
            return [], []
        try:
            now = self._read_words(world)
        except StewardError as err:
            reason = f"the tags cannot be read again: {err}"
            for one in started:
                self._withdraw(one, "submit", reason)
            self.held += [_held_routine(each, "submit", reason) for each in routine]
            return [], []
        repairs, work = [], []
        for one in started:
            held = words.against_repair(now, self.incidents[one.incident], one.task)
            if held:
                self._withdraw(one, held[0].brake, "; ".join(each.sentence for each in held))
            else:
                repairs.append(one)
        for each in routine:
            if held := words.against_routine(now, each):
                self.held += held
            else:
                work.append(each)
        return repairs, work

    def _not_now(self) -> str:
        """Why nothing may be submitted; empty when it may."""
        if self._stopping():
            return "the daemon ends"
        result = self._voting()
        if result.mastership is Mastership.MASTER:
            return ""
        if result.mastership is Mastership.NOT_MASTER:
            self._deposed = True
            return result.reason
        return f"whether this node is the master is undecided: {result.reason}"

    def _submit(self, started: Sequence[Started], routine: Sequence[RoutineStarted]) -> None:
        done = self._queue.submit(started, self.incidents, routine)
        self.incidents |= done.incidents
        for one in started:
            fault = done.unknown.get(one.submission) or done.withdrawn.get(one.submission)
            if fault:
                self.held.append(Held(one.incident, "submit", f"{one.task.reason}: {fault}"))
                continue
            self.started.append(one)
            known = self.incidents[one.incident].open
            jobs = next(each.jobs for each in known if each.id == one.submission)
            numbers = ",".join(map(str, jobs)) or "-"
            _log.info("incident=%s task=%s jobs=%s", one.incident, one.task.step, numbers)
        for each in routine:
            self._routine_submitted(each, done.routine[each.submission])

    def _routine_submitted(self, one: RoutineStarted, outcome: TaskOutcome) -> None:
        fault = outcome.unknown or outcome.withdrawn or outcome.refused
        if fault:
            self.held.append(Held(one.name, "submit", f"{one.task.reason}: {fault}"))
        if outcome.numbers:
            self.routine.append(one)
            self.routine_jobs += outcome.numbers
            numbers = ",".join(map(str, outcome.numbers))
            subject = one.task.subject or CLUSTER
            _log.info(
                "routine=%s subject=%s task=%s jobs=%s", one.plugin, subject, one.task.step, numbers
            )

    def _run(self, one: Started, world: World) -> None:
        incident, command = self.incidents[one.incident], one.task.command
        if one.task.step == MASTER_FAILOVER:
            self._hand_over(one, incident, world)
            return
        agent = one.task.agent
        node = world.cluster.node(agent) if agent else world.nodes[incident.node]
        found = world.observations.get(incident.node)
        # The agent gets all of the object, of which the record may have a part.
        original = found.original if isinstance(found, Reported) else incident.original
        if incident.maintenance:
            original = command_object(incident, command, one.task.step)
        self._agents.start(node, one.submission, command, original)
        self.started.append(one)

    def _hand_over(self, one: Started, incident: Incident, world: World) -> None:
        """Request that another node becomes the master, unless jobs have come since the reading."""
        node = world.nodes[incident.node]
        submission = next(each for each in incident.open if each.id == one.submission)
        candidate = world.node(runs_on(incident, submission))
        try:
            jobs = self._queue.unrecorded(self.incidents.values()).open
        except StewardError as err:
            self._withdraw(one, "master", f"the job queue cannot be read again: {err}")
            return
        if jobs:
            shown = few([*map(str, jobs)], _SHOWN)
            self._withdraw(one, "master", f"jobs have come meanwhile: {shown}")
        elif candidate is None or candidate.uuid == node.uuid:
            self._withdraw(one, "master", "the candidate is not in the cluster any more")
        else:
            wanted = master_object(incident, node.name)
            self._agents.take_over(candidate, one.submission, wanted)
            self.started.append(one)

    def _withdraw(self, started: Started, brake: str, reason: str) -> None:
        """Take back an intent that was recorded: nothing was handed over."""
        self.held.append(Held(started.incident, brake, f"{reason}; held: {started.task.reason}"))
        # Known even where the record cannot be written.
        self._queue.withdraw(started.submission, reason)
        incident = self.incidents.get(started.incident)
        if incident is None or started.incident in self.unrecorded or self._deposed:
            return
        with self._part(incident.uuid, "record", "its record could not be written"):
            left = without(incident, started.submission)
            self._store.write(left)
            self.incidents[incident.uuid] = left

    @contextmanager
    def _part(self, subject: str, brake: str, what: str) -> Iterator[_Part]:
        """One part of the work: its fault is held and does not end the round."""
        part = _Part()
        try:
            yield part
        except Exception as err:
            if not isinstance(err, StewardError):
                _log.exception("%s: %s", subject, what)
            part.failed = True
            self.held.append(Held(subject, brake, f"{what}: {describe_fault(err)}"))


def _held_routine(started: RoutineStarted, brake: str, reason: str) -> Held:
    return Held(started.name, brake, f"{reason}; held: {started.task.reason}")


class _Part:
    """Whether a part of the work failed."""

    failed = False
