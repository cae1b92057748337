"""Monitoring daemons of simulated nodes: real HTTP servers on loopback addresses."""

from __future__ import annotations

import errno
import http.server
import json
import random
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import pytest

PORT: Final = 1815

#: What a node does with a request: it has the handler to itself.
Behaviour = Callable[[http.server.BaseHTTPRequestHandler], None]


def addresses(count: int) -> list[str]:
    """So many addresses of the loopback network that no other test uses."""
    rng = random.Random()
    network = f"127.{rng.randrange(1, 255)}.{rng.randrange(256)}"
    return [f"{network}.{host}" for host in rng.sample(range(1, 255), count)]


def node_report(load: object) -> dict[str, Any]:
    """What a daemon says of the CPU load of its node."""
    return _report("cpu-avg-load", {"cpu_number": 1, "cpus": [load], "cpu_total": load})


def xen_report(loads: object) -> dict[str, Any]:
    """What a daemon reports about the CPU load of each of its instances."""
    return _report("xen-cpu-avg-load", loads)


def _report(name: str, data: object) -> dict[str, Any]:
    return {
        "name": name,
        "version": "B",
        "format_version": 1,
        "timestamp": 1795220758818421000,
        "category": None,
        "kind": 0,
        "data": data,
    }


def reporting(*reports: Mapping[str, Any]) -> Behaviour:
    """A daemon with these reports; like the real one it sends no content type."""

    def behave(request: http.server.BaseHTTPRequestHandler) -> None:
        known = {f"/1/report/default/{report['name']}": report for report in reports}
        report = known.get(request.path)
        body = json.dumps(report).encode() if report else b"no such report"
        answering(body, 200 if report else 404)(request)

    return behave


def answering(body: bytes, status: int = 200) -> Behaviour:
    """A daemon that says this to everything."""

    def behave(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return behave


@contextmanager
def daemons(nodes: Mapping[str, Behaviour], port: int = PORT) -> Iterator[None]:
    """One daemon on each of these addresses."""
    with ExitStack() as stack:
        for address, behaviour in nodes.items():
            stack.enter_context(_daemon(address, behaviour, port))
        yield


class _Server(socketserver.ThreadingTCPServer):
    # Unlike the HTTP server of the library it does not look up the name of its address.
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def _daemon(address: str, behaviour: Behaviour, port: int) -> Iterator[None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # the client has gone
                behaviour(self)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    try:
        server = _Server((address, port), Handler)
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            pytest.skip(f"a daemon of this machine listens on port {port} everywhere")
        raise
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
