"""The jobs of luxid's queue that have not ended, without reading all others again and again.

luxid allocates the number of a job first and stores the job later: several calls at a time store
theirs in any order.  A number that is missing below a higher one is looked for until it is there.
"""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import FINAL

Row = dict[str, Any]

_FIELDS: Final = ("id", "status", "ops")
_OPEN: Final = ("queued", "waiting", "canceling", "running")
_STATUSES: Final = ["|", *(["=", "status", one] for one in _OPEN)]

#: Missing numbers that are looked for, at most, the highest ones: a number can be lost for ever.
_MOST_MISSING: Final = 1000


class OpenJobs:
    """Reads one queue; luxid reads the file of each job from the oldest open one on."""

    def __init__(self, luxi: Luxi) -> None:
        self._luxi = luxi
        self._first = 1
        """no lower number is open or new, except for those missing"""
        self._last = 0
        """the highest number that was seen"""
        self._missing: frozenset[int] = frozenset()

    @property
    def last(self) -> int:
        """The highest number that was seen; 0 before the first reading."""
        return self._last

    def read(self) -> list[Row]:
        """Id, status and operations of each job that has not ended; raises StewardError."""
        since = [">=", "id", self._first]
        numbers = {row["id"] for row in self._luxi.rows("job", ("id",), since)}
        rows = self._luxi.rows("job", _FIELDS, ["&", since, _STATUSES]) if numbers else []
        known = {row["id"] for row in rows}
        rows += [row for row in self._late(numbers) if row["id"] not in known]
        self._last = max(numbers, default=self._last)
        self._first = min((row["id"] for row in rows), default=self._last + 1)
        return sorted(rows, key=lambda row: row["id"])

    def _late(self, numbers: set[int]) -> list[Row]:
        """Those that were missing and are open now; ``numbers``: those of the queue."""
        last = max(numbers, default=self._last)
        new = range(max(self._last + 1, last - _MOST_MISSING), last)
        missing = sorted({*self._missing, *(one for one in new if one not in numbers)})
        missing = missing[-_MOST_MISSING:]
        # luxid finds archived ones, too, where the condition is nothing but numbers.
        each = ["|", *(["=", "id", one] for one in missing)]
        rows = self._luxi.rows("job", _FIELDS, each) if missing else []
        # Of an unknown job luxid returns the number and no other value.
        found = [row for row in rows if row["status"] is not None]
        self._missing = frozenset(missing) - {row["id"] for row in found}
        return [row for row in found if row["status"] not in FINAL]
