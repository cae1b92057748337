"""The exporter over HTTP: the last reading, renewed by a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.service.http_server import Limits
from ganeti_steward.core.service.wsgi import Answer, json_answer, respond
from ganeti_steward.plugins.exporter import metrics
from ganeti_steward.plugins.exporter.figures import Figures
from ganeti_steward.plugins.exporter.metrics import Reading

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

#: What callers may take; a request has no body.
LIMITS: Final = Limits(threads=2, body=1024)

_log: Final = logging.getLogger(__name__)


class Readings:
    """Reads the cluster again and again; `last` may be used by other threads."""

    def __init__(
        self, read: Callable[[], Figures], interval: float, clock: Callable[[], int] = time.time_ns
    ) -> None:
        """``read`` raises StewardError; ``interval``: seconds between two; ``clock``: ns."""
        self._read, self._interval, self._clock = read, interval, clock
        self._stopped = threading.Event()
        self.last = Reading()

    def once(self) -> Reading:
        """Read once; a failure is part of the reading."""
        began, before = time.monotonic(), self.last
        figures, fault = None, ""
        try:
            figures = self._read()
        except StewardError as err:
            fault = str(err)
            _log.error("the cluster cannot be read: %s", err)
        except Exception as err:
            fault = f"{type(err).__name__}: {err}"
            _log.exception("the figures cannot be computed")
        self.last = Reading(
            figures,
            before.ended if fault else self._clock(),
            time.monotonic() - began,
            before.readings + 1,
            before.failures + bool(fault),
            fault,
        )
        return self.last

    def start(self) -> None:
        """Read in a thread, until `stop`."""
        threading.Thread(target=self._run, name="readings", daemon=True).start()

    def stop(self) -> None:
        """Begin no other reading."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.once()
            self._stopped.wait(self._interval)


class Application:
    """The WSGI application: GET only; called by several threads."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return respond(self._answer, environ, start_response)

    def _answer(self, method: str, environ: WSGIEnvironment) -> Answer:
        path = environ.get("PATH_INFO") or "/"
        if path not in ("/metrics", "/healthz"):
            return json_answer({"error": "no such path"}, 404)
        if method != "GET":
            return json_answer({"error": "wrong method"}, 405, allow="GET")
        reading = self._readings.last
        if path == "/metrics":
            return Answer(metrics.rendered(reading), kind=metrics.CONTENT_TYPE)
        reason = reading.fault or ("" if reading.readings else "the cluster was not read yet")
        return json_answer({"ok": not reason, "reason": reason}, 503 if reason else 200)
