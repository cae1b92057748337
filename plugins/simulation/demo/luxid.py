"""luxid of the demo: the simulated cluster, with jobs that run in real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.simulation.assumptions import Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.luxid import Luxid
from ganeti_steward.plugins.simulation.operations import SimulatedOperations

#: Copies take no time to speak of, so that the jobs of a demo are short.
_ASSUMED: Final = Assumptions(job_failures=0, copied_per_second=1e5, migrated_per_second=1e5)


class SubmittedJob(NamedTuple):
    """A job, and the cluster as it was when the job was submitted."""

    number: int
    job: Job
    cluster: Cluster


class DemoLuxid(Luxid):
    """Also keeps what was submitted, for the narrator."""

    def __init__(self, start: World, speed: float, clock: Callable[[], int] = time.time_ns) -> None:
        """``speed``: how much faster jobs are than in Ganeti; ``clock``: ns since the epoch."""
        schedule = Schedule(clock())
        self.cluster = SimulatedCluster(start, lambda: schedule.now)
        operations = SimulatedOperations(self.cluster, _ASSUMED)
        super().__init__(self.cluster, operations, schedule, clock, speed)
        self._submitted: list[SubmittedJob] = []

    def submit(self, jobs: Sequence[Any]) -> list[Any]:
        """Take all jobs, or raise Refusal."""
        cluster, taken = self.cluster.cluster, super().submit(jobs)
        self._submitted += [
            SubmittedJob(number, job, cluster) for (_, number), job in zip(taken, jobs, strict=True)
        ]
        return taken

    def submitted(self) -> tuple[SubmittedJob, ...]:
        """All jobs, in their order."""
        with self.lock:
            return tuple(self._submitted)

    def reboot(self, node: str, *, away: bool) -> None:
        """Have a node be away for a reboot, or be back."""
        with self.lock:
            self.advance()
            self.cluster.power(node, reboot=away)

    def fail_over(self, before: str, after: str) -> None:
        """Make another node the master."""
        with self.lock:
            self.cluster.set_roles(before, master=False)
            self.cluster.set_roles(after, master=True, master_candidate=True)

    def state(self, number: int) -> JobState:
        """How far a job is now."""
        with self.lock:
            self.advance()
            return self.queue.state(number)
