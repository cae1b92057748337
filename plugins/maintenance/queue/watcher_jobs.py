"""What Ganeti's watcher does about instances that are down, by the jobs that it has submitted.

Its jobs are read only while an instance is down though its node answers, and each of them about
once.
"""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.shapes import returned_by
from ganeti_steward.plugins.maintenance.queue.job_search import FoundJob, jobs_with_reason
from ganeti_steward.plugins.model.world import WATCHER_MEMORY, Starts, Watcher, World

_SECOND: Final = 10**9

#: The source of its jobs in Ganeti's reason trails (OPCODE_REASON_SRC_WATCHER).
WATCHER: Final = "gnt:watcher"

_STARTUP: Final = "OP_INSTANCE_STARTUP"

#: Jobs before the last one that are read again: luxid may store one after those of higher numbers.
_LATE: Final = 100


class WatcherJobs:
    """The starts that the watcher has submitted to one queue."""

    def __init__(self, luxi: Luxi) -> None:
        self._luxi = luxi
        self._after = 0
        """jobs up to this number have been read"""
        self._starts: dict[int, tuple[str, int]] = {}
        """number of a job -> the instance that it starts, and when it was submitted (ns)"""

    def read(self, world: World, last_job: int) -> World:
        """The world with `World.watcher`; ``last_job``: as in `Inputs`.  Raises StewardError."""
        names = {one.name for one in world.down_on_live_nodes()}
        if not names:
            return world
        self._find(last_job, world.now)
        jobs: dict[str, list[int]] = {}
        for number, (name, _) in sorted(self._starts.items(), key=lambda one: one[1][1]):
            if name in names:
                jobs.setdefault(name, []).append(number)
        errors = {
            one.number: one.error for one in self._luxi.states([n[-1] for n in jobs.values()])
        }
        starts = {
            name: Starts(
                len(numbers),
                self._starts[numbers[0]][1],
                self._starts[numbers[-1]][1],
                numbers[-1],
                errors[numbers[-1]],
            )
            for name, numbers in jobs.items()
        }
        return world._replace(watcher=Watcher(starts, self._paused()))

    def _find(self, last_job: int, now: int) -> None:
        """Read the jobs that are new; forget those that the watcher has forgotten."""
        # Another master can have given out lower numbers again.
        after = max(min(self._after, last_job) - _LATE, 0)
        for job in jobs_with_reason(self._luxi, WATCHER, after=after):
            if job.operations == (_STARTUP,):
                (name,) = job.instances
                self._starts[job.number] = name, _submitted(job)
        self._after = last_job
        self._starts = {
            number: one
            for number, one in self._starts.items()
            if now - one[1] < WATCHER_MEMORY * _SECOND
        }

    def _paused(self) -> int:
        """Until when the watcher is paused, ns; 0: it is not."""
        answer = self._luxi.call("QueryConfigValues", ["watcher_pause"])
        with returned_by(self._luxi.where):
            (until,) = answer
            return int(until or 0) * _SECOND


def _submitted(job: FoundJob) -> int:
    """When the watcher submitted a job, by its own entry in the reason trail."""
    return max(one.timestamp for trail in job.reasons for one in trail if one.source == WATCHER)
