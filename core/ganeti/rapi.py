"""A client of Ganeti's remote API, the way to a cluster from any machine.

It cannot submit jobs at will: only what has a resource can be done, each operation as a job of
its own.  Operations that belong to one job are tied together by dependencies.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import requests
import urllib3

from ganeti_steward.core.errors import RefusedByGaneti, StewardError
from ganeti_steward.core.ganeti import rapi_access
from ganeti_steward.core.ganeti.jobs import Submitted, job_state, one_line
from ganeti_steward.core.ganeti.reasons import ascii_fault, escaped
from ganeti_steward.core.ganeti.shapes import ClusterInfo, checked, job_number, returned_by
from ganeti_steward.core.http_session import Session, read_whole
from ganeti_steward.core.json_nesting import LONGEST, load_lenient
from ganeti_steward.core.model import opcodes
from ganeti_steward.core.model.job_state import JobState

#: Seconds until the connection stands.
_CONNECT_LIMIT: Final = 10.0
#: Operation -> method of the resource that holds an object's tags.
_TAG_METHODS: Final = {opcodes.SET_TAGS: "PUT", opcodes.REMOVE_TAGS: "DELETE"}
#: Kind of object -> the resource of all of its kind; of the cluster there is one.
_TAGGED: Final = {"nodegroup": "groups", "node": "nodes", "instance": "instances"}
_DENIED: Final = (401, 403)
#: The daemon got no answer from luxid in time.
_TIMEOUT: Final = 504
#: Characters of what an answer says that become part of a message.
_SHOWN: Final = 500


class Rapi:
    """Calls to one RAPI daemon; raises StewardError naming it and the resource."""

    def __init__(
        self,
        host: str,
        credentials: rapi_access.Credentials | None = None,
        *,
        verify: bool | str = True,
        time_limit: float = 120,
        user_reason: str = "",
    ) -> None:
        """``verify``: False, or the file with certificates to trust.

        ``time_limit``: seconds for one call as a whole; ``user_reason``: why jobs are submitted,
        in the user's words, in addition to the reason of each call.
        """
        self._user_reason = user_reason
        self._url = rapi_access.base_url(host)
        if self._url.startswith("http:") and verify is not False:
            raise StewardError(
                f"{self._url}: without https anyone on the way can read and change what is "
                "sent; --rapi-insecure allows that"
            )
        self._time_limit = time_limit
        self._verify = verify
        self._credentials = credentials
        self._session = self._new_session()
        if verify is False:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"RAPI at {self._url}"

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | Sequence[str]] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Any:
        """The answer of one resource; ``path`` starts behind ``/2/``."""
        try:
            answer = self._in_time(
                lambda session: _whole(
                    session,
                    method,
                    f"{self._url}/2/{path}",
                    params=query,
                    json=body,
                    auth=self._credentials,
                    verify=self._verify,
                    timeout=(_CONNECT_LIMIT, self._time_limit),
                )
            )
        except requests.RequestException as err:
            raise StewardError(f"{self.where}: {self._reason(err)}") from None
        if answer.status != 200:
            raise _Denied(answer.status, f"{self.where}, {path}: {self._refusal(answer)}")
        try:
            return answer.json()
        except ValueError:
            raise StewardError(f"{self.where}, {path}: the answer is not JSON") from None

    def _in_time(self, send: Callable[[Session], _Response]) -> _Response:
        """A whole answer within the limit, which the library requests restarts with each byte.

        A thread that still waits then is left behind with its session.
        """
        answer: Future[_Response] = Future()

        def work(session: Session) -> None:
            try:
                answer.set_result(send(session))
            except BaseException as err:
                answer.set_exception(err)

        threading.Thread(target=work, args=(self._session,), name="rapi", daemon=True).start()
        try:
            return answer.result(self._time_limit)
        except TimeoutError:
            self._session = self._new_session()
            raise requests.Timeout from None

    def _new_session(self) -> Session:
        session = Session()
        # No proxies and no ~/.netrc: what is not given here is not used.
        session.trust_env = False
        if isinstance(self._verify, str):
            session.mount("https://", rapi_access.Pinned(rapi_access.own_fingerprint(self._verify)))
        return session

    def _reason(self, err: requests.RequestException) -> str:
        """Why there was no answer, in words an admin can act on."""
        if isinstance(err, requests.exceptions.SSLError):
            text = "the certificate is not trusted; name the cluster's own with --rapi-ca FILE"
            return f"{text} ({_innermost(err)})"
        if isinstance(err, requests.exceptions.ConnectTimeout):
            return f"no connection within {_CONNECT_LIMIT:g} s"
        if isinstance(err, requests.exceptions.Timeout):
            return f"no answer within {self._time_limit:g} s"
        return _innermost(err)

    def _refusal(self, answer: _Response) -> str:
        """The error in an answer other than 200."""
        try:
            content = answer.json()
            text = html.unescape(str(content.get("explain") or content.get("message") or ""))
        except (ValueError, AttributeError):
            text = ""
        if answer.status == 401:
            given = "are wrong" if self._credentials else "are needed (--rapi-credentials FILE)"
            return f"user and password {given}"
        if answer.status == 403:
            return "the user may not do that (no write access in ganeti-rapi's users file)"
        if answer.status == _TIMEOUT:
            return "RAPI answers, but luxid on the master does not (504): check ganeti-luxid there"
        return f"{one_line(text or answer.reason)[:_SHOWN]} (status {answer.status})"

    # What a cluster is read through, see `ganeti_steward.core.ganeti.snapshot`.

    def info(self) -> dict[str, Any]:
        """What is known of the cluster as a whole."""
        with returned_by(self.where):
            return ClusterInfo(self.where, self.call("GET", "info"))

    def rows(self, what: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """All objects of one kind; a field without a value, or not reported here, is None."""
        with returned_by(self.where):
            rows = self.call("GET", f"{what}s", {"bulk": "1"})
            missing = [field for field in fields if rows and field not in rows[0]]
            more = self._more(what, missing) if missing else {}
            found = (
                {field: row.get(field) for field in fields} | more.get(row.get("name", ""), {})
                for row in rows
            )
            return [checked(what, row) for row in found]

    def _more(self, what: str, fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Fields the plain resources do not have; Ganeti reports them to users only."""
        if self._credentials is None:
            return {}
        names = ["name", *fields]
        try:
            answer = self.call("GET", f"query/{what}", {"fields": ",".join(names)})
        except _Denied as err:
            if err.status in _DENIED:
                return {}
            raise
        return {
            row[0][1]: {
                field: value
                for field, (status, value) in zip(fields, row[1:], strict=True)
                if not status
            }
            for row in answer["data"]
        }

    def storage_jobs(self, kind: str, fields: Sequence[str], nodes: Sequence[str]) -> list[int]:
        """Start asking nodes for their storage; the jobs whose results are lists of rows."""
        query = {"storage_type": kind, "output_fields": ",".join(fields)}
        with returned_by(self.where):
            return [
                _job_number(self.call("GET", f"nodes/{quote(node)}/storage", query))
                for node in nodes
            ]

    # What jobs are run through, see `ganeti_steward.core.ganeti.jobs`.

    def refusal(self, job: opcodes.Job) -> str:
        """Why a job cannot be run this way; empty when it can."""
        for operation in job:
            if operation["OP_ID"] not in (*opcodes.MOVES, *_TAG_METHODS):
                return f"RAPI offers no {operation['OP_ID']}; luxid on the master does"
        return ""

    def submit(self, jobs: Sequence[opcodes.Job], reason: str) -> list[Submitted]:
        """Hand jobs over, one operation after the other."""
        if self._user_reason:
            reason = f"{self._user_reason} ({reason})"
        return [self._submit(job, reason) for job in jobs]

    def _submit(self, job: opcodes.Job, reason: str) -> Submitted:
        numbers: list[int] = []
        if fault := ascii_fault(job):
            return Submitted((), fault)
        for operation in job:
            method, path, query, body = _resource(operation)
            if numbers:
                body["depends"] = [[numbers[-1], ["success"]]]
            try:
                given = {**query, "reason": escaped(reason)}
                with returned_by(self.where):
                    numbers.append(_job_number(self.call(method, path, given, body or None)))
            except StewardError as err:
                return Submitted(tuple(numbers), str(err))
        return Submitted(tuple(numbers))

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        """The state of each job; one that was archived meanwhile is lost."""
        return [self._state(number) for number in numbers]

    def _state(self, number: int) -> JobState:
        try:
            job = self.call("GET", f"jobs/{number}")
        except _Denied as err:
            if err.status == 404:
                return JobState.lost(number)
            raise
        with returned_by(self.where):
            return job_state(number, job["status"], job["opstatus"], job["opresult"])

    def cancel(self, number: int) -> str:
        """Cancel a job that has not started; Ganeti's answer."""
        answer = self.call("DELETE", f"jobs/{number}")
        with returned_by(self.where):
            return one_line(str(answer[1]))

    # What filter rules are written through, see `ganeti_steward.plugins.filters.filter_rules`.

    def write_filter(self, uuid: str, content: Mapping[str, Any]) -> str:
        """Create or replace a rule; its uuid, which luxid chooses where none is given."""
        method, path = ("PUT", f"filters/{quote(uuid)}") if uuid else ("POST", "filters")
        return str(self.call(method, path, body=dict(content)))

    def delete_filter(self, uuid: str) -> None:
        """Delete a rule; `RefusedByGaneti` where that is refused, as when there is none."""
        try:
            self.call("DELETE", f"filters/{quote(uuid)}")
        except _Denied as err:
            raise RefusedByGaneti(str(err)) from None


def _job_number(answer: object) -> int:
    """RAPI may write a number as a text; raises ValueError for anything else."""
    return job_number(int(answer) if isinstance(answer, str) else answer)


class _Response(NamedTuple):
    """Status, its words, and the whole body."""

    status: int
    reason: str
    body: bytes

    def json(self) -> Any:
        """The value in the body; raises ValueError."""
        return load_lenient(self.body)


def _whole(session: Session, method: str, url: str, **more: Any) -> _Response:
    """One answer with its body; raises requests' exceptions, also when it is too long."""
    with session.request(method, url, **more) as answer:
        return _Response(answer.status_code, answer.reason, read_whole(answer, LONGEST))


class _Denied(StewardError):
    """An answer with a status other than 200."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def _resource(
    operation: opcodes.Operation,
) -> tuple[str, str, Mapping[str, Sequence[str]], dict[str, Any]]:
    """Method, path, query and body that stand for an operation."""
    name = operation["OP_ID"]
    if name in _TAG_METHODS:
        kind = operation["kind"]
        path = f"{_TAGGED[kind]}/{quote(operation['name'])}/tags" if kind in _TAGGED else "tags"
        return _TAG_METHODS[name], path, {"tag": operation["tags"]}, {}
    move = opcodes.MOVES[name]
    body = {k: v for k, v in operation.items() if k not in ("OP_ID", "instance_name")}
    instance = quote(operation["instance_name"])
    return move.method, f"instances/{instance}/{move.command}", {}, body


def _innermost(err: BaseException) -> str:
    """The cause at the bottom; the layers above repeat it in their own words."""
    inner: object = err
    while isinstance(inner, BaseException):
        err = inner
        # urllib3 1.26, that of Debian 12, names no cause.
        causes = (getattr(err, "reason", None), err.__cause__, *err.args, err.__context__)
        inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    if isinstance(err, ConnectionRefusedError):
        return "RAPI is stopped: nothing listens there; start ganeti-rapi on the master"
    content = getattr(err, "verify_message", "") or getattr(err, "strerror", "") or str(err)
    return one_line(str(content))[:_SHOWN]
