"""luxid's answers, and a socket with its framing: jobs and filter rules over any cluster of rows.

The clock is an argument.  Real luxid's words are kept where the daemon reads them; a test of the
lab compares.
"""

from __future__ import annotations

import json
import re
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import contains, eq, ge, gt, le, lt, ne
from typing import Any, Final, Protocol, cast
from uuid import uuid4

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import LONGEST, load_json
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, read_rules
from ganeti_steward.plugins.filters.language import faults_of_form
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.simulation.jobs import Operation, Operations, Row, SimulatedJobs

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq, "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge, "=[]": contains
}  # fmt: skip


class Configuration(Protocol):
    """The objects of a cluster, in the fields that luxid reports."""

    @property
    def info(self) -> Row:
        """What is known of the cluster as a whole."""

    def rows(self, what: str) -> Sequence[Row]:
        """All objects of a kind: ``node``, ``instance``, ``group`` or ``network``."""


class LuxidRefusal(StewardError):
    """What luxid answers instead of a result: a text, or its form of an error."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class Luxid:
    """One luxid; `answer` can be called by several threads, everything else by one at a time."""

    def __init__(
        self,
        cluster: Configuration,
        operations: Operations,
        schedule: Schedule,
        clock: Callable[[], int] = time.time_ns,
        speed: float = 1,
    ) -> None:
        """``clock``: ns since the epoch; ``speed``: how much faster jobs are than it."""
        self._cluster, self._schedule, self._known = cluster, schedule, operations.known
        self.clock, self._speed, self._begin = clock, speed, (clock(), schedule.now)
        self.queue = SimulatedJobs(schedule, operations)
        self.filters: dict[str, Row] = {}
        self._obeyed = True
        """whether the queue knows the rules as they are now"""
        self.drained = False
        self.lock = threading.Lock()
        self.methods: dict[str, Callable[..., Any]] = {
            "QueryClusterInfo": lambda: cluster.info,
            "QueryConfigValues": lambda fields: [None] * len(fields),
            "Query": self._query,
            "QueryJobs": self._query_jobs,
            "SubmitManyJobs": self.submit,
            "CancelJob": lambda number, kill: self.queue.cancel(number),
            "ArchiveJob": self._archive,
            "SetDrainFlag": self._drain,
            "ReplaceFilter": self.replace_filter,
            "DeleteFilter": self.delete_filter,
        }

    def answer(self, raw: bytes) -> bytes:
        """The answer to one request, both as JSON."""
        try:
            request = load_json(raw)
            with self.lock:
                found = self.call(request["method"], request["args"])
        except (KeyError, TypeError, ValueError) as err:
            found = {"success": False, "result": f"{type(err).__name__}: {err}"}
        return json.dumps(found).encode()

    def call(self, method: str, arguments: Sequence[Any]) -> Row:
        """The whole answer to one request."""
        self.advance()
        try:
            if method not in self.methods:
                raise LuxidRefusal(f"Failed to parse request: Unknown method {method}")
            return {"success": True, "result": self.methods[method](*arguments)}
        except LuxidRefusal as err:
            return {"success": False, "result": err.error}
        finally:
            self.advance()

    def advance(self) -> None:
        """Let happen what has happened since the last call."""
        began, now = self._begin
        self._schedule.run_until(now + int((self.clock() - began) * self._speed))
        if self.queue.unfinished:
            self._obey()
        self.queue.advance()
        self._schedule.run_until(self._schedule.now)

    # Queries

    def _query(self, what: str, fields: Sequence[str], condition: Any) -> Row:
        # As luxid: the archive is looked into where this field is requested.
        found = [one for one in self._rows(what, "archived" in fields) if _holds(condition, one)]
        return {
            "fields": [{"name": f, "title": f, "kind": "other", "doc": f} for f in fields],
            "data": [[_field(row, field) for field in fields] for row in found],
        }

    def _rows(self, what: str, archived: bool) -> Sequence[Row]:
        if what == "filter":
            return list(self.filters.values())
        if what == "job":
            return [job for job in self.queue.rows.values() if archived or not job["archived"]]
        return self._cluster.rows(what)

    def rows(self, what: str, fields: Sequence[str]) -> list[Row]:
        """The filter rules that have an effect, for `read_rules`."""
        found = (row for row in self._rows(what, archived=False) if row["action"] != CONTINUE)
        return [{field: row[field] for field in fields} for row in found]

    def _query_jobs(self, numbers: Sequence[int] | None, fields: Sequence[str]) -> list[Any]:
        jobs, unknown = self.queue.rows, dict.fromkeys(fields)
        return [
            [{**unknown, "id": one, **jobs.get(one, {})}[field] for field in fields]
            for one in (jobs if numbers is None else numbers)
        ]

    # Jobs

    def submit(self, jobs: Sequence[Sequence[Operation]]) -> list[Any]:
        """Take all jobs, or raise Refusal."""
        for operation in (op for job in jobs for op in job):
            fault = "" if isinstance(operation.get("reason"), list) else "key 'reason' not found"
            if operation["OP_ID"] not in self._known:
                fault = f"Unknown opcode {operation['OP_ID']}"
            if fault:
                raise LuxidRefusal(f"Failed to parse request: SubmitManyJobs: {fault}")
        if self.drained:
            raise LuxidRefusal(["GenericError", ["Queue drained"]])
        numbers = self.queue.allocate(len(jobs))
        self._store(numbers, jobs)
        return [[True, number] for number in numbers]

    def _store(self, numbers: Sequence[int], jobs: Sequence[Sequence[Operation]]) -> None:
        self._obey()
        for number, job in zip(numbers, jobs, strict=True):
            self.queue.store(number, job)

    def _drain(self, value: bool) -> bool:
        self.drained = value
        return True

    def _archive(self, number: int) -> bool:
        self.queue.rows[number]["archived"] = True
        return True

    # Filter rules

    def replace_filter(
        self, uuid: str | None, priority: int, predicates: Any, action: Any, reason: list[Any]
    ) -> str:
        """Write a rule; its uuid."""
        if uuid is not None and not _UUID.fullmatch(uuid):
            raise LuxidRefusal(["GenericError", ["Unable to parse UUID"]])
        uuid = uuid or str(uuid4())
        self.filters[uuid] = {
            "uuid": uuid,
            "watermark": self.queue.last,
            "priority": priority,
            "predicates": predicates,
            "action": action,
            "reason_trail": [*reason, ["luxid", "", self.clock()]],
        }
        self._obeyed = False
        return uuid

    def delete_filter(self, uuid: str) -> None:
        """Delete a rule."""
        if self.filters.pop(uuid, None) is None:
            raise LuxidRefusal(["GenericError", [f"Filter rule with UUID {uuid} does not exist"]])
        self._obeyed = False

    def _obey(self) -> None:
        """Have the queue obey the rules as they are now."""
        if self._obeyed:
            return
        self._obeyed = True
        found = read_rules(cast("Any", self)).rules
        self.queue.use(one for one in found if not faults_of_form(one.predicates))


def _field(row: Row, field: str) -> list[Any]:
    """Status and value as luxid has them: 0 a value, 1 no such field, 2 no value."""
    if field not in row:
        return [1, None]
    return [2, None] if row[field] is None else [0, row[field]]


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
    return _COMPARED[operator](row[rest[0]], rest[1])


# The socket

#: The last byte of each message.
_END: Final = b"\x03"
#: Seconds between looks for the end.
_POLL: Final = 0.02


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, answer: Callable[[bytes], bytes]) -> None:
        self.answer = answer
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was ended is no fault."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        raw = bytearray()
        while not raw.endswith(_END):
            part = self.request.recv(2**16)
            if not part or len(raw) > LONGEST:
                return
            raw += part
        self.request.sendall(self.server.answer(bytes(raw[:-1])) + _END)


@contextmanager
def served(path: str, answer: Callable[[bytes], bytes]) -> Iterator[None]:
    """Serve a socket until the end of the block; raises StewardError when that is impossible.

    ``answer``: of one request, both without the last byte; called by several threads.
    """
    try:
        server = _Server(path, answer)
    except OSError as err:
        raise StewardError(f"cannot listen at {path}: {reason_of(err)}") from None
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
