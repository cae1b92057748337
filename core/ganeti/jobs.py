"""What both clients offer to run jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ganeti_steward.core.json_reader import describe, printable
from ganeti_steward.core.model.job_state import ERROR, JobState
from ganeti_steward.core.model.opcodes import Job


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
        """Cancel a job that has not started; Ganeti's answer."""


def error_text(error: object) -> str:
    """The text of Ganeti's form of an error: a name and a list that starts with the text."""
    if isinstance(error, list) and len(error) == 2 and isinstance(error[1], list) and error[1]:
        return one_line(str(error[1][0]))
    return one_line(str(error))


def job_error(opstatus: object, opresult: object) -> str:
    """The errors of a job's failed operations; empty when none failed."""
    if not isinstance(opstatus, list) or not isinstance(opresult, list):
        return ""
    errors = [
        error_text(result)
        for status, result in zip(opstatus, opresult, strict=False)
        if status == ERROR and result is not None
    ]
    # The operations after the one that failed only report that it did.
    return errors[0] if errors else ""


def job_state(number: int, status: object, opstatus: object, opresult: object) -> JobState:
    """The state of a job as luxid returns it; one without a status is lost.

    Raises ValueError where the values are of other types.
    """
    if type(number) is not int or not isinstance(status, str | None):
        raise ValueError(f"{describe(status)} as the status of job {number}")
    if status is None:
        # Of an unknown job luxid returns the number and no other value.
        return JobState.lost(number)
    results = opresult if isinstance(opresult, list) else []
    return JobState(number, status, job_error(opstatus, opresult), results)


def one_line(text: str) -> str:
    """Text of several lines for a sentence, without what changes a terminal."""
    return printable(" ".join(text.split()))
