"""The client of an agent whose connection breaks, or is never answered."""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.plugins.maintenance.edges.client import AgentClient, MachineGone, NotConnected


def client(key: KeyFile, port: int, **more: Any) -> AgentClient:
    return AgentClient("127.0.0.1", ["node1.lab"], key, port=port, clock=lambda: 1, **more)


def test_no_listener(key: KeyFile) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NotConnected, match="Connection refused") as refused:
        client(key, port).report(900)
    # The machine runs.
    assert not isinstance(refused.value, MachineGone)
    with pytest.raises(NotConnected):
        client(key, port).repair("node1.lab", "fix", b"{}", 60, ("id-1", 5))


def test_nothing_comes_back(key: KeyFile) -> None:
    """The kernel drops requests for connections while a queue is full, as if it were gone."""
    with ExitStack() as held:
        server = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        with pytest.raises(MachineGone, match="timed out"):
            client(key, server.getsockname()[1], time_limit=0.5).report(900)


@pytest.mark.parametrize(
    "error", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.EACCES]
)
def test_only_a_machine_without_a_route_to_it_is_gone(
    key: KeyFile, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Where the network of this node itself is down nothing is known of the machine."""

    def fail(*_: object) -> None:
        raise OSError(error, "no")

    monkeypatch.setattr("http.client.HTTPConnection.connect", fail)
    with pytest.raises(NotConnected) as found:
        client(key, 1).report(900)
    assert isinstance(found.value, MachineGone) == (error == errno.EHOSTUNREACH)


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", b"\0\r\n\r\n"]
)
def test_a_connection_that_breaks(key: KeyFile, sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(sent)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(StewardError, match=r"broke|cut off|no HTTP"):
            client(key, server.getsockname()[1]).report(900)
        thread.join()


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nX: y\r\n"])
def test_an_answer_that_never_ends(key: KeyFile, sent: bytes) -> None:
    """Also where a byte comes now and then, which a socket's own limit would take for progress."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    connection.sendall(sent)
                    while sent and not over.wait(0.01):
                        connection.sendall(b"x")
                    over.wait(300)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(StewardError, match=r"no answer within 0\.3 s"):
                client(key, server.getsockname()[1], time_limit=0.3).report(900)
        finally:
            over.set()
            thread.join()
