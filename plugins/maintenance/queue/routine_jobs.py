"""The jobs of routine work that the queue has, and the jobs that tags of instances name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import LOST, SUCCESS, JobState
from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason
from ganeti_steward.plugins.maintenance.queue.short_jobs import CHECK_DISKS, read_check
from ganeti_steward.plugins.maintenance.queue.submit import read_trail
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.routine import ROUTINE_SOURCE, RoutineJob

#: ns for which a job is kept after its end.
RECENT: Final = 3600 * 10**9

#: A tag of an instance: a repair of harep is in progress; the job numbers follow the last colon.
PENDING_TAG: Final = "ganeti:watcher:autorepair:pending:"

#: A job number; a longer one is none of Ganeti's.
_NUMBER: Final = re.compile(r"[0-9]{1,15}")


class Seen(NamedTuple):
    """What the queue shows of routine work."""

    jobs: tuple[RoutineJob, ...] = ()
    """see `World.routine`"""
    known: bool = True
    """see `Inputs.calls_known`"""
    disks: Mapping[str, DiskHealth] = MappingProxyType({})
    """see `World.disks`"""


class RoutineJobs:
    """What is known of the jobs of routine work; each job of the queue is read once for it."""

    def __init__(
        self,
        luxi: Luxi,
        is_over: Callable[[], bool],
        given: Callable[[], int | None] = lambda: None,
    ) -> None:
        """``is_over``: whether every call that has handed over jobs is over.

        luxid has stored the jobs of such a call, or will not.  ``given``: the last number that it
        has given out, see `job_search.last_job`.
        """
        self._luxi, self._is_over, self._given = luxi, is_over, given
        self._jobs: dict[int, RoutineJob] = {}
        self._disks: dict[int, dict[str, DiskHealth]] = {}
        """number of a job that checked disks -> what it found, by instance"""
        self._after = 0
        """jobs up to this number have been read, and none of them can appear any more"""

    def look(self, now: int) -> Seen:
        """The jobs now; ``now``: ns since the epoch.  Raises StewardError."""
        # Before the queue is read.
        known = self._is_over()
        last = self._find()
        if known:
            self._after = last
        self._follow(now)
        jobs = tuple(one for _, one in sorted(self._jobs.items()))
        checks = (found for _, found in sorted(self._disks.items()))
        disks = {name: one for found in checks for name, one in found.items()}
        return Seen(jobs, known, disks)

    @property
    def running(self) -> bool:
        """Whether a job that was seen has not ended."""
        return any(one.open for one in self._jobs.values())

    def _find(self) -> int:
        """Read the jobs that are new; the last number that was given out."""
        given = self._given()
        rows = self._luxi.rows("job", ("id",), [">", "id", self._after])
        for job in jobs_with_reason(self._luxi, ROUTINE_SOURCE, after=self._after) if rows else ():
            found, known = read_trail(job), self._jobs.get(job.number)
            # The number of an older job can have been given out again.
            if found and (known is None or known.submitted != found.submitted):
                self._jobs[job.number] = found
        highest = max((row["id"] for row in rows), default=self._after)
        return highest if given is None else given

    def _follow(self, now: int) -> None:
        """Read the states of what has not ended; forget what ended long ago."""
        states = self._luxi.states([one.number for one in self._jobs.values() if one.open])
        ends = self._luxi.ends([state.number for state in states if state.ended])
        for state in states:
            job = self._jobs[state.number]
            # One without a time has ended at the latest now.
            ended = ends.get(state.number, now) if state.ended else 0
            if job.step == CHECK_DISKS and state.status == SUCCESS:
                self._disks[state.number] = read_check(state.results, job.submitted)
            self._jobs[state.number] = job._replace(
                status=state.status, error=state.error, ended=ended
            )
        self._jobs = {
            number: one
            for number, one in self._jobs.items()
            if one.status != LOST and (one.open or now - one.ended < RECENT)
        }
        self._disks = {number: one for number, one in self._disks.items() if number in self._jobs}


def tagged_jobs(luxi: Luxi) -> dict[int, JobState]:
    """Number -> state of each job that a tag of an instance names; raises StewardError."""
    rows = luxi.rows("instance", ("tags",))
    numbers = tagged_numbers(tag for row in rows for tag in row["tags"])
    return {state.number: state for state in luxi.states(numbers)}


def tagged_numbers(tags: Iterable[str]) -> list[int]:
    """The numbers of the jobs that tags of instances name, sorted."""
    pending = (tag for tag in tags if tag.startswith(PENDING_TAG))
    texts = {text for tag in pending for text in tag.rpartition(":")[2].split("+")}
    return sorted({int(text) for text in texts if _NUMBER.fullmatch(text)})
