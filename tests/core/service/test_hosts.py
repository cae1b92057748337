"""A server is called by its own names, and keeps no body that is not read."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from waitress.buffers import OverflowableBuffer

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Http
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.service import http_server
from ganeti_steward.core.service.callers import OwnNames
from ganeti_steward.core.service.http_server import Limits, Server, bind

NAMES: Final = ("node1.example.com", "node1", "cluster.example.com", "203.0.113.1", "2001:db8::1")

#: Bytes of a large body.
LARGE: Final = 2**20


@pytest.mark.parametrize(
    "host",
    [
        *("node1.example.com", "NODE1.example.COM:1816", "node1.example.com.", "node1:80"),
        *("cluster.example.com:", "203.0.113.1:1816", "[2001:db8::1]:1816", "[2001:DB8:0::1]"),
        *("localhost", "LocalHost:1816", "127.0.0.1", "127.8.9.1:1", "[::1]:1816", " node1 "),
    ],
)
def test_own_names(host: str) -> None:
    assert host in OwnNames(NAMES)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example.net", "node1.example.com.evil.net", "node1.example.net:1816", "node2"),
        *("203.0.113.2", "203.0.113.1.evil.net", "[2001:db8::2]:1816", "xlocalhost", "a.localhost"),
        *("node1@evil.net", "evil.net@node1", "node1:80:80", "node1:x", "[", "[]", ":", "::", "."),
        *("node1, evil.net", "http://node1", "node1/", "0.0.0.0", "2130706433", "\udcff", ""),
    ],
)
def test_other_names(host: str) -> None:
    assert host not in OwnNames(NAMES)


def echo(environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
    """The number of bytes of the body."""
    start_response("200 OK", [])
    return [str(len(environ["wsgi.input"].read())).encode()]


@contextmanager
def serving(reads_body: Callable[[str, str], bool] = lambda *_: False) -> Iterator[Server]:
    limits = Limits(body=2 * LARGE)
    server = Server(echo, bind("127.0.0.1", 0), limits, ("node1.lab",), reads_body)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        server.pull_trigger()
        thread.join()
        server.finish()
        server.close_all()


def answer(server: Server, *head: str, body: bytes = b"") -> tuple[int, bytes]:
    """Status and body of the answer to a request."""
    with socket.create_connection(server.socket.getsockname(), 300) as one:
        one.sendall("".join(f"{line}\r\n" for line in (*head, "")).encode() + body)
        whole = one.makefile("rb").read()
    return int(whole.split(b" ")[1]), whole.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (["GET / HTTP/1.1", "Host: node1.lab:1816"], 200),
        (["GET / HTTP/1.1", "Host: 127.0.0.1"], 200),
        (["GET / HTTP/1.1", "Host: evil.example.net"], 421),
        (["GET / HTTP/1.0", "Host: evil.example.net"], 421),
        # A web page's request comes from a browser, and browsers name the host.
        (["GET / HTTP/1.0"], 200),
        (["GET / HTTP/1.1"], 400),
        (["GET / HTTP/1.1", "Host:"], 400),
        (["GET / HTTP/1.1", "Host: node1.lab", "Host: evil.example.net"], 421),
        (["GET http://node1.lab/ HTTP/1.1", "Host: evil.example.net"], 421),
        (["GET / HTTP/1.1", "Host: evil.example.net", "X-Forwarded-Host: node1.lab"], 421),
        (["POST / HTTP/1.1", "Host: evil.example.net", "Content-Length: 0"], 421),
    ],
)
def test_hosts(head: list[str], status: int) -> None:
    with serving() as server:
        found, text = answer(server, *head)
    assert found == status
    assert text.count(b"\n") == (status != 200)
    assert (b"[http] names" in text) == (status == 421)
    assert b"evil" not in text


def test_wrong_names_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server:
        for _ in range(5):
            answer(server, "GET / HTTP/1.1", "Host: \u00a0\u2028" + "x" * 1000)
    # Waitress may log the depth of its queue, too.
    own = [r for r in caplog.records if r.name == http_server.__name__]
    (message,) = [record.getMessage() for record in own]
    assert message.startswith("request misdirected caller=127.0.0.1 host=")
    assert message.isprintable()
    assert len(message) < 200


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the parts of bodies that the server keeps."""
    sizes: list[int] = []
    append = OverflowableBuffer.append

    def count(self: OverflowableBuffer, part: bytes) -> None:
        if b"bodybody" in part:
            sizes.append(len(part))
        append(self, part)

    monkeypatch.setattr(OverflowableBuffer, "append", count)
    return sizes


BODY: Final = b"body" * (LARGE // 4)
CHUNKED: Final = b"%x\r\n%s\r\n0\r\n\r\n" % (LARGE, BODY)
SIZED = (f"Content-Length: {LARGE}", BODY)


@pytest.mark.parametrize(
    ("line", "body"), [SIZED, ("Transfer-Encoding: chunked", CHUNKED)], ids=["sized", "chunked"]
)
@pytest.mark.parametrize(
    ("host", "path", "size"),
    [("node1.lab", "/read", LARGE), ("node1.lab", "/other", 0), ("evil.net", "/read", 0)],
)
def test_a_body_is_kept_only_for_who_reads_it(
    kept: list[int], host: str, path: str, size: int, line: str, body: bytes
) -> None:
    """A caller who is not listened to gets an answer all the same, when all was sent."""
    queried: list[tuple[str, str]] = []

    def reads(address: str, at: str) -> bool:
        queried.append((address, at))
        return at == "/read"

    with serving(reads) as server:
        status, text = answer(server, f"POST {path} HTTP/1.1", f"Host: {host}", line, body=body)
    assert sum(kept) == size
    assert (status, text == str(size).encode()) == (
        (421, False) if host == "evil.net" else (200, True)
    )
    assert queried == ([] if host == "evil.net" else [("127.0.0.1", path)])


def test_a_body_that_is_too_large_is_not_read(kept: list[int]) -> None:
    with serving(lambda *_: True) as server:
        head = ("POST / HTTP/1.1", "Host: node1.lab", f"Content-Length: {2 * LARGE}")
        assert answer(server, *head)[0] == 413
    assert kept == []


def test_further_names(tmp_path: Any) -> None:
    file = tmp_path / "steward.toml"
    file.write_text('[http]\nnames = ["status.example.org", "2001:db8::7"]')
    assert load_config(str(file)).section(Http).names == ("status.example.org", "2001:db8::7")
    for bad in ("status.example.org:80", "http://status", "a b", "[::1]", "*"):
        file.write_text(f'[http]\nnames = ["{bad}"]')
        with pytest.raises(BadConfig, match=r"http\.names: .* is no host name or IP address"):
            load_config(str(file))
