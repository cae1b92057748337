"""Routine work of the daemon: what it does when no incident requires it.

Its only memory is the job queue: the reason trail of each operation of a job says what the job is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.model.job_state import FINAL, SUCCESS

#: The text after which the plugin's name follows, in the reason whose source is ``JOB_SOURCE``.
ROUTINE_TEXT: Final = "routine:"
#: The source of the reason that holds the facts of a job of routine work, as JSON.
ROUTINE_SOURCE: Final = "gnt:daemon:maintd:routine"


class RoutineJob(NamedTuple):
    """A job of routine work, as the job queue shows it."""

    number: int
    """Ganeti's number of it"""
    plugin: str
    """name of the plugin that planned it"""
    step: str
    """the step of its task"""
    subject: str
    """what its task is about; empty: the cluster"""
    nodes: tuple[str, ...]
    """names of the nodes its task reserves, sorted"""
    instances: tuple[str, ...]
    """names of the instances its task reserves, sorted"""
    copied: int = 0
    """MiB of disks that this job copies"""
    submitted: int = 0
    """ns since the epoch"""
    status: str = ""
    """in the words of `ganeti_steward.core.model.job_state.JobState`"""
    error: str = ""
    """the error of the operation that failed"""
    ended: int = 0
    """when it ended, ns since the epoch; 0: it has not ended, or when is not known"""

    @property
    def open(self) -> bool:
        """Whether it has not ended: what it uses is reserved."""
        return self.status not in FINAL

    @property
    def failed(self) -> bool:
        """Whether it ended without success; one that was canceled or archived counts, too."""
        return not self.open and self.status != SUCCESS
