"""Stand-ins for everything the loop works with; they note what is done, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from worlds import NOW, incident, node, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster
from ganeti_steward.plugins.maintenance.daemon.parts import Observers, Parts, Round
from ganeti_steward.plugins.maintenance.daemon.rounds import Rounds
from ganeti_steward.plugins.maintenance.daemon.wakeup import Signals, Wakeup
from ganeti_steward.plugins.maintenance.edges.judge import RecordFault
from ganeti_steward.plugins.maintenance.edges.store import Records
from ganeti_steward.plugins.maintenance.engine.decision import (
    Change,
    CommandResult,
    Decision,
    Inputs,
    PluginPlan,
    RoutineStarted,
    Started,
)
from ganeti_steward.plugins.maintenance.queue.calls import TaskOutcome
from ganeti_steward.plugins.maintenance.queue.orphans import Unrecorded
from ganeti_steward.plugins.maintenance.queue.routine_jobs import Seen
from ganeti_steward.plugins.maintenance.queue.submit import HandedOver, LookedUp, noted
from ganeti_steward.plugins.maintenance.runtime import Runtime
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.orphan import OrphanJob
from ganeti_steward.plugins.model.progress import Transfer
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import Observation, World

MASTER = Vote(Mastership.MASTER, "2 of 3 master candidates name n1", "n1")
UNDECIDED = Vote(Mastership.UNDECIDED, "none of 3 master candidates answered")
LOST = Vote(Mastership.NOT_MASTER, "3 of 3 master candidates name n2", "n2")

#: What became of a task of routine work.
DONE = TaskOutcome((901,))


class Call(NamedTuple):
    """One thing that was done."""

    what: str
    about: Any = None


class Fakes:
    """All parts at once; attributes set what they answer, ``calls`` has what was done."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self.calls: list[Call] = []
        self.decisions = iter(decisions)
        self.inputs: list[Inputs] = []
        self.votes: list[Vote] = []
        self.stored: dict[str, Incident] = {}
        self.jobs: dict[int, JobState] = {}
        self.queued: dict[str, tuple[int, ...]] = {}
        self.awaited: dict[str, str] = {}
        self.orphans: list[OrphanJob] = []
        self.results: dict[str, CommandResult] = {}
        self.observations: dict[str, Observation] = {}
        self.record_faults: list[RecordFault] = []
        self.record_notes: list[RecordFault] = []
        self.rewrites: list[bool] = []
        """of each reading, whether records could be rewritten"""
        self.unknown: dict[str, str] = {}
        self.world = world([node("n1", master=True), node("n2"), node("n3")])
        self.faults: dict[tuple[str, Any], Exception] = {}
        self.meanwhile: dict[str, Callable[[], None]] = {}
        self.reconciled: list[dict[str, Incident]] = []
        """what each round has given `reconcile`"""
        self.rounds_reported: list[Round] = []
        self.settings: Maintd | None = None
        self.wakeup = Wakeup()
        self.signals = Signals(self.wakeup)
        self.storage = False
        self.routine = Seen()
        self.open_jobs: list[int] = []
        """numbers of all jobs that have not ended"""
        self.tagged: dict[int, JobState] = {}
        self.transfers: dict[int, Transfer] = {}
        self.outcomes: dict[str, TaskOutcome] = {}
        """name of a task of routine work -> what becomes of it; `DONE` unless it is here"""

    def rounds(self, settings: Maintd | None = None, **more: Any) -> Rounds:
        parts = Parts(
            voting=self.vote,
            store=_Store(self),
            queue=_Queue(self),
            read_world=self.read_world,
            agents=_Agents(self),
            planner=self.plan,
            step=self.step,
            observers=Observers({"the test": self.rounds_reported.append}),
            reload=lambda: self.settings,
            runtime=Runtime(clock=lambda: NOW),
        )
        used = settings or Maintd(mode="act")
        return Rounds(parts._replace(**more), used, self.signals)

    def done(self, *whats: str) -> list[tuple[str, Any]]:
        """What was done of these kinds (all kinds: none given)."""
        return [tuple(call) for call in self.calls if not whats or call.what in whats]  # type: ignore[misc]

    def note(self, what: str, about: Any = None) -> None:
        self.calls.append(Call(what, about))
        if what in self.meanwhile:
            self.meanwhile[what]()
        if (what, about) in self.faults:
            raise self.faults[what, about]

    def vote(self) -> Vote:
        self.note("vote")
        result = self.votes.pop(0) if self.votes else MASTER
        if result is LOST:
            raise NotMaster(result.reason)
        return result

    def read_world(self, now: int, *, storage: bool) -> World:
        self.note("world")
        self.storage = storage
        return self.world._replace(now=now)

    def plan(self, incident: Incident, world: World) -> Sequence[PluginPlan]:
        raise ValueError("the planner is broken")

    def step(self, inputs: Inputs, settings: Maintd, planner: Any, routine: Any) -> Decision:
        self.note("step")
        self.inputs.append(inputs)
        return next(self.decisions, Decision())


class _Store:
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    def read_all(self, *, rewrite: bool = False) -> Records:
        self._fakes.note("read")
        self._fakes.rewrites.append(rewrite)
        fakes = self._fakes
        return Records(dict(fakes.stored), tuple(fakes.record_faults), tuple(fakes.record_notes))

    def write(self, incident: Incident) -> None:
        self._fakes.note("write", incident.uuid)
        self._fakes.stored[incident.uuid] = incident

    def remove(self, uuid: str) -> None:
        self._fakes.note("remove", uuid)
        self._fakes.stored.pop(uuid, None)

    def reconcile(self, incidents: Mapping[str, Incident]) -> None:
        self._fakes.reconciled.append(dict(incidents))


class _Queue:
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        names = [*(one.incident for one in started), *(one.name for one in routine)]
        self._fakes.note("submit", tuple(names))
        changed, unknown = {}, {}
        for number, one in enumerate(started, 101):
            assert one.submission in {known.id for known in self._fakes.stored[one.incident].open}
            if one.incident in self._fakes.unknown:
                unknown[one.submission] = self._fakes.unknown[one.incident]
                continue
            self._fakes.jobs[number] = JobState(number, "running")
            changed[one.incident] = noted(incidents[one.incident], one.submission, (number,))
        self._fakes.stored |= changed
        outcomes = {one.submission: self._fakes.outcomes.get(one.name, DONE) for one in routine}
        return HandedOver(changed, unknown, outcomes)

    def routine(self, now: int, *, wanted: bool) -> Seen:
        return self._fakes.routine if wanted else Seen()

    def tagged_jobs(self) -> Mapping[int, JobState]:
        return self._fakes.tagged

    def ended(self, numbers: Iterable[int]) -> bool:
        self._fakes.note("ended", tuple(numbers))
        return any(self._fakes.jobs[number].ended for number in numbers)

    def transfers(self, numbers: Iterable[int]) -> Mapping[int, Transfer]:
        self._fakes.note("transfers", tuple(numbers))
        return self._fakes.transfers

    def withdraw(self, submission: str, reason: str) -> None:
        self._fakes.note("withdraw", submission)

    def look_up(self, submissions: Iterable[Submission]) -> LookedUp:
        ids = [one.id for one in submissions if not (one.jobs or one.command or one.refused)]
        awaited = {one: text for one, text in self._fakes.awaited.items() if one in ids}
        known = (one for one in ids if one not in awaited)
        found = {one: self._fakes.queued.get(one, ()) for one in known}
        return LookedUp(found, awaited=awaited)

    def unrecorded(self, incidents: Iterable[Incident]) -> Unrecorded:
        fakes = self._fakes
        last = max(fakes.jobs, default=0)
        return Unrecorded(tuple(fakes.orphans), last, open=tuple(fakes.open_jobs))

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        numbers = [number for one in incidents for known in one.open for number in known.jobs]
        self._fakes.note("states", tuple(numbers))
        return {number: self._fakes.jobs[number] for number in numbers}

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        self._fakes.note("cancel", tuple(numbers))
        return dict.fromkeys(numbers, "canceled")


class _Agents:
    """As the real ones, they know no node before `watch`."""

    def __init__(self, fakes: Fakes) -> None:
        self._fakes, self._watched = fakes, False

    def watch(self, nodes: Mapping[str, Node]) -> None:
        self._fakes.note("watch", len(nodes))
        self._watched = True

    def observations(self) -> Mapping[str, Observation]:
        return self._fakes.observations

    def start(self, node: Node, submission: str, command: str, original: bytes) -> None:
        self._fakes.note("command", (node.name, command))

    def take_over(self, node: Node, submission: str, wanted: bytes) -> None:
        self._fakes.note("take over", (node.name, wanted.decode()))

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        ids = {one.id for incident in incidents for one in incident.open}
        results = self._fakes.results if self._watched else {}
        return {one: found for one, found in results.items() if one in ids}


A, B = incident("n1"), incident("n2")
OPEN = Submission("s1", "drain", (), (), 0, jobs=(5,))
#: What a round left that waits for a job of A.
WAITING = Round(0, 0, incidents={A.uuid: A._replace(open=(OPEN,))}, waiting=(5,))


@contextmanager
def two_incidents() -> Iterator[Fakes]:
    """Fakes with A and B stored, signals handled, for as long as the block lasts."""
    fakes = Fakes()
    fakes.stored = {one.uuid: one for one in (A, B)}
    with fakes.signals.handled():
        yield fakes
    fakes.wakeup.close()


def deciding(fakes: Fakes, *decisions: Decision) -> Fakes:
    fakes.decisions = iter(decisions)
    return fakes


def starting(*incidents: Incident, command: str = "") -> Decision:
    """A decision that starts one task for each of the incidents."""
    started = [_started(one, command) for one in incidents]
    records = [
        incident._replace(
            status="pending",
            open=(Submission(one.submission, one.task.step, (), (), NOW, command=command),),
        )
        for incident, one in zip(incidents, started, strict=True)
    ]
    changes = [
        Change(before, after, "first task submitted", "test")
        for before, after in zip(incidents, records, strict=True)
    ]
    return Decision(records=tuple(records), started=tuple(started), changes=tuple(changes))


def _started(incident: Incident, command: str) -> Started:
    jobs: Sequence[Job] = () if command else [[{"OP_ID": "OP_NODE_SET_PARAMS"}]]
    task = Task(
        "command" if command else "drain",
        frozenset({incident.node_name}),
        frozenset(),
        f"drain {incident.node_name}",
        jobs,
        command,
    )
    return Started(incident.uuid, f"submission-of-{incident.node_name}", task)


def fault(text: str = "luxid is not running") -> StewardError:
    return StewardError(text)
