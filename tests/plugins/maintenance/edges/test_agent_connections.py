"""The client of an agent whose connection breaks, or is never answered."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.plugins.maintenance.edges.client import AgentClient, NotConnected


def client(key: KeyFile, port: int, **more: Any) -> AgentClient:
    return AgentClient("127.0.0.1", ["node1.lab"], key, port=port, clock=lambda: 1, **more)


def test_no_listener(key: KeyFile) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NotConnected, match="Connection refused"):
        client(key, port).report(900)
    with pytest.raises(NotConnected):
        client(key, port).repair("node1.lab", "fix", {}, 60, ("id-1", 5))


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
