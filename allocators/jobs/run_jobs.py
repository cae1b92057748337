"""Running job sets: the jobs of a set at the same time, the sets one after the other.

The first set with a job that does not succeed is the last.  An interrupt lets the running set
end and submits nothing more; a second one leaves at once, and the jobs go on by themselves.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, NamedTuple, Self

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Jobs
from ganeti_steward.core.model.job_state import ERROR, FINAL, SUCCESS, JobState
from ganeti_steward.core.model.opcodes import Job

#: Not words of Ganeti: the job was not taken; it is not known whether it was.
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
_OVER: Final = FINAL | {REFUSED, UNKNOWN}

#: Seconds between two looks at the jobs: at first, and at most.
_FIRST_STEP: Final = 0.25
_LAST_STEP: Final = 3.0
#: Consecutive failures to read the jobs' states after which they are no longer waited for.
_MAX_FAILURES: Final = 10


class JobRun(NamedTuple):
    """One job and how far it is."""

    job: Job
    number_of_set: int
    """counted from 1"""
    numbers: tuple[int, ...] = ()
    """Ganeti's numbers of it; several where each operation is a job of its own"""
    status: str = "queued"
    error: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in _OVER


class Result(NamedTuple):
    """The results of job sets."""

    runs: tuple[JobRun, ...]
    """the jobs of all sets that were begun, in their order"""
    left: tuple[Job, ...]
    """those of the other sets"""
    interrupted: bool = False
    trouble: str = ""
    """why jobs that still run are not waited for, except for an interrupt"""

    @property
    def failed(self) -> tuple[JobRun, ...]:
        """Jobs that ended in another way than success."""
        return tuple(run for run in self.runs if run.over and run.status != SUCCESS)

    @property
    def running(self) -> tuple[JobRun, ...]:
        """Jobs that go on."""
        return tuple(run for run in self.runs if not run.over)

    @property
    def done(self) -> tuple[JobRun, ...]:
        """Jobs that succeeded."""
        return tuple(run for run in self.runs if run.status == SUCCESS)

    @property
    def complete(self) -> bool:
        """Whether every job succeeded."""
        return not self.left and len(self.done) == len(self.runs)


def run_job_sets(
    jobs: Jobs,
    sets: Sequence[Sequence[Job]],
    *,
    reason: str,
    report: Callable[[JobRun], None] = lambda run: None,
    interrupts: Callable[[], int] = lambda: 0,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Run job sets; raises StewardError before anything is done when a job cannot be run.

    ``reason`` goes to the jobs' reason trail, ``report`` is called with each change of a job's
    state, ``interrupts`` counts how often the user pressed Ctrl-C.
    """
    for one in (job for members in sets for job in members):
        refusal = jobs.refusal(one)
        if refusal:
            raise StewardError(f"{jobs.where}: {refusal}; nothing was done")
    runs: list[JobRun] = []
    trouble = ""
    for number, members in enumerate(sets, 1):
        if interrupts():
            break
        begun = _Set(jobs, report)
        begun.submit(members, number, reason)
        trouble = begun.wait(interrupts, sleep)
        runs += begun.runs
        if trouble or any(run.status != SUCCESS for run in begun.runs):
            break
    begun_sets = runs[-1].number_of_set if runs else 0
    left = tuple(job for members in sets[begun_sets:] for job in members)
    return Result(tuple(runs), left, bool(interrupts()), trouble)


def run_side_by_side(
    jobs: Jobs,
    members: Sequence[Job],
    most: int,
    *,
    reason: str,
    report: Callable[[JobRun], None] = lambda run: None,
    interrupts: Callable[[], int] = lambda: 0,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Run jobs that do not depend on each other, ``most`` at the same time.

    A failure holds back none of the others; an interrupt lets those end that were submitted.  The
    arguments are those of `run_job_sets`; the runs have the order of ``members``.
    """
    begun, waiting = _Set(jobs, report), list(members)

    def submit_more() -> bool:
        room = 0 if interrupts() else most - sum(not run.over for run in begun.runs)
        if next_ones := waiting[:room]:
            del waiting[:room]
            begun.submit(next_ones, 1, reason)
        return bool(next_ones)

    trouble = begun.wait(interrupts, sleep, submit_more)
    return Result(tuple(begun.runs), tuple(waiting), bool(interrupts()), trouble)


class _Set:
    """The jobs of one set on their way."""

    def __init__(self, jobs: Jobs, report: Callable[[JobRun], None]) -> None:
        self.runs: list[JobRun] = []
        self._jobs = jobs
        self._report = report

    def submit(self, members: Sequence[Job], number: int, reason: str) -> None:
        try:
            submitted = self._jobs.submit(members, reason)
        except StewardError as err:
            # It is not known whether they were taken before the connection broke.
            runs = [JobRun(job, number, (), UNKNOWN, str(err)) for job in members]
        else:
            runs = [
                JobRun(job, number, numbers, "queued" if numbers else REFUSED, error)
                for job, (numbers, error) in zip(members, submitted, strict=True)
            ]
        self.runs += runs
        for run in runs:
            self._report(run)

    def wait(
        self,
        interrupts: Callable[[], int],
        sleep: Callable[[float], None],
        submit_more: Callable[[], bool] = lambda: False,
    ) -> str:
        """Until all have ended; the reason if the wait ended earlier.

        ``submit_more``: whether it has submitted further ones, as far as there is room.
        """
        step, failures = _FIRST_STEP, 0
        while submit_more() or not all(run.over for run in self.runs):
            if interrupts() > 1:
                return ""
            sleep(step)
            step = min(step * 1.3, _LAST_STEP)
            try:
                self._look()
                failures = 0
            except StewardError as err:
                # luxid may be restarting, or another node becoming master.
                failures += 1
                if failures == _MAX_FAILURES:
                    return str(err)
        return ""

    def _look(self) -> None:
        open_runs = [run for run in self.runs if not run.over]
        numbers = [number for run in open_runs for number in run.numbers]
        states = dict(zip(numbers, self._jobs.states(numbers), strict=True))
        for at, run in enumerate(self.runs):
            if not run.over:
                self.runs[at] = now = _updated(run, [states[n] for n in run.numbers])
                if now.status != run.status:
                    self._report(now)


def _updated(run: JobRun, states: Sequence[JobState]) -> JobRun:
    """A job's state from those of the jobs it became."""
    failed = next((state for state in states if state.ended and state.status != SUCCESS), None)
    going = next((state for state in states if not state.ended), None)
    if failed is not None:
        # Those that depend on it will fail in a moment.
        error = failed.error or run.error
        return run if going else run._replace(status=failed.status, error=error)
    if going is not None:
        return run._replace(status=going.status)
    # All there is has succeeded, but perhaps not all was taken.
    return run._replace(status=ERROR if run.error else SUCCESS)


class Interrupts:
    """Counts SIGINT and SIGTERM instead of dying of them.

    The second one restores what was before, so that a third ends even a call that hangs.
    """

    def __init__(self, notify: Callable[[int], None] = lambda count: None) -> None:
        """``notify`` is called with the count at each one."""
        self._count = 0
        self._notify = notify
        self._before: dict[int, Any] = {}

    def __call__(self) -> int:
        """How many there were."""
        return self._count

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            self._restore()
        self._notify(self._count)

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}


def interrupt_printer(waits_for: str) -> Callable[[int], None]:
    """Prints what an interrupt does, and what another one would; gets their count.

    ``waits_for``: what the first one lets end, for example "the running set".
    """

    def print_interrupt(count: int) -> None:
        if count == 1:
            text = (
                f"interrupted: waiting for {waits_for}; press Ctrl-C again to exit immediately, "
                "submitted jobs continue"
            )
        else:
            text = "interrupted again: exiting; submitted jobs continue"
        print(text, file=sys.stderr, flush=True)

    return print_interrupt
