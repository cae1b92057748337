"""A server is called by its own names."""

from __future__ import annotations

from typing import Any, Final

import pytest
from served import answer, request, serving

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Http
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.service.callers import OwnNames

NAMES: Final = ("node1.example.com", "node1", "cluster.example.com", "203.0.113.1", "2001:db8::1")


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
    with serving() as place:
        found, text = answer(place, request(*head))
    assert found == status
    assert text.count(b"\n") == (status != 200)
    assert (b"[http] names" in text) == (status == 421)
    assert b"evil" not in text


def test_wrong_names_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as place:
        for _ in range(5):
            answer(place, request("GET / HTTP/1.1", "Host: \u00a0\u2028" + "x" * 1000))
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("request misdirected caller=127.0.0.1 host=")
    assert message.isprintable()
    assert len(message) < 200


def test_further_names(tmp_path: Any) -> None:
    file = tmp_path / "steward.toml"
    file.write_text('[http]\nnames = ["status.example.org", "2001:db8::7"]')
    assert load_config(str(file)).section(Http).names == ("status.example.org", "2001:db8::7")
    for bad in ("status.example.org:80", "http://status", "a b", "[::1]", "*"):
        file.write_text(f'[http]\nnames = ["{bad}"]')
        with pytest.raises(BadConfig, match=r"http\.names: .* is not a host name or IP address"):
            load_config(str(file))
