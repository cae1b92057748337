"""luxid's job queue as the loop needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.maintenance.incident import Incident, Submission
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.edges import submit
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.edges.submit import HandedOver
from ganeti_steward.plugins.maintenance.engine.decision import Started


class LuxiQueue:
    """The queue of one luxid; what is handed over is recorded in its store."""

    def __init__(self, luxi: Luxi, store: Store) -> None:
        self._luxi, self._store = luxi, store

    def submit(self, started: Sequence[Started], incidents: Mapping[str, Incident]) -> HandedOver:
        """Hand over the jobs of all tasks at once and record their numbers."""
        return submit.submit(started, incidents, self._store, self._luxi)

    def look_up(self, submissions: Iterable[Submission], now: int) -> Mapping[str, tuple[int, ...]]:
        """Submission id -> numbers of its jobs; raises StewardError."""
        return submit.look_up(submissions, self._luxi, now)

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission; raises StewardError."""
        return submit.job_states(incidents, self._luxi)

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started."""
        return submit.cancel(numbers, self._luxi)
