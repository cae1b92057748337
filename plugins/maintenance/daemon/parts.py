"""What the loop needs of the world outside, and what it reports about each round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.filters.actions.changes import JobChange
from ganeti_steward.plugins.maintenance.confd.choice import Vote
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.job_releases import Releasing
from ganeti_steward.plugins.maintenance.edges.outlet import Outlet
from ganeti_steward.plugins.maintenance.edges.store import Records
from ganeti_steward.plugins.maintenance.engine.decision import (
    Change,
    CommandResult,
    Decision,
    Inputs,
    RoutineStarted,
    Started,
)
from ganeti_steward.plugins.maintenance.engine.routine import RoutinePlanner, no_routine
from ganeti_steward.plugins.maintenance.engine.tasks import Planner
from ganeti_steward.plugins.maintenance.queue.orphans import Unrecorded
from ganeti_steward.plugins.maintenance.queue.routine_jobs import Seen
from ganeti_steward.plugins.maintenance.queue.submit import HandedOver, LookedUp
from ganeti_steward.plugins.maintenance.runtime import REAL, Runtime
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.progress import Transfer
from ganeti_steward.plugins.model.storage import NodeStorage
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Observation, World


class RecordStore(Protocol):
    """The records of incidents in Ganeti's configuration; every call raises StewardError."""

    def read_all(self, *, rewrite: bool = False) -> Records:
        """All incidents, and what is wrong with records.

        ``rewrite``: whether records are signed, or written back, that need it.
        """

    def write(self, incident: Incident) -> None:
        """Write one record, in the place of an older one of the same uuid."""

    def remove(self, uuid: str) -> None:
        """Remove one record; one that is gone already is no error."""

    def reconcile(self, incidents: Mapping[str, Incident]) -> None:
        """Have exactly the rules exist that hold creations for the incidents (by uuid)."""


class Queue(Protocol):
    """The job queue."""

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        """Hand over the jobs of all tasks at once and record their numbers; raises nothing.

        ``incidents``: uuid -> incident as it is recorded.
        """

    def routine(self, now: int, *, wanted: bool) -> Seen:
        """The jobs of routine work, if ``wanted`` or while some have not ended.

        ``now``: ns since the epoch.  Raises StewardError.
        """

    def tagged_jobs(self) -> Mapping[int, JobState]:
        """Number -> state of each job that a tag of an instance names; raises StewardError."""

    def ended(self, numbers: Iterable[int]) -> bool:
        """Whether one of these jobs has ended; raises StewardError."""

    def withdraw(self, submission: str, reason: str) -> None:
        """Note that a submission that may be recorded is not handed over."""

    def look_up(self, submissions: Iterable[Submission]) -> LookedUp:
        """What became of the submissions without numbers; raises StewardError."""

    def unrecorded(self, incidents: Iterable[Incident]) -> Unrecorded:
        """What the queue has that none of the recorded incidents knows; raises StewardError."""

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission; raises StewardError."""

    def transfers(self, numbers: Iterable[int]) -> Mapping[int, Transfer]:
        """Number -> what the job copies, of those that copy memory now; raises nothing."""

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started; number -> Ganeti's answer.  Raises nothing."""


class ReadWorld(Protocol):
    """Reads the cluster."""

    def __call__(self, now: int, *, storage: bool) -> World:
        """The cluster without incidents and observations; ``now``: ns since the epoch.

        ``storage``: whether free space is required that only a job can find out.  Raises
        StewardError.
        """


class Agents(Protocol):
    """The node agents: their reports, and the repair commands they run.

    They are polled, and commands run, in other threads, which wake the loop with their news.
    """

    def watch(self, nodes: Mapping[str, Node]) -> None:
        """Poll the agents of these nodes (by uuid) from now on, and no others."""

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> the last observation."""

    def start(self, node: Node, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run; returns at once."""

    def take_over(self, node: Node, submission: str, wanted: bytes) -> None:
        """Have a node made the master by its agent; returns at once.

        ``wanted``: see `AgentClient.take_over`.
        """

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        """Submission id -> what is known, of open submissions whose command is not running."""


class Round(NamedTuple):
    """What one round did, for everything that reports it."""

    at: int
    """when it began, ns since the epoch"""
    seconds: float
    """how long it took"""
    world: World | None = None
    """what it saw; None when that could not be read"""
    decision: Decision | None = None
    """what was decided; None when nothing could be"""
    incidents: Mapping[str, Incident] = {}
    """all incidents after the round, as they are recorded"""
    changes: tuple[Change, ...] = ()
    """the decided changes that were recorded"""
    started: tuple[Started, ...] = ()
    """the tasks of repairs that were handed over"""
    routine: tuple[RoutineStarted, ...] = ()
    """the tasks of routine work that were handed over"""
    released: tuple[JobChange, ...] = ()
    """the changes that were made for jobs that filter rules hold"""
    held: tuple[Held, ...] = ()
    """everything that was not done, also for faults while it was done"""
    waiting: tuple[int, ...] = ()
    """numbers of the jobs of repairs and routine work that have not ended, also of those whose
    record is gone"""
    fault: str = ""
    """why the round could not do its work, one sentence; empty when it could"""
    undecided: str = ""
    """why it is undecided whether this node is the master, so that nothing was done; empty when it
    is decided"""
    lost: str = ""
    """why this node is not the master any more, found out in the round; empty while it is"""


#: Reports rounds somewhere: status, metrics, audit log, notifications.
Observer = Callable[[Round], None]

#: Gets what each step gets, before it decides.
Recorder = Callable[[Inputs, Maintd], None]


class Observers:
    """Everything that rounds are reported to; none of it can stop a round, see `Outlet`."""

    def __init__(
        self,
        rounds: Mapping[str, Observer] = MappingProxyType({}),
        steps: Mapping[str, Recorder] = MappingProxyType({}),
    ) -> None:
        """What is called after each round, and before each step, in this order.

        The keys say what it means when one fails, as the beginning of a sentence.
        """
        self._rounds = [(Outlet(failure), one) for failure, one in rounds.items()]
        self._steps = [(Outlet(failure), one) for failure, one in steps.items()]

    def step(self, inputs: Inputs, settings: Maintd) -> None:
        """A step is about to decide; raises nothing."""
        for outlet, recorder in self._steps:
            outlet(partial(recorder, inputs, settings), None)

    def round(self, outcome: Round) -> None:
        """A round has ended; raises nothing."""
        for outlet, observer in self._rounds:
            outlet(partial(observer, outcome), None)

    @property
    def problems(self) -> tuple[Held, ...]:
        """What cannot be reported at present."""
        outlets = [outlet for outlet, _ in (*self._steps, *self._rounds)]
        return tuple(one for outlet in outlets for one in outlet.problems)


#: Where nothing is reported.
UNOBSERVED: Final = Observers()


ReadDisks = Callable[[World, Mapping[int, JobState]], Mapping[str, DiskHealth]]


class Parts(NamedTuple):
    """What the loop works with."""

    voting: Callable[[], Vote]
    """the vote now: master or undecided; raises NotMaster"""
    store: RecordStore
    queue: Queue
    read_world: ReadWorld
    agents: Agents
    planner: Planner
    step: Callable[[Inputs, Maintd, Planner, RoutinePlanner], Decision]
    routine_planner: RoutinePlanner = no_routine
    releasing: Releasing | None = None
    """None: no job is released"""
    read_storage: Callable[[World], Mapping[str, NodeStorage]] = lambda world: {}
    """name -> storage of the nodes that report failing physical volumes"""
    read_disks: ReadDisks = lambda world, jobs: {}
    """name -> disks of instances that are going to leave a node; ``jobs``: as in `Inputs`"""
    gates: Callable[[World], tuple[str, ...]] = lambda world: ()
    """why no maintenance may begin now"""
    read_watcher: Callable[[World, int], World] = lambda world, last_job: world
    """the world with what Ganeti's watcher does about instances that are down; ``last_job``: as in
    `Inputs`.  Raises StewardError."""
    current_candidates: Callable[[], frozenset[str]] = frozenset
    """primary addresses of the master candidates with the latest configuration; raises nothing"""
    read_words: Callable[[World], World] = lambda world: world
    """the world with the tags of now, in which people say what they want; raises StewardError"""
    verify_disks: Callable[[World], tuple[str, ...]] | None = None
    """what is wrong with disks of the cluster, a sentence each; None: no disks are verified"""
    observers: Observers = UNOBSERVED
    alive: Callable[[], None] = lambda: None
    """called at least every half minute while the loop waits, and before each round"""
    reload: Callable[[], Maintd | None] = lambda: None
    """reads the configuration again; None when that one cannot be used"""
    runtime: Runtime = REAL
    only: str = ""
    """see `Inputs.only`"""
    is_over: Callable[[Round], bool] = lambda outcome: False
    """whether the loop ends after this round; what it raises ends the loop as well"""
