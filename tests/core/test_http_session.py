"""What a server can make a client read: no more than the limit, nothing compressed, no redirect."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
import requests
from statuses import INCIDENT

from ganeti_steward.core.errors import PluginError, StewardError
from ganeti_steward.core.ganeti.rapi import Rapi
from ganeti_steward.core.http_session import Session, read_whole
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.notify.webhook import Webhook

#: Bytes that a server sends at most.
MOST: Final = 2**26

#: A small answer that becomes a large one.
BOMB: Final = gzip.compress(b"[" + b"1," * 2**22 + b"1]")


class Server:
    """Answers each request with the same head and parts; knows what it could send."""

    def __init__(self, head: str, part: bytes, times: int) -> None:
        self.head, self.part, self.times = head, part, times
        self.sent, self.requests = 0, list[str]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, suppress(ConnectionError):
                raw = b""
                while b"\r\n\r\n" not in raw:
                    raw += (got := connection.recv(2**16))
                    if not got:
                        return
                self.requests.append(raw.decode())
                connection.sendall(f"HTTP/1.1 {self.head}\r\n\r\n".encode())
                for _ in range(self.times):
                    connection.sendall(self.part)
                    self.sent += len(self.part)

    def end(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._thread.join()
        self._listener.close()


@contextmanager
def sending(head: str, part: bytes, times: int = 1) -> Iterator[Server]:
    server = Server(head, part, times)
    try:
        yield server
    finally:
        server.end()


CLOSE: Final = "\r\nConnection: close"
REDIRECT: Final = f"302 Found\r\nLocation: /elsewhere{CLOSE}"
ZIPPED: Final = f"\r\nContent-Encoding: gzip\r\nContent-Length: {len(BOMB)}{CLOSE}"


def client(server: Server, **more: Any) -> Rapi:
    return Rapi(f"http://127.0.0.1:{server.port}", verify=False, **more)


@pytest.mark.parametrize("status", ["200 OK", "302 Found\r\nLocation: /", "500 Failed"])
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "br", "identity, gzip", "x"])
def test_a_compressed_answer_is_refused(status: str, coding: str) -> None:
    head = f"{status}{ZIPPED}".replace("gzip", coding)
    with (
        sending(head, BOMB) as server,
        pytest.raises(StewardError, match="the answer is compressed, which was not requested"),
    ):
        client(server).info()


def test_no_compression_is_requested() -> None:
    with sending(f"200 OK\r\nContent-Encoding: identity{CLOSE}", b"{}") as server:
        assert client(server).info() == {}
        Webhook(lambda _: None)
        change(server)
    for request in server.requests:
        assert "Accept-Encoding: identity\r\n" in request
    assert len(server.requests) == 2


def test_the_limit() -> None:
    with sending(f"200 OK{CLOSE}", b"x" * 1000, 10) as server, Session() as session:
        address = f"http://127.0.0.1:{server.port}/"
        assert read_whole(session.get(address), 10_000) == b"x" * 10_000
        with pytest.raises(requests.RequestException, match="is longer than 9999 bytes"):
            read_whole(session.get(address), 9999)


@pytest.mark.parametrize("status", ["200 OK", REDIRECT.removesuffix(CLOSE), "404 Not Found"])
def test_of_a_long_answer_only_the_limit_is_read(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr("ganeti_steward.core.ganeti.rapi.LONGEST", 2**20)
    with (
        sending(f"{status}{CLOSE}", b"x" * 2**16, MOST // 2**16) as server,
        pytest.raises(StewardError, match="the answer is longer than 1048576 bytes"),
    ):
        client(server).info()
    # What the buffers of the system take is sent, too.
    assert server.sent < MOST // 2


def change(server: Server) -> None:
    plugin = Webhook(lambda _: None)
    plugin.configure(Maintd(webhook=f"http://127.0.0.1:{server.port}/hook"))
    plugin.steward_incident_changed(None, INCIDENT, "new report", "")


@pytest.mark.parametrize(
    ("head", "part", "times"),
    [
        (REDIRECT, b"x" * 2**16, MOST // 2**16),
        (f"200 OK{CLOSE}", b"x" * 2**16, MOST // 2**16),
        (f"302 Found\r\nLocation: /{ZIPPED}", BOMB, 1),
    ],
)
def test_the_answer_of_a_webhook_is_not_read(
    monkeypatch: pytest.MonkeyPatch, head: str, part: bytes, times: int
) -> None:
    read: list[object] = []
    monkeypatch.setattr(requests.Response, "iter_content", lambda *given, **_: read.append(given))
    with sending(head, part, times) as server, suppress(PluginError):
        change(server)
    assert len(server.requests) == 1
    assert read == []
    assert server.sent < MOST // 2
