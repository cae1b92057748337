"""luxid of the demo: the simulated cluster, with jobs that run in real time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from operator import ge, gt, le
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.job_state import ERROR, JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.demo.rows import Row, info, rows, table
from ganeti_steward.plugins.maintenance.simulation.assumptions import Assumptions
from ganeti_steward.plugins.maintenance.simulation.measured import Measured
from ganeti_steward.plugins.maintenance.simulation.running_jobs import RunningJobs
from ganeti_steward.plugins.maintenance.simulation.schedule import Schedule
from ganeti_steward.plugins.maintenance.simulation.site import Site

#: Copies take no time to speak of, so that the jobs of a demo are short.
_ASSUMED: Final = Assumptions(job_failures=0, copied_per_second=1e5, migrated_per_second=1e5)

_COMPARED: Final[dict[str, Callable[[int, int], bool]]] = {">": gt, ">=": ge, "<=": le}


class Refusal(StewardError):
    """What luxid answers instead of a result."""


class Submitted(NamedTuple):
    """A job, and the cluster as it was when the job was submitted."""

    number: int
    job: Job
    cluster: Cluster


class Luxid:
    """The answers; called by several threads."""

    def __init__(self, start: World, speed: float, clock: Callable[[], int] = time.time_ns) -> None:
        """``speed``: how much faster jobs are than in Ganeti; ``clock``: ns since the epoch."""
        self._begin, self._clock, self._speed = clock(), clock, speed
        self._schedule = schedule = Schedule(self._begin)
        self.site = Site(start, lambda: schedule.now)
        self._jobs = RunningJobs(self.site, schedule, Measured(lambda: schedule.now), _ASSUMED)
        self._filters: dict[str, Row] = {}
        self._submitted: list[Submitted] = []
        self._lock = threading.Lock()
        self._methods: Final[dict[str, Callable[..., Any]]] = {
            "QueryClusterInfo": lambda: info(self.site),
            "Query": self._query,
            "QueryJobs": self._query_jobs,
            "SubmitManyJobs": self._submit,
            "CancelJob": self._cancel,
            "ReplaceFilter": self._replace_filter,
            "DeleteFilter": self._delete_filter,
        }

    def answer(self, raw: bytes) -> bytes:
        """The answer to one request, both as JSON."""
        try:
            request = load_json(raw)
            with self._lock:
                self._advance()
                result = self._methods[request["method"]](*request["args"])
        except Refusal as err:
            return json.dumps({"success": False, "result": str(err)}).encode()
        except (KeyError, TypeError, ValueError) as err:
            text = f"the demo does not know this request: {type(err).__name__}: {err}"
            return json.dumps({"success": False, "result": text}).encode()
        return json.dumps({"success": True, "result": result}).encode()

    def submitted(self) -> tuple[Submitted, ...]:
        """All jobs, in their order."""
        with self._lock:
            return tuple(self._submitted)

    def state(self, number: int) -> JobState:
        """How far a job is now."""
        with self._lock:
            self._advance()
            return self._jobs.state(number)

    def _advance(self) -> None:
        """Let happen what has happened since the last call."""
        now = self._begin + int((self._clock() - self._begin) * self._speed)
        while (at := self._schedule.next) is not None and at <= now:
            self._schedule.run()
        self._schedule.now = max(now, self._schedule.now)

    # Queries

    def _query(self, what: str, fields: Sequence[str], condition: Any) -> Row:
        if what == "job":
            found = [row for one in self._submitted if _holds(condition, row := self._job(one))]
        else:
            found = list(self._filters.values()) if what == "filter" else rows(self.site, what)
        return table(found, fields)

    def _job(self, one: Submitted) -> Row:
        state = self._jobs.state(one.number)
        failed = state.status == ERROR
        return {
            "id": one.number,
            "status": state.status,
            "ops": one.job,
            "opstatus": [state.status] * len(one.job),
            "opresult": [state.error] * len(one.job) if failed else list(state.results),
            "archived": False,
        }

    def _query_jobs(self, numbers: Sequence[int], fields: Sequence[str]) -> list[Any]:
        known = {one.number: one for one in self._submitted}
        found = [self._job(known[n]) if n in known else {"id": n} for n in numbers]
        return [[row.get(field) for field in fields] for row in found]

    # Changes

    def _submit(self, jobs: Sequence[Job]) -> list[Any]:
        cluster = self.site.cluster
        taken = [Submitted(self._jobs.add(job), job, cluster) for job in jobs]
        self._submitted += taken
        self._jobs.start()
        return [[True, one.number] for one in taken]

    def _cancel(self, number: int, _kill: bool) -> list[Any]:
        good = self._jobs.cancel(number)
        return [good, f"job {number} was {'dequeued' if good else 'not waiting any more'}"]

    def _replace_filter(
        self, uuid: str, priority: int, predicates: Any, action: Any, reasons: Any
    ) -> str:
        self._filters[uuid] = {
            "uuid": uuid,
            "watermark": len(self._submitted),
            "priority": priority,
            "predicates": predicates,
            "action": action,
            "reason_trail": reasons,
        }
        return uuid

    def _delete_filter(self, uuid: str) -> None:
        if self._filters.pop(uuid, None) is None:
            raise Refusal(f"there is no filter rule {uuid}")


def _holds(condition: Any, row: Row) -> bool:
    """The conditions that this program uses, of luxid's query language."""
    if condition is None:
        return True
    operator, *rest = condition
    if operator in ("&", "|"):
        return (all if operator == "&" else any)(_holds(one, row) for one in rest)
    field, value = rest
    return row[field] == value if operator == "=" else _COMPARED[operator](row[field], value)
