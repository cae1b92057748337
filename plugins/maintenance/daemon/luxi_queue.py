"""luxid as the loop needs it: its job queue, and the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.shapes import returned_by
from ganeti_steward.core.ganeti.snapshot import Client, read_live
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.queue import submit
from ganeti_steward.plugins.maintenance.queue.calls import ROUND_WAIT, CallNotes, Calls, Connections
from ganeti_steward.plugins.maintenance.queue.orphans import OpenJobs, Unrecorded, orphans_of
from ganeti_steward.plugins.maintenance.queue.routine_jobs import RoutineJobs, Seen, tagged_jobs
from ganeti_steward.plugins.maintenance.queue.submit import HandedOver, LookedUp
from ganeti_steward.plugins.maintenance.queue.transfers import transfers
from ganeti_steward.plugins.maintenance.runtime import REAL, Runtime
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.progress import Transfer
from ganeti_steward.plugins.model.world import World


class LuxiQueue:
    """The queue of one luxid; what is handed over is recorded in its store."""

    def __init__(
        self,
        luxi: Luxi,
        store: Store,
        *,
        wait: float = ROUND_WAIT,
        wake: Callable[[], None] = lambda: None,
        notes: CallNotes | None = None,
        connections: Connections | None = None,
        runtime: Runtime = REAL,
        given: Callable[[], int | None] = lambda: None,
    ) -> None:
        """``wait``: seconds for which `submit` waits for luxid's answer.

        ``wake`` is called by another thread when a call has ended.  ``notes``: what the daemon
        before was handing over at its end; None: that is not known.  ``connections``: those to
        luxid; None: the real ones.  ``given``: the last number that luxid has given out, see
        `job_search.last_job`.
        """
        self._luxi, self._store, self._notes = luxi, store, notes
        self._calls = Calls(wait, wake, notes, runtime)
        self._connections = connections or Connections(luxi.path)
        self._routine = RoutineJobs(luxi, self._is_over, given)
        self._open = OpenJobs(luxi, given)

    def _is_over(self) -> bool:
        """Whether every call that has handed over jobs is over, those of an earlier daemon too."""
        return not (self._calls.running() or self._before())

    def _before(self) -> str:
        """Why calls of an earlier daemon may go on; empty when none does."""
        if self._notes and not self._notes.any_before:
            return ""
        why = self._connections.awaited()
        if self._notes and not why:
            self._notes.forget_before()
        return why

    def _awaited(self, submissions: Collection[str]) -> Mapping[str, str]:
        """Submission -> why an earlier daemon's call for it may go on; the others are over."""
        found = [one for one in submissions if not self._notes or self._notes.may_go_on(one)]
        why = self._before() if found else ""
        return dict.fromkeys(found, why) if why else {}

    def submit(
        self,
        started: Sequence[Started],
        incidents: Mapping[str, Incident],
        routine: Sequence[RoutineStarted],
    ) -> HandedOver:
        """Hand over the jobs of all tasks at once and record their numbers."""
        # So that the notes are complete as soon as they can be.
        self._before()
        return submit.submit(started, incidents, self._store, self._luxi, routine, self._calls)

    def withdraw(self, submission: str, reason: str) -> None:
        """Note that a submission that may be recorded is not handed over."""
        self._calls.withdraw(submission, reason)

    def unrecorded(self, incidents: Iterable[Incident]) -> Unrecorded:
        """What the queue has that no record knows; raises StewardError."""
        # Before the queue is read: what has ended meanwhile is there.
        running, recorded = self._calls.running(), [*incidents]
        ids = {submission.id for incident in recorded for submission in incident.open}
        known = not (self._notes and self._notes.without_record(ids) and self._before())
        rows = self._open.read()
        found, numbers = orphans_of(rows, running, recorded), tuple(row["id"] for row in rows)
        return Unrecorded(found, self._open.last, known, numbers)

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

    def look_up(self, submissions: Iterable[Submission]) -> LookedUp:
        """What became of the submissions without numbers; raises StewardError."""
        return submit.look_up(submissions, self._luxi, self._calls, self._awaited)

    def states(self, incidents: Iterable[Incident]) -> Mapping[int, JobState]:
        """Number -> state of each job of an open submission; raises StewardError."""
        return submit.job_states(incidents, self._luxi)

    def transfers(self, numbers: Iterable[int]) -> Mapping[int, Transfer]:
        """Number -> what the job copies, of those that copy memory now."""
        try:
            return transfers(numbers, self._luxi)
        except StewardError:
            # Only a sentence depends on it.
            return {}

    def cancel(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Cancel jobs that have not started."""
        return submit.cancel(numbers, self._luxi)


def read_world(
    client: Client,
    now: int,
    *,
    storage: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> World:
    """The cluster at ``now`` (ns since the epoch), without incidents and observations.

    A node that does not answer has no figures and counts as silent; nothing else is lost.  Where
    Ganeti does not report the free space of the instances' storage in its usual answer, a job is
    submitted that queries it; if it fails or waits too long, the nodes have no disk figures.
    ``storage`` false: no job is submitted, and that space counts as none.  Raises StewardError
    when luxid does not answer.
    """
    with returned_by(client.where):
        found = read_live(client, storage=storage, required=False, sleep=sleep)
        return World(now, found.cluster, found.info["candidate_pool_size"])
