"""What the loop needs of the world outside, and what it reports about each round."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ganeti_steward.core.ganeti.confd.choice import Vote
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import Held
from ganeti_steward.core.maintenance.world import NodeFacts, Observation, World
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.engine.decision import (
    Change,
    CommandResult,
    Decision,
    Planned,
)


class Records(Protocol):
    """The records of incidents in Ganeti's configuration; every call raises StewardError."""

    def read(self) -> tuple[Mapping[str, Incident], Sequence[Held]]:
        """All incidents by uuid, and what is wrong with records that cannot be read."""

    def write(self, incident: Incident) -> None:
        """Write one record, in the place of an older one of the same uuid."""

    def remove(self, uuid: str) -> None:
        """Remove one record; one that is gone already is no error."""


class HandedOver(NamedTuple):
    """What became of the jobs of one submission."""

    jobs: tuple[int, ...] = ()
    """Ganeti's numbers"""
    refused: str = ""
    """why not all were taken; empty when they were"""


class Queue(Protocol):
    """The job queue; every call raises StewardError."""

    def submit(
        self, incident: str, submission: str, jobs: Sequence[Job], reason: str
    ) -> HandedOver:
        """Hand jobs over at once, the two ids in their reason trail."""

    def lookup(self, submissions: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """Submission id -> the numbers of its jobs; empty where the queue has none."""

    def states(self, numbers: Iterable[int]) -> Mapping[int, JobState]:
        """Number -> state of each job."""

    def cancel(self, number: int) -> None:
        """Cancel a job that has not started."""


class ReadWorld(Protocol):
    """Reads the cluster."""

    def __call__(self, now: int, /) -> World:
        """The cluster without incidents and observations; ``now``: ns since the epoch.

        Raises StewardError.
        """


class Agents(Protocol):
    """The node agents: their reports, and the repair commands they run.

    They are polled, and commands run, in other threads, which ring the bell with their news.
    """

    def watch(self, nodes: Mapping[str, NodeFacts]) -> None:
        """Poll the agents of these nodes (by uuid) from now on, and no others."""

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> the last observation."""

    def start(self, node: NodeFacts, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run; returns at once."""

    def results(self) -> Mapping[str, CommandResult | None]:
        """Submission id -> the result of each command started here; None while it runs."""


class Planner(Protocol):
    """Calls the plugins."""

    def __call__(self, incident: Incident, world: World, /) -> Sequence[Planned]:
        """What they plan for one incident."""


class Voter(Protocol):
    """Counts the votes of the master candidates."""

    def __call__(self) -> Vote:
        """The vote now: master or undecided; raises NotMaster."""


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
    held: tuple[Held, ...] = ()
    """everything that was not done, also for faults while it was done"""
    waiting: tuple[int, ...] = ()
    """numbers of the jobs of open submissions"""
    fault: str = ""
    """why the round could not do its work, one sentence; empty when it could"""


class Observer(Protocol):
    """Reports rounds somewhere: status, metrics, audit log, notifications."""

    def __call__(self, outcome: Round, /) -> None:
        """Report one round."""
