"""The status over HTTP: GET only, and no caller can change anything; JSON, a page, the metrics."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.service.http_messages import TEXT, HttpAnswer, HttpRequest, json_answer
from ganeti_steward.core.service.http_server import Limits, Server, bind
from ganeti_steward.plugins.maintenance.edges import metrics
from ganeti_steward.plugins.maintenance.edges.outlet import Outlet
from ganeti_steward.plugins.maintenance.edges.status import (
    Status,
    daemon_json,
    hypervisors_json,
    incident_json,
    overview_json,
)
from ganeti_steward.plugins.model.task import Held

if TYPE_CHECKING:
    from ganeti_steward.plugins.maintenance.page.render import Page

_log: Final = logging.getLogger(__name__)

#: What callers may take; a request has no body.
LIMITS: Final = Limits(threads=2, body=1024)

_SECOND: Final = 10**9

_UNDECIDED: Final = "nothing is done, whether this node is the master is undecided"

_FAILED: Final = HttpAnswer(b"failed\n", 500, TEXT)

#: An empty list would mean that nothing is wrong with any node.
_NOT_READ: Final = json_answer({"error": "the incidents have not been read yet"}, 503)


class StatusApplication:
    """What the server calls, in several threads."""

    def __init__(
        self,
        status: Status,
        max_age: Callable[[], float],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """``status``: what is shown first; ``clock``: ns since the epoch.

        ``max_age``: seconds after the last round, or the start, from which on the daemon does not
        count as healthy; it can change when the configuration is read again.
        """
        self.status = status
        self._max_age, self._clock = max_age, clock
        self._made = threading.Lock()
        self._maker: Page | None = None
        self.paths: Final[dict[str, Callable[[Status], HttpAnswer]]] = {
            "/": lambda _: json_answer([1]),
            "/1/status": _incidents,
            "/1/jobs": lambda status: (
                _NOT_READ if status.incidents is None else json_answer(list(status.waiting))
            ),
            "/1/daemon": lambda status: json_answer(daemon_json(status)),
            "/1/nodes": lambda status: json_answer(overview_json(status.overview)),
            "/1/hypervisors": lambda status: json_answer(hypervisors_json(status)),
            "/1/history": lambda status: json_answer([one._asdict() for one in status.history]),
            "/ui": self._page,
            "/healthz": self._health,
            "/metrics": lambda status: HttpAnswer(
                metrics.rendered(status), kind=metrics.CONTENT_TYPE
            ),
        }
        self._outlets = {path: Outlet(f"{path} cannot be answered") for path in self.paths}

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        path = request.path
        if path not in self.paths:
            return json_answer({"error": "no such path"}, 404)
        if request.method != "GET":
            return json_answer({"error": "wrong method"}, 405, allow="GET")
        # It is replaced while this request is answered.
        return self._outlets[path](partial(self.paths[path], self.status), _FAILED)

    @property
    def problems(self) -> tuple[Held, ...]:
        """The paths that could not be answered when they were requested last."""
        return tuple(one for outlet in self._outlets.values() for one in outlet.problems)

    def _health(self, status: Status) -> HttpAnswer:
        fault = self._fault(status)
        if fault:
            return json_answer({"ok": False, "reason": fault}, 503)
        return json_answer({"ok": True, "reason": ""})

    def _page(self, status: Status) -> HttpAnswer:
        make = self._page_maker()
        headers = (
            ("Content-Security-Policy", make.policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        )
        raw = make(status, self._fault(status), self._clock())
        return HttpAnswer(raw, kind="text/html; charset=utf-8", headers=headers)

    def _page_maker(self) -> Page:
        """Made for the first caller: many daemons have none."""
        from ganeti_steward.plugins.maintenance.page.render import Page

        with self._made:
            self._maker = self._maker or Page()
            return self._maker

    def _fault(self, status: Status) -> str:
        """Why the daemon does not count as healthy; empty when it does."""
        if status.round_fault:
            return f"the last round failed: {status.round_fault}"
        age = (self._clock() - (status.round_ended or status.started)) / _SECOND
        most = self._max_age()
        if age <= most:
            return status.undecided and f"{_UNDECIDED}: {status.undecided}"
        what = "last round ended" if status.round_ended else "daemon started, without any round,"
        return f"the {what} {age:.0f} s ago, more than {most:g} s"


def _incidents(status: Status) -> HttpAnswer:
    if status.incidents is None:
        return _NOT_READ
    seen = status.poll.observations
    return json_answer(
        [
            incident_json(
                one, status.held_for(one.uuid), seen.get(one.node), status.emptied.get(one.uuid)
            )
            for one in status.incidents
        ]
    )


class StatusServer:
    """The servers, one for each address, in threads of their own."""

    def __init__(
        self,
        application: StatusApplication,
        address: str,
        port: int,
        also: str = "",
        names: Iterable[str] = (),
    ) -> None:
        """Listen, without answering yet; raises StewardError when that is impossible.

        ``also``: a second address, the cluster's, which this machine may not have yet; where it
        cannot be used, the log says so.  ``names``: by which it may be called in addition to its
        addresses.
        """
        self._application, self._names = application, tuple(names)
        self._served = [_Served(application, bind(address, port), self._names)]
        self.port: Final[int] = self._served[0].port
        self.also: Final = also if also and self._add(also) else ""
        """the second address; empty when it is not served"""

    def _add(self, address: str) -> bool:
        try:
            listener = bind(address, self.port, absent=True)
        except StewardError as err:
            _log.warning("the status is not served at the cluster's address: %s", err)
            return False
        self._served.append(_Served(self._application, listener, self._names))
        return True

    def start(self) -> None:
        """Begin to answer."""
        for one in self._served:
            one.thread.start()

    @property
    def problems(self) -> tuple[Held, ...]:
        """What cannot be answered at present."""
        return self._application.problems

    def publish(self, status: Status) -> None:
        """Show this from now on."""
        self._application.status = status

    def stop(self) -> None:
        """End within a second."""
        for one in self._served:
            one.stop()
        for one in self._served:
            one.close()


class _Served:
    """One address."""

    def __init__(
        self, application: StatusApplication, listener: socket.socket, names: Iterable[str]
    ) -> None:
        self.port: Final[int] = listener.getsockname()[1]
        server = self._server = Server(application, listener, LIMITS, names)
        self.stop: Final = server.stop
        self.thread: Final = threading.Thread(target=self._serve, name="http", daemon=True)

    def _serve(self) -> None:
        self._server.run()
        self._server.finish()

    def close(self) -> None:
        if self.thread.ident is None:
            self._serve()
        else:
            self.thread.join(2)
