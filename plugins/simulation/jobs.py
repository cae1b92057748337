"""luxid's jobs: their states, and when what they do happens.

What the operations of a job do is up to a cluster: `operations`, or one of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from ganeti_steward.core.ganeti.jobs import job_state
from ganeti_steward.core.model.job_state import CANCELED, ERROR, FINAL, SUCCESS, JobState
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import QUEUED, RUNNING, Job, read_job
from ganeti_steward.plugins.filters.queue import MOST_RUNNING, JobQueue, Schedule

Row = dict[str, Any]
Operation = Mapping[str, Any]


class JobFailed(Exception):
    """An operation fails; what Ganeti writes: the name of its error and the arguments."""

    def __init__(self, text: str, *more: str, kind: str = "OpPrereqError") -> None:
        super().__init__(text)
        self.written = [kind, [text, *more]]


class Operations(Protocol):
    """What operations do."""

    @property
    def known(self) -> Mapping[str, Any]:
        """By opcode."""

    def begin(self, operation: Operation) -> tuple[float, Callable[[], Any]]:
        """It starts: the ns until its end, and what happens then, which returns its result.

        Both raise Failed.
        """


class SimulatedJobs:
    """All jobs of one luxid."""

    def __init__(
        self,
        schedule: Schedule,
        operations: Operations,
        ended: Callable[[Row], None] = lambda row: None,
        most_running: int = MOST_RUNNING,
    ) -> None:
        """``ended`` is called with the row of each job that ends."""
        self._schedule, self._operations, self._on_end = schedule, operations, ended
        self._queue = JobQueue((), self._start, self._reject, most_running)
        self.rows: dict[int, Row] = {}
        """number -> fields as luxid reports them, of all jobs"""
        self.last = 0
        """the highest number that was given to a job"""

    def state(self, number: int) -> JobState:
        """The state of one job; one that was never added is lost."""
        row = self.rows.get(number)
        if row is None:
            return JobState.lost(number)
        return job_state(number, row["status"], row["opstatus"], row["opresult"])

    def ended(self, number: int) -> int:
        """When a job ended, ns since the epoch; 0: it has not."""
        seconds, microseconds = self.rows[number]["end_ts"] or (0, 0)
        return int((seconds * 10**6 + microseconds) * 1000)

    @property
    def unfinished(self) -> bool:
        """Whether there is a job that has not ended."""
        return bool(self._queue.jobs)

    def moving(self) -> set[str]:
        """Names of the instances that a started job moves."""
        started = [one for one in self._queue.jobs.values() if one.status in RUNNING]
        ops = [op for one in started for op in one.opcodes]
        return {op["instance_name"] for op in ops if op["OP_ID"] in MOVES}

    def use(self, rules: Iterable[FilterRule]) -> None:
        """Have these filter rules from now on."""
        self._queue.use(rules)

    def advance(self) -> None:
        """One pass of luxid's scheduler."""
        self._queue.advance()

    # Submission

    def allocate(self, count: int) -> range:
        """The numbers of so many jobs, to be stored later."""
        self.last += count
        return range(self.last + 1 - count, self.last + 1)

    def add(self, operations: Sequence[Operation]) -> int:
        """Queue a job, without a pass; its number."""
        (number,) = self.allocate(1)
        self.store(number, operations)
        return number

    def store(self, number: int, operations: Sequence[Operation]) -> None:
        """Queue a job with this number, without a pass."""
        ops = [self._stored(number, at, one) for at, one in enumerate(operations)]
        job = read_job({"id": number, "ops": ops})
        self.rows[number] = {
            "id": number,
            "status": QUEUED,
            "priority": job.priority,
            "ops": ops,
            "opstatus": [QUEUED] * len(ops),
            "opresult": [None] * len(ops),
            "opexec": [None] * len(ops),
            "opend": [None] * len(ops),
            "oplog": [[] for _ in ops],
            "archived": False,
            "received_ts": self._time(),
            "start_ts": None,
            "end_ts": None,
        }
        self._queue.submit(job)

    def _stored(self, number: int, at: int, operation: Operation) -> Row:
        """As luxid keeps it: with a reason of its own, and with absolute dependencies."""
        name = operation["OP_ID"].removeprefix("OP_").lower()
        own = [f"gnt:opcode:{name}", f"job={number};index={at}", self._schedule.now]
        depends = [
            [one if one > 0 else number + one, states]
            for one, states in operation.get("depends") or ()
        ]
        return {
            "priority": 0,
            "comment": None,
            **operation,
            "depends": depends or None,
            "reason": [*operation.get("reason", ()), own],
        }

    def _time(self) -> list[int]:
        return list(divmod(self._schedule.now // 1000, 10**6))

    def cancel(self, number: int) -> list[Any]:
        """Cancel a job that has not started, without a pass; whether it was one, and a sentence."""
        row = self.rows.get(number)
        if row is None or row["status"] in FINAL:
            return [False, f"Job {number} not found in queue"]
        if row["status"] in RUNNING:
            return [False, "Job no longer waiting, can't cancel (informed it anyway)"]
        self._queue.end(number)
        self._finish(row, CANCELED)
        return [True, f"Dequeued job {number}"]

    # From start to end

    def _reject(self, job: Job) -> None:
        self._finish(self.rows[job.number], CANCELED)

    def _start(self, job: Job) -> None:
        row = self.rows[job.number]
        if any(self._was_canceled(one) for one in job.canceled_with):
            row["opresult"] = [_CANCELED] * len(row["ops"])
            self._queue.end(job.number)
            self._finish(row, CANCELED)
            # Not at once: this may be in the middle of a pass.
            self._schedule.after(0, self._queue.advance)
            return
        if fault := self._failed_before(row):
            self._fail(row, 0, JobFailed(fault, kind="OpExecError"))
            return
        row["status"], row["start_ts"] = "running", self._time()
        self._begin(row, 0)

    def _was_canceled(self, number: int) -> bool:
        return number in self.rows and self.rows[number]["status"] == CANCELED

    def _failed_before(self, row: Row) -> str:
        """Why it cannot start: a job that it depends on ended in another state."""
        for number, states in (each for op in row["ops"] for each in op["depends"] or ()):
            if number not in self.rows:
                return f"Dependency error: Job {number} not found"
            status = self.rows[number]["status"]
            if states and status not in states:
                wanted = ", ".join(f"'{state}'" for state in states)
                return (
                    f"Dependency job {number} finished with status '{status}', not one of "
                    f"{wanted} as required"
                )
        return ""

    def _begin(self, row: Row, at: int) -> None:
        """Start an operation of a job; ``at``: which one."""
        # Added by the process that runs the job.
        row["ops"][at]["debug_level"] = 0
        row["opstatus"][at] = "running"
        row["opexec"][at] = self._time()
        if row["ops"][at]["OP_ID"] == "OP_INSTANCE_MIGRATE":
            texts = enumerate(_MIGRATES, 1)
            row["oplog"][at] = [[serial, self._time(), "message", text] for serial, text in texts]
        try:
            delay, end = self._operations.begin(row["ops"][at])
        except JobFailed as err:
            self._fail(row, at, err)
        else:
            self._schedule.after(delay, partial(self._end, row, at, end))

    def _end(self, row: Row, at: int, end: Callable[[], Any]) -> None:
        try:
            row["opresult"][at] = end()
        except JobFailed as err:
            self._fail(row, at, err)
            return
        row["opstatus"][at], row["opend"][at] = SUCCESS, self._time()
        if at + 1 < len(row["ops"]):
            self._begin(row, at + 1)
        else:
            self._queue.end(row["id"])
            self._finish(row, SUCCESS)
            self._queue.advance()

    def _fail(self, row: Row, at: int, err: JobFailed) -> None:
        left = len(row["ops"]) - at
        row["opstatus"][at:] = [ERROR] * left
        row["opresult"][at:] = [err.written, *[_AFTER_A_FAILURE] * (left - 1)]
        self._queue.end(row["id"])
        self._finish(row, ERROR)
        # Not at once: this may be in the middle of a pass.
        self._schedule.after(0, self._queue.advance)

    def _finish(self, row: Row, status: str) -> None:
        row["status"], row["end_ts"] = status, self._time()
        if status == CANCELED:
            row["opstatus"] = [CANCELED] * len(row["ops"])
        self._on_end(row)


#: What Ganeti prints while it copies memory (``lib/cmdlib/instance_migration.py``).
_MIGRATES: Final = ("* starting memory transfer", "* memory transfer progress: 50.00 %")
_CANCELED: Final = "Job canceled by request"
_AFTER_A_FAILURE: Final = ["OpExecError", ["Preceding opcode failed"]]
