"""luxid's job queue as the loop needs it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.maintenance.incident import Incident, Submission
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.edges import submit
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.edges.submit import HandedOver
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.routine.jobs import RoutineJobs, Seen, tagged_jobs


class LuxiQueue:
    """The queue of one luxid; what is handed over is recorded in its store."""

    def __init__(self, luxi: Luxi, store: Store, *, settle: bool = True) -> None:
        """``settle``: whether jobs that a daemon before has submitted may still appear."""
        self._luxi, self._store = luxi, store
        self._routine = RoutineJobs(luxi, settle=settle)

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        """Hand over the jobs of all tasks at once and record their numbers."""
        done = submit.submit(started, incidents, self._store, self._luxi, routine)
        if any(one.unknown for one in done.routine.values()):
            self._routine.await_jobs(time.time_ns())
        return done

    def routine(self, now: int, *, wanted: bool) -> Seen:
        """The jobs of routine work; raises StewardError."""
        if not (wanted or self._routine.running):
            return Seen()
        return self._routine.look(now)

    def tagged_jobs(self) -> Mapping[int, JobState]:
        """Number -> state of the jobs that tags of instances name; raises StewardError."""
        return tagged_jobs(self._luxi)

    def ended(self, numbers: Iterable[int]) -> bool:
        """Whether one of these jobs has ended; raises StewardError."""
        return any(state.ended for state in self._luxi.states(list(numbers)))

    def look_up(self, submissions: Iterable[Submission], now: int) -> Mapping[str, tuple[int, ...]]:
        """Submission id -> numbers of its jobs; raises StewardError."""
        return submit.look_up(submissions, self._luxi, now)

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission; raises StewardError."""
        return submit.job_states(incidents, self._luxi)

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started."""
        return submit.cancel(numbers, self._luxi)
