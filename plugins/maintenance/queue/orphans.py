"""The jobs of repairs that no record knows, found by their reason trails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import FINAL
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import AnyStarted
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import JOB_SOURCE, Incident
from ganeti_steward.plugins.model.orphan import OrphanJob, named_instances, named_nodes
from ganeti_steward.plugins.texts import read_reasons

Row = dict[str, Any]

_FIELDS: Final = ("id", "status", "ops")
_OPEN: Final = ("queued", "waiting", "canceling", "running")
_STATUSES: Final = ["|", *(["=", "status", one] for one in _OPEN)]

#: Missing numbers that are looked for, at most, the highest ones: a number can be lost for ever.
_MOST_MISSING: Final = 1000


class OpenJobs:
    """Reads one queue; luxid reads the file of each job from the oldest open one on."""

    def __init__(self, luxi: Luxi, given: Callable[[], int | None] = lambda: None) -> None:
        """``given``: the last number that luxid has given out, see `job_search.last_job`."""
        self._luxi, self._given = luxi, given
        self._first = 1
        """no lower number is open or new, except for those missing"""
        self._last = 0
        """the last number that was given out"""
        self._missing: frozenset[int] = frozenset()

    @property
    def last(self) -> int:
        """The last number that was given out, as far as it is known; 0 before the first reading."""
        return self._last

    def read(self) -> list[Row]:
        """Id, status and operations of each job that has not ended; raises StewardError."""
        # Before the queue: what is given out later is read again.
        given = self._given()
        since = [">=", "id", self._first]
        numbers = {row["id"] for row in self._luxi.rows("job", ("id",), since)}
        rows = self._luxi.rows("job", _FIELDS, ["&", since, _STATUSES]) if numbers else []
        known = {row["id"] for row in rows}
        last = max(numbers, default=self._last) if given is None else given
        rows += [row for row in self._late(numbers, last) if row["id"] not in known]
        self._last = last
        self._first = min((row["id"] for row in rows), default=self._last + 1)
        return sorted(rows, key=lambda row: row["id"])

    def _late(self, numbers: set[int], last: int) -> list[Row]:
        """Those that were missing and are open now; ``numbers``: those of the queue."""
        new = range(max(self._last + 1, last - _MOST_MISSING), last + 1)
        missing = sorted({*self._missing, *(one for one in new if one not in numbers)})
        missing = missing[-_MOST_MISSING:]
        # luxid finds archived ones, too, where the condition is nothing but numbers.
        each = ["|", *(["=", "id", one] for one in missing)]
        rows = self._luxi.rows("job", _FIELDS, each) if missing else []
        # Of an unknown job luxid returns the number and no other value.
        found = [row for row in rows if row["status"] is not None]
        self._missing = frozenset(missing) - {row["id"] for row in found}
        return [row for row in found if row["status"] not in FINAL]


class Unrecorded(NamedTuple):
    """What the queue has that no record knows."""

    orphans: tuple[OrphanJob, ...] = ()
    """jobs of repairs that have not ended, by number"""
    last_job: int = 0
    """see `OpenJobs.last`"""
    known: bool = True
    """see `Inputs.calls_known`"""
    open: tuple[int, ...] = ()
    """numbers of all jobs that have not ended, those of other users as well"""


def orphans_of(
    rows: Iterable[Mapping[str, Any]],
    running: Iterable[AnyStarted],
    incidents: Iterable[Incident],
) -> tuple[OrphanJob, ...]:
    """The orphans among jobs that have not ended, and among what is being handed over.

    ``rows``: with ``id`` and ``ops``; ``incidents``: as they are recorded.
    """
    known = {submission.id for incident in incidents for submission in incident.open}
    found = [*_stored(rows), *_under_way(running)]
    return tuple(sorted(orphan for orphan in found if orphan.submission not in known))


def _stored(rows: Iterable[Mapping[str, Any]]) -> Iterator[OrphanJob]:
    for row in rows:
        try:
            reasons = [reason for op in row["ops"] for reason in read_reasons(op["reason"])]
        except (KeyError, TypeError, ValueError):
            # Of a damaged job luxid gives no operations.
            continue
        texts = {reason.source: reason.text for reason in reasons}
        if SUBMISSION_SOURCE in texts:
            yield OrphanJob(
                row["id"],
                texts.get(JOB_SOURCE, ""),
                texts[SUBMISSION_SOURCE],
                named_nodes(row["ops"]),
                named_instances(row["ops"]),
            )


def _under_way(running: Iterable[AnyStarted]) -> Iterator[OrphanJob]:
    for start in running:
        if isinstance(start, Started):
            nodes, instances = sorted(start.task.nodes), sorted(start.task.instances)
            yield OrphanJob(0, start.incident, start.submission, tuple(nodes), tuple(instances))
