"""What both clients offer to whoever runs jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ganeti_steward.core.operations import Job

SUCCESS: Final = "success"
ERROR: Final = "error"
#: States a job does not leave any more.
FINAL: Final = frozenset({SUCCESS, ERROR, "canceled"})


class JobState(NamedTuple):
    """How far a job is."""

    job: int
    """Ganeti's number of it"""
    status: str
    """in Ganeti's words: queued, waiting, canceling, running, canceled, success, error"""
    error: str = ""
    """what the operation that failed says, on one line"""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in FINAL


class Submitted(NamedTuple):
    """What became of one job that was handed over."""

    numbers: tuple[int, ...]
    """the jobs it became (RAPI makes one of each operation), in their order"""
    error: str = ""
    """why it was not taken, or not all of it"""


class Jobs(Protocol):
    """Where jobs can be run."""

    @property
    def where(self) -> str:
        """The place, for messages."""

    def refusal(self, job: Job) -> str:
        """Why a job cannot be run this way; empty when it can."""

    def submit(self, jobs: Sequence[Job], reason: str) -> list[Submitted]:
        """Hand jobs over, each with this text in its reason trail; raises StewardError."""

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        """The state of each job, in the order of the numbers; raises StewardError."""

    def cancel(self, number: int) -> str:
        """Take back a job that has not started; what Ganeti says to it."""
