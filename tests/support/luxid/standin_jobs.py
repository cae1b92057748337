"""The job queue of the stand-in for luxid: states, dependencies, and what jobs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from standin_effects import EFFECTS, Fault

if TYPE_CHECKING:
    from live import Ganeti

Row = dict[str, Any]

QUEUED: Final = "queued"
RUNNING: Final = "running"
SUCCESS: Final = "success"
ERROR: Final = "error"
CANCELED: Final = "canceled"
FINAL: Final = frozenset({SUCCESS, ERROR, CANCELED})


class Jobs:
    """Jobs that run one ``pace`` (seconds) each, all at the same time; ``clock`` in ns."""

    def __init__(self, ganeti: Ganeti, clock: Callable[[], int]) -> None:
        self.ganeti = ganeti
        self.clock = clock
        self.pace = 0.0
        self.faults: list[tuple[str, str, str]] = []
        """operation, a name it must hold, text: what fails and how"""
        self.filtered: Callable[[Row], bool] = lambda job: False
        """whether filter rules hold a queued job"""
        self.jobs: dict[int, Row] = {}
        self.last = 0

    def allocate(self, jobs: int) -> range:
        """The numbers of so many jobs that are stored later."""
        self.last += jobs
        return range(self.last + 1 - jobs, self.last + 1)

    def store(self, numbers: Sequence[int], jobs: Sequence[Sequence[Row]]) -> list[list[Any]]:
        for number, job in zip(numbers, jobs, strict=True):
            self._store_one(number, job)
        return [[True, number] for number in numbers]

    def _store_one(self, number: int, operations: Sequence[Row]) -> None:
        ops = [self._stored(number, at, op) for at, op in enumerate(operations)]
        self.jobs[number] = {
            "id": number,
            "status": QUEUED,
            "ops": ops,
            "opstatus": [QUEUED] * len(ops),
            "opresult": [None] * len(ops),
            "archived": False,
            "received": self.clock(),
            "started": None,
            "end_ts": None,
        }

    def _stored(self, number: int, at: int, operation: Row) -> Row:
        """As luxid keeps it: with its own reason, and with absolute dependencies."""
        name = operation["OP_ID"].removeprefix("OP_").lower()
        own = [f"gnt:opcode:{name}", f"job={number};index={at}", self.clock()]
        depends = [
            [one if one > 0 else number + one, states]
            for one, states in operation.get("depends") or ()
        ]
        usual = {"priority": 0, "comment": None}
        return {
            **usual,
            **operation,
            "depends": depends or None,
            "reason": [*operation["reason"], own],
        }

    def advance(self) -> None:
        """Start and end what can be by now."""
        moved = True
        while moved:
            moved = False
            for job in self.jobs.values():
                held = job["status"] == QUEUED and self.filtered(job)
                if job["status"] == QUEUED and not held and self._may_start(job):
                    self._set(job, RUNNING, job["opresult"])
                    job["started"] = self.clock()
                    moved = True
                if job["status"] == RUNNING and self.clock() >= job["started"] + self.pace * 1e9:
                    self._end(job)
                    moved = True

    def _may_start(self, job: Row) -> bool:
        depends = [one for op in job["ops"] for one in op["depends"] or ()]
        for number, states in depends:
            if number not in self.jobs:
                self._set(
                    job, ERROR, [["OpExecError", [f"Dependency error: Job {number} not found"]]]
                )
                return False
            status = self.jobs[number]["status"]
            if status not in FINAL:
                return False
            if states and status not in states:
                wanted = ", ".join(f"'{state}'" for state in states)
                text = (
                    f"Dependency job {number} finished with status '{status}', not one of "
                    f"{wanted} as required"
                )
                self._set(job, ERROR, [["OpExecError", [text]]] * len(job["ops"]))
                return False
        return True

    def _end(self, job: Row) -> None:
        results: list[Any] = []
        for op in job["ops"]:
            # Added by the process that runs the job.
            op["debug_level"] = 0
            try:
                self._injected(op)
                results.append(EFFECTS[op["OP_ID"]](self.ganeti, op))
            except Fault as err:
                left = len(job["ops"]) - len(results) - 1
                after = ["OpExecError", ["Preceding opcode failed"]]
                done = [SUCCESS] * len(results)
                self._set(job, ERROR, [*results, err.written, *[after] * left])
                job["opstatus"] = done + [ERROR] * (left + 1)
                return
        self._set(job, SUCCESS, results)

    def _injected(self, op: Row) -> None:
        names = (op.get("instance_name"), op.get("node_name"), op.get("name"))
        for operation, name, text in self.faults:
            if op["OP_ID"] == operation and (not name or name in names):
                raise Fault("OpExecError", text)

    def _set(self, job: Row, status: str, results: Sequence[Any]) -> None:
        job["status"] = status
        if status in FINAL:
            job["end_ts"] = list(divmod(self.clock() // 1000, 10**6))
        job["opstatus"] = [status] * len(job["ops"])
        job["opresult"] = list(results)

    def cancel(self, number: int) -> list[Any]:
        job = self.jobs.get(number)
        if job is None or job["status"] in FINAL:
            return [False, f"Job {number} not found in queue"]
        if job["status"] == RUNNING:
            return [False, "Job no longer waiting, can't cancel (informed it anyway)"]
        self._set(job, CANCELED, job["opresult"])
        return [True, f"Dequeued job {number}"]
