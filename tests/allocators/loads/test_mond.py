"""Asking monitoring daemons, good and bad ones, over real connections."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from monitoring import Behaviour, addresses, answering, daemons, node_report, reporting, xen_report

from ganeti_steward.allocators.loads.load_reports import NODE_COLLECTOR, XEN_COLLECTOR, NoLoads
from ganeti_steward.allocators.loads.mond import query

LONG = 300.0
SHORT = 0.3


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free: int = probe.getsockname()[1]
    return free


def test_each_node_gives_the_requested_report(port: int) -> None:
    nodes = addresses(3)
    reports = {
        node: (node_report(load), xen_report({"i1": load}))
        for node, load in zip(nodes, (0.5, 0, 12.25), strict=True)
    }
    with daemons({node: reporting(*reports[node]) for node in nodes}, port):
        assert query(nodes, NODE_COLLECTOR, LONG, port=port) == {n: reports[n][0] for n in nodes}
        assert query(nodes, XEN_COLLECTOR, LONG, port=port) == {n: reports[n][1] for n in nodes}


def test_nodes_are_queried_in_parallel(port: int) -> None:
    nodes = addresses(12)
    together = threading.Barrier(len(nodes), timeout=LONG)

    def behave(request: http.server.BaseHTTPRequestHandler) -> None:
        together.wait()
        reporting(node_report(1.0))(request)

    with daemons(dict.fromkeys(nodes, behave), port):
        assert len(query(nodes, NODE_COLLECTOR, LONG, port=port)) == len(nodes)


def test_more_nodes_than_connections(port: int) -> None:
    nodes = addresses(150)
    with daemons(dict.fromkeys(nodes, reporting(node_report(1.0))), port):
        assert set(query(nodes, NODE_COLLECTOR, LONG, port=port)) == set(nodes)


def test_no_node_to_query() -> None:
    assert query([], NODE_COLLECTOR, LONG) == {}


def _cut_short(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b"{")


def _no_http(request: http.server.BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"\x16\x03\x01 hello\r\n\r\n")


def _hangs_up(request: http.server.BaseHTTPRequestHandler) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)


def _endless(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b" " * 65536)


PATH = f"/1/report/default/{NODE_COLLECTOR}"


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    [
        (reporting(), f"status 404 for {PATH}"),
        (answering(b"ExitFailure 1", 500), f"status 500 for {PATH}"),
        (answering(b"", 204), f"status 204 for {PATH}"),
        (answering(b"", 302), f"status 302 for {PATH}"),
        (answering(b"<html>"), "its answer is not valid JSON: "),
        (answering(b""), "its answer is not valid JSON: "),
        (answering(b"\xff\xfe"), "its answer is not valid JSON: "),
        (_cut_short, "its answer is not valid JSON: "),
        (_no_http, "its answer is not HTTP (BadStatusLine)"),
        (_hangs_up, "Remote end closed connection without response"),
        (_endless, "its answer is longer than 1 MiB"),
    ],
    ids=[
        "no such report",
        "collector fails",
        "nothing",
        "elsewhere",
        "not JSON",
        "empty",
        "not UTF-8",
        "cut short",
        "not HTTP",
        "hangs up",
        "endless",
    ],
)
def test_one_node_at_fault_is_named(behaviour: Behaviour, fault: str, port: int) -> None:
    nodes = addresses(5)
    behaviours = dict.fromkeys(nodes, reporting(node_report(1.0)))
    behaviours[nodes[3]] = behaviour
    with daemons(behaviours, port), pytest.raises(NoLoads) as caught:
        query(nodes, NODE_COLLECTOR, LONG, port=port)
    assert str(caught.value).startswith(f"node '{nodes[3]}': {fault}")


def test_no_listener(port: int) -> None:
    (node,) = addresses(1)
    with pytest.raises(NoLoads) as caught:
        query([node], NODE_COLLECTOR, LONG, port=port)
    assert str(caught.value) == f"node '{node}': Connection refused"


@pytest.mark.parametrize("name", ["nosuch.invalid", "a" * 70 + ".invalid", "a b", "x\r\nHost: y"])
def test_name_without_address(name: str) -> None:
    with pytest.raises(NoLoads) as caught:
        query([name], NODE_COLLECTOR, LONG)
    assert str(caught.value).startswith(f"node {name!r}: ")
    assert "\n" not in str(caught.value)


@contextmanager
def _quiet(node: str, port: int) -> Iterator[None]:
    """Accepts connections and sends nothing."""
    with socket.create_server((node, port)):
        yield


@contextmanager
def _dripping(node: str, port: int, head: bytes) -> Iterator[None]:
    """Never silent for long, and never ready; ends when the connection does."""
    ended = threading.Event()

    def behave(request: http.server.BaseHTTPRequestHandler) -> None:
        try:
            request.wfile.write(head)
            while not ended.wait(0.01):
                request.wfile.write(b" ")
        except OSError:
            ended.set()

    with daemons({node: behave}, port):
        yield
        # The client has let go of the connection: its thread does not live on with it.
        assert ended.wait(LONG)


@pytest.mark.parametrize("kind", ["quiet", "dripping head", "dripping body"])
def test_time_limit(kind: str, port: int) -> None:
    good, bad = addresses(2)
    head = b"HTTP/1.0 200 OK\r\n" + (b"\r\n" if kind == "dripping body" else b"X: ")
    server = _quiet(bad, port) if kind == "quiet" else _dripping(bad, port, head)
    with daemons({good: reporting(node_report(1.0))}, port), server:
        with pytest.raises(NoLoads) as caught:
            query([good, bad], NODE_COLLECTOR, SHORT, port=port)
        assert str(caught.value) == f"node '{bad}': no complete answer in time"
