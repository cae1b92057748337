"""A client of luxid, the daemon on the master that knows the cluster and takes its jobs.

A request is one JSON object and the byte 3, the answer is the same; each call has a
connection of its own, for luxid closes it after a request it cannot read.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, Self

from ganeti_steward.core.errors import RefusedByGaneti, StewardError
from ganeti_steward.core.ganeti.jobs import Submitted, error_text, job_state, one_line
from ganeti_steward.core.ganeti.reasons import USER, Reason, ascii_fault, with_reasons
from ganeti_steward.core.ganeti.shapes import ClusterInfo, checked, job_number, returned_by
from ganeti_steward.core.ganeti.this_node import SOCKET
from ganeti_steward.core.json_nesting import LONGEST, load_lenient
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job

_END: Final = b"\x03"
_VERSION: Final = 3000000
#: Seconds until luxid has taken the connection.
_CONNECT_LIMIT: Final = 10.0
#: The source of a job in Ganeti's reason trail, unless another one is given.
REASON_SOURCE: Final = "gnt:client:gnt-steward"

_JOB_FIELDS: Final = ("id", "status", "opstatus", "opresult")
#: How Ganeti marks a field it does not know.
_UNKNOWN: Final = 1
_NORMAL: Final = 0


def denied(path: str) -> str:
    """What is wrong where luxid's socket cannot be reached for lack of permission."""
    return f"{path}: permission denied; root and Ganeti's daemons may call luxid"


class NotReached(StewardError):
    """Luxid was not reached: the call was not made."""


class Luxi:
    """Calls to one luxid; raises StewardError naming socket and method."""

    def __init__(
        self,
        path: str = SOCKET,
        *,
        time_limit: float | None = 120,
        clock: Callable[[], int] = time.time_ns,
        reason_source: str = REASON_SOURCE,
        user_reason: str = "",
    ) -> None:
        """``clock``: ns since 1970.

        ``time_limit``: seconds for one call; None: until luxid ends it.
        ``reason_source``: the source of submitted jobs in Ganeti's reason trail; ``user_reason``:
        what a user gives as their reason, the first entry then.
        """
        self._user_reason = user_reason
        self._reason_source = reason_source
        self._path = path
        self._time_limit = time_limit
        self._clock = clock

    @property
    def path(self) -> str:
        """The socket."""
        return self._path

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"luxid at {self._path}"

    def without_limit(self) -> Self:
        """The same client; a call of it ends only when luxid answers or closes the connection."""
        other = copy(self)
        other._time_limit = None
        return other

    def call(self, method: str, *arguments: object) -> Any:
        """The result of one method."""
        request = {"method": method, "args": arguments, "version": _VERSION}
        raw = self._exchange(method, json.dumps(request).encode())
        try:
            # luxid writes other text than ASCII in bytes that are no UTF-8.
            answer = load_lenient(raw)
            good, result = answer["success"], answer["result"]
        except (ValueError, TypeError, KeyError):
            raise self._error(method, "the answer is not what luxid answers") from None
        if not good:
            raise RefusedByGaneti(f"{self.where}, {method}: {error_text(result)}")
        return result

    def _exchange(self, method: str, request: bytes) -> bytes:
        limit, began = self._time_limit, time.monotonic()
        answer = bytearray()
        try:
            with self._connection() as connection:
                connection.settimeout(limit)
                connection.sendall(request + _END)
                while not answer.endswith(_END):
                    if limit is not None:
                        connection.settimeout(max(began + limit - time.monotonic(), 0.001))
                    part = connection.recv(2**20)
                    if not part:
                        raise self._error(method, "the connection was closed before the answer")
                    answer += part
                    if len(answer) > LONGEST:
                        raise self._error(method, f"the answer is longer than {LONGEST} bytes")
        except TimeoutError:
            raise self._error(method, f"no answer within {limit:g} s") from None
        except OSError as err:
            raise self._error(method, err.strerror or str(err)) from None
        return bytes(answer[:-1])

    def _connection(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_LIMIT)
            connection.connect(self._path)
        except FileNotFoundError:
            connection.close()
            raise NotReached(
                f"there is no socket {self._path}: luxid runs on the master only"
            ) from None
        except ConnectionRefusedError:
            connection.close()
            raise NotReached(
                f"luxid is stopped: nothing listens at {self._path}; start ganeti-luxid"
            ) from None
        except PermissionError:
            connection.close()
            raise NotReached(denied(self._path)) from None
        except TimeoutError:
            connection.close()
            raise NotReached(
                f"{self._path}: luxid takes no connection within {_CONNECT_LIMIT:g} s"
            ) from None
        except OSError as err:
            connection.close()
            raise NotReached(f"{self._path}: {err.strerror or err}") from None
        return connection

    def _error(self, method: str, text: str) -> StewardError:
        return StewardError(f"{self.where}, {method}: {text}")

    # What a cluster is read through, see `ganeti_steward.core.ganeti.snapshot`.

    def info(self) -> dict[str, Any]:
        """What is known of the cluster as a whole."""
        info: dict[str, Any] = self.call("QueryClusterInfo")
        with returned_by(self.where):
            return ClusterInfo(self.where, info)

    def rows(
        self, what: str, fields: Sequence[str], condition: Sequence[object] | None = None
    ) -> list[dict[str, Any]]:
        """All objects of one kind, or those of a condition; a field without a value is None.

        ``condition``: in luxid's query language, such as ``[">", "id", 7]``.
        """
        result = self.call("Query", what, list(fields), condition)
        with returned_by(self.where):
            return [checked(what, self._row(what, fields, row)) for row in result["data"]]

    def _row(self, what: str, fields: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
        for field, (status, _) in zip(fields, row, strict=True):
            if status == _UNKNOWN:
                raise self._error("Query", f"{what}s have no field {field!r} in this Ganeti")
        values = (value if status == _NORMAL else None for status, value in row)
        return dict(zip(fields, values, strict=True))

    def storage_jobs(self, kind: str, fields: Sequence[str], nodes: Sequence[str]) -> list[int]:
        """Start asking nodes for their storage; the jobs whose results are lists of rows."""
        operation = {
            "OP_ID": "OP_NODE_QUERY_STORAGE",
            "storage_type": kind,
            "output_fields": list(fields),
            "nodes": list(nodes),
        }
        (done,) = self.submit([[operation]], "free space")
        if done.error:
            raise self._error("SubmitManyJobs", done.error)
        return list(done.numbers)

    # What jobs are run through, see `ganeti_steward.core.ganeti.jobs`.

    def refusal(self, job: Job) -> str:
        """Luxid takes every operation."""
        return ""

    def submit(self, jobs: Sequence[Job], reason: str) -> list[Submitted]:
        """Hand jobs over in one call."""
        trail = [(USER, self._user_reason)] if self._user_reason else []
        return self.submit_with_trails(jobs, [[*trail, (self._reason_source, reason)]] * len(jobs))

    def submit_with_trails(
        self, jobs: Sequence[Job], trails: Sequence[Sequence[tuple[str, str]]]
    ) -> list[Submitted]:
        """Hand jobs over in one call, each with sources and texts for its reason trail.

        They come after the reasons an operation has already.  Other text than ASCII is
        written with backslash escapes; in an operation's parameters it is refused, see
        `ganeti_steward.core.ganeti.reasons`.  An operation may name the jobs it waits for, see
        `ganeti_steward.plugins.model.operations.after`.  Raises StewardError when it is not known
        whether the jobs were taken.
        """
        now = self._clock()
        trailed = [
            with_reasons(job, [Reason(*entry, now) for entry in trail])
            for job, trail in zip(jobs, trails, strict=True)
        ]
        faults = [fault for job in trailed if (fault := ascii_fault(job))]
        if faults:
            return [Submitted((), "; ".join(faults)) for _ in jobs]
        try:
            results = self.call("SubmitManyJobs", trailed)
        except RefusedByGaneti as err:
            return [Submitted((), str(err)) for _ in jobs]
        with returned_by(self.where):
            return [
                Submitted((job_number(result),)) if good else Submitted((), error_text(result))
                for (good, result), _ in zip(results, jobs, strict=True)
            ]

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        """The state of each job; one that luxid does not know (any more) is lost."""
        rows = self.call("QueryJobs", list(numbers), list(_JOB_FIELDS)) if numbers else []
        with returned_by(self.where):
            states = [job_state(*row) for row in rows if row]
        found = {state.number: state for state in states}
        return [found.get(number, JobState.lost(number)) for number in numbers]

    def ends(self, numbers: Sequence[int]) -> dict[int, int]:
        """Number -> when the job ended (ns since 1970), of those that have and are known."""
        rows = self.call("QueryJobs", list(numbers), ["id", "end_ts"]) if numbers else []
        with returned_by(self.where):
            found = {job_number(row[0]): row[1] for row in rows if row and row[1]}
            return {one: _nanoseconds(*time) for one, time in found.items()}

    def cancel(self, number: int) -> str:
        """Cancel a job that has not started; luxid's answer."""
        answer = self.call("CancelJob", number, False)
        with returned_by(self.where):
            return one_line(str(answer[1]))

    # What filter rules are written through, see `ganeti_steward.plugins.filters.filter_rules`.

    def write_filter(self, uuid: str, content: Mapping[str, Any]) -> str:
        """Create or replace a rule; its uuid, which luxid chooses where none is given."""
        return str(self.call("ReplaceFilter", uuid or None, *content.values()))

    def delete_filter(self, uuid: str) -> None:
        """Delete a rule; `RefusedByGaneti` when there is none."""
        self.call("DeleteFilter", uuid)


def _nanoseconds(seconds: int, micro: int) -> int:
    """A time of luxid as ns since 1970; raises ValueError."""
    if type(seconds) is not int or type(micro) is not int:
        raise ValueError("a time of a job is not a pair of whole numbers")
    return (seconds * 10**6 + micro) * 1000
