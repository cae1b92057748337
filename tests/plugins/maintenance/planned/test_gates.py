"""Gates: a command, a Prometheus over HTTP, plugins that fail; each holds with a sentence."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from programs import program
from upkept import Upkept
from worlds import node, world

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.gates import CommandGate, PrometheusGate
from ganeti_steward.plugins.maintenance.repairs.planner import PluginGates

WORLD = world([node("n1")])


def firing(name: str, **labels: str) -> dict[str, Any]:
    """One result of a query for ALERTS: the labels of an alert, and the value."""
    metric = {"__name__": "ALERTS", "alertname": name, "alertstate": "firing", **labels}
    return {"metric": metric, "value": [1767225600.123, "1"]}


def answering(*results: dict[str, Any]) -> dict[str, Any]:
    """As the API of Prometheus answers an instant query."""
    return {"status": "success", "data": {"resultType": "vector", "result": results}}


QUIET = answering()
FIRING = answering(
    firing("HostDown", instance="node3:9100", job="node", severity="critical"),
    firing("Latency", severity="warning"),
)
#: As it answers a query that it cannot parse, with the status 400.
BAD_QUERY = {
    "status": "error",
    "errorType": "bad_data",
    "error": 'invalid parameter "query": 1:42: parse error: missing closing parenthesis',
}


class Handler(BaseHTTPRequestHandler):
    """Answers every query with the same."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""
    queries: ClassVar[list[str]] = []
    drips: ClassVar[bytes] = b""
    ended: ClassVar[threading.Event] = threading.Event()

    def _drip(self) -> None:
        """Send the beginning, and then byte after byte, until the connection is closed."""
        with suppress(OSError):
            self.wfile.write(self.drips)
            while not self.ended.wait(0.05):
                self.wfile.write(b"x")

    def do_GET(self) -> None:
        assert urlsplit(self.path).path == "/api/v1/query"
        self.queries.extend(parse_qs(urlsplit(self.path).query)["query"])
        if self.drips:
            self._drip()
            return
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *words: object) -> None:
        """Nothing."""


@contextmanager
def prometheus(answer: Any, status: int = 200, drips: bytes = b"") -> Iterator[str]:
    """A server; its address."""
    Handler.drips = drips
    Handler.ended.clear()
    Handler.body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    Handler.status, Handler.queries = status, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Handler.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def gate(
    address: str, alerts: str = "Host.*|Lat\\w+", found: PrometheusGate | None = None
) -> str | None:
    """What the gate returns."""
    found = found or PrometheusGate()
    found.configure(Maintd(gate_prometheus=address, gate_alerts=alerts))
    return found.steward_gate(WORLD)


def test_firing_alerts_hold() -> None:
    with prometheus(FIRING) as address:
        assert gate(address) == (
            "2 alerts fire whose names match Host.*|Lat\\w+: HostDown (node3:9100), Latency"
        )
        (query,) = Handler.queries
    assert query == 'ALERTS{alertstate="firing",alertname=~"Host.*|Lat\\\\w+"}'
    with prometheus(QUIET) as address:
        assert gate(f"{address}/") is None
    assert gate("") is None


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (QUIET, 503),
        (BAD_QUERY, 400),
        (b"<html>", 200),
        (b"[" * 10**5, 200),
        ({"status": "error"}, 200),
        ({"status": "success"}, 200),
        (answering({"metric": {"__name__": "ALERTS"}}), 200),
    ],
)
def test_what_is_no_answer_holds(answer: Any, status: int) -> None:
    with prometheus(answer, status) as address:
        assert "gave no answer that is understood" in str(gate(address))
    assert gate(address) == f"Prometheus at {address} gave no answer: ConnectionError"


def test_an_answer_that_is_too_long_is_not_read() -> None:
    with prometheus(b"x" * (2**20 + 1)) as address:
        assert gate(address) == (
            f"Prometheus at {address} gave no answer: the answer is longer than 1048576 bytes"
        )


@pytest.mark.parametrize(
    "drips",
    [
        b"HTTP/1.1 200 OK\r\nX-Filler: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0",
    ],
)
def test_a_server_that_sends_byte_after_byte_holds_no_round(drips: bytes) -> None:
    """The limit is that of the whole answer, not of each part that is read."""
    with prometheus(QUIET, drips=drips) as address:
        begun = time.monotonic()
        held = gate(address, found=PrometheusGate(time_limit=1.5))
        assert time.monotonic() - begun < 8
        assert (
            held == f"Prometheus at {address} gave no answer, the query failed: killed after 1.5 s"
        )


def test_the_command(tmp_path: Path) -> None:
    found = CommandGate(time_limit=5)
    assert found.steward_gate(WORLD) is None
    found.configure(Maintd(gate_command=program(tmp_path, "good", "exit 0")))
    assert found.steward_gate(WORLD) is None
    path = program(tmp_path, "bad", "echo two deploys >&2; exit 3")
    found.configure(Maintd(gate_command=path))
    held = found.steward_gate(WORLD)
    assert held is not None
    assert held.startswith(f"the gate command {path} ")
    assert held.endswith(": two deploys")
    found.configure(Maintd(gate_command=str(tmp_path / "missing")))
    assert "is not run: " in str(found.steward_gate(WORLD))


def test_each_gate_holds_what_was_requested() -> None:
    """And nothing that has begun."""
    cluster = Upkept()
    found = cluster.request("node2")
    seen = cluster.world
    cluster.world = lambda: seen()._replace(gates=("2 alerts fire",))  # type: ignore[method-assign]
    cluster.round()
    assert cluster.held()["gate"] == "the maintenance of node2 waits: 2 alerts fire"
    cluster.world = seen  # type: ignore[method-assign]
    cluster.round()
    cluster.world = lambda: seen()._replace(gates=("2 alerts fire",))  # type: ignore[method-assign]
    cluster.run()
    assert cluster.running_on("node2") == []
    assert cluster.records[found.uuid].state.under_repair


def test_all_plugins_are_called() -> None:
    """One that fails does not agree."""
    config = parse_config("steward.toml", b'[maintd]\ngate-command = "/nowhere/gate"\n')
    (sentence,) = PluginGates(config)(WORLD)
    assert sentence.startswith("the gate command /nowhere/gate ")
    assert PluginGates(parse_config("steward.toml", b""))(WORLD) == ()
