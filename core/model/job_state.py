"""How far a job of Ganeti is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

SUCCESS: Final = "success"
ERROR: Final = "error"
CANCELED: Final = "canceled"
#: Not a word of Ganeti: it does not know the job any more, because it was archived.
LOST: Final = "lost"
#: States a job does not leave any more.
FINAL: Final = frozenset({SUCCESS, ERROR, CANCELED, LOST})
#: States in which a job can still be canceled.
NOT_STARTED: Final = frozenset({"queued", "waiting"})


class JobState(NamedTuple):
    """How far a job is."""

    number: int
    """Ganeti's number of it"""
    status: str
    """in Ganeti's words: queued, waiting, canceling, running, canceled, success, error"""
    error: str = ""
    """the error of the operation that failed"""
    results: Sequence[Any] = ()
    """what each operation gave back"""

    @classmethod
    def lost(cls, number: int) -> JobState:
        """A job Ganeti does not know any more."""
        return cls(number, LOST, "Ganeti does not know this job any more")

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in FINAL
