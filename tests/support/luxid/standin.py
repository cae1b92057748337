"""A stand-in for luxid with a cluster, filter rules and a job queue in memory.

Methods that start with ``test.`` are for tests.  `tests/lab/maintenance` compares its answers with
those of the real luxid; `standin_server` serves it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final
from uuid import uuid4

from live import Ganeti
from standin_effects import EFFECTS
from standin_jobs import Jobs

Row = dict[str, Any]

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": eq, "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge
}  # fmt: skip


class Refusal(Exception):
    """What luxid answers instead of a result."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class StandIn:
    """The answers; not safe for several threads at once."""

    def __init__(
        self,
        message: Row,
        clock: Callable[[], int] = time.time_ns,
        templates: Sequence[str] = ("drbd", "plain"),
    ) -> None:
        self.ganeti = Ganeti(message, templates)
        self.clock = clock
        self.queue = Jobs(self.ganeti, clock)
        self.filters: dict[str, Row] = {}
        self.drained = False
        self.late = 0.0
        """seconds from the allocation of numbers until their jobs are stored, see `storing`"""
        self.storing: Callable[[float], None] = lambda seconds: None
        """what waits in between; other requests may be answered meanwhile"""
        self.submissions: list[Any] = []
        """the arguments of every SubmitManyJobs that was taken"""

    def answer(self, method: str, arguments: Sequence[Any]) -> Row:
        """The whole answer to one request."""
        self.queue.advance()
        try:
            call = METHODS.get(method)
            if call is None:
                raise Refusal(f"Failed to parse request: Unknown method {method}")
            return {"success": True, "result": call(self, *arguments)}
        except Refusal as err:
            return {"success": False, "result": err.error}
        finally:
            self.queue.advance()

    # Queries

    def info(self) -> Row:
        return self.ganeti.info

    def query(self, what: str, fields: Sequence[str], condition: Any) -> Row:
        # As luxid: the archive is looked into where this field is requested.
        rows = self._rows(what, archived="archived" in fields)
        rows = [row for row in rows if _holds(condition, row)]
        described = [{"name": f, "title": f, "kind": "other", "doc": f} for f in fields]
        return {
            "fields": described,
            "data": [[_field(row, field) for field in fields] for row in rows],
        }

    def _rows(self, what: str, *, archived: bool) -> list[Row]:
        if what == "filter":
            return list(self.filters.values())
        if what == "job":
            return [job for job in self.queue.jobs.values() if archived or not job["archived"]]
        return self.ganeti.rows(what)

    def query_jobs(self, numbers: Sequence[int] | None, fields: Sequence[str]) -> list[Any]:
        jobs = self.queue.jobs
        unknown = dict.fromkeys(fields)
        wanted = jobs if numbers is None else numbers
        return [
            [{**unknown, "id": one, **jobs.get(one, {})}[field] for field in fields]
            for one in wanted
        ]

    # Jobs

    def submit(self, jobs: Sequence[Sequence[Row]]) -> list[Any]:
        for operation in (op for job in jobs for op in job):
            if operation["OP_ID"] not in EFFECTS:
                fault = f"Unknown opcode {operation['OP_ID']}"
                raise Refusal(f"Failed to parse request: SubmitManyJobs: {fault}")
            if not isinstance(operation.get("reason"), list):
                raise Refusal("Failed to parse request: SubmitManyJobs: key 'reason' not found")
        if self.drained:
            raise Refusal(["GenericError", ["Queue drained"]])
        self.submissions.append(jobs)
        numbers = self.queue.allocate(len(jobs))
        if self.late:
            self.storing(self.late)
        return self.queue.store(numbers, jobs)

    def drain(self, value: bool) -> bool:
        self.drained = value
        return True

    def archive(self, number: int) -> bool:
        self.queue.jobs[number]["archived"] = True
        return True

    # Filter rules

    def replace_filter(
        self, uuid: str | None, priority: int, predicates: Any, action: Any, reason: list[Any]
    ) -> str:
        if uuid is not None and not _UUID.fullmatch(uuid):
            raise Refusal(["GenericError", ["Unable to parse UUID"]])
        uuid = uuid or str(uuid4())
        self.filters[uuid] = {
            "uuid": uuid,
            "watermark": self.queue.last,
            "priority": priority,
            "predicates": predicates,
            "action": action,
            "reason_trail": [*reason, ["luxid", "", self.clock()]],
        }
        return uuid

    def delete_filter(self, uuid: str) -> None:
        if self.filters.pop(uuid, None) is None:
            raise Refusal(["GenericError", [f"Filter rule with UUID {uuid} does not exist"]])

    # For tests

    def change(self, kind: str, name: str, changes: Row) -> None:
        """Change an object at once: kind node, instance, group, or cluster."""
        if kind == "cluster":
            self.ganeti.info.update(changes)
            return
        rows = self.ganeti.rows(kind)
        next(row for row in rows if row["name"] == name).update(changes)

    def leave(self, node: str) -> None:
        """Take a node out of the cluster."""
        self.ganeti.nodes[:] = [row for row in self.ganeti.nodes if row["name"] != node]

    def pace(self, seconds: float) -> None:
        """Let every job run for so long."""
        self.queue.pace = seconds

    def delay(self, seconds: float) -> None:
        """Let every job be stored so much later than its number is allocated."""
        self.late = seconds

    def fail(self, operation: str, name: str, text: str) -> None:
        """Let every operation of a kind that names an object fail; ``name`` empty: any."""
        self.queue.faults.append((operation, name, text))

    def submitted(self) -> list[Any]:
        return self.submissions


METHODS: Final[dict[str, Callable[..., Any]]] = {
    "QueryClusterInfo": StandIn.info,
    "Query": StandIn.query,
    "QueryJobs": StandIn.query_jobs,
    "SubmitManyJobs": StandIn.submit,
    "CancelJob": lambda self, number, kill: self.queue.cancel(number),
    "ArchiveJob": StandIn.archive,
    "SetDrainFlag": StandIn.drain,
    "ReplaceFilter": StandIn.replace_filter,
    "DeleteFilter": StandIn.delete_filter,
    "test.change": StandIn.change,
    "test.leave": StandIn.leave,
    "test.pace": StandIn.pace,
    "test.fail": StandIn.fail,
    "test.late": StandIn.delay,
    "test.submitted": StandIn.submitted,
}


def _field(row: Row, field: str) -> list[Any]:
    """Status and value: 1 unknown field, 2 no value."""
    if field not in row:
        return [1, None]
    return [0, row[field]] if row[field] is not None else [2, None]


def _holds(condition: Any, row: Row) -> bool:
    """A condition of luxid's query language."""
    if condition is None:
        return True
    operator, *rest = condition
    if operator in ("&", "|"):
        return (all if operator == "&" else any)(_holds(one, row) for one in rest)
    if operator == "!":
        return not _holds(rest[0], row)
    if operator == "?":
        return bool(row[rest[0]])
    if operator == "=[]":
        return rest[1] in row[rest[0]]
    return _COMPARED[operator](row[rest[0]], rest[1])
