"""Which heads of requests are read, and what of them; how answers are written."""

from __future__ import annotations

import re

import pytest
from served import request

from ganeti_steward.core.service.http_messages import (
    HttpAnswer,
    HttpRequest,
    RefusedRequest,
    body_length,
    json_answer,
    parse_head,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET / HTTP/1.1", ("GET", "/", "", "1.1")),
        ("HEAD /1/report?salt=a&b=%20 HTTP/1.0", ("HEAD", "/1/report", "salt=a&b=%20", "1.0")),
        ("POST /a%20b%2Fc?x?y HTTP/1.1", ("POST", "/a b/c", "x?y", "1.1")),
        ("GET /%e4%00 HTTP/1.1", ("GET", "/\xe4\0", "", "1.1")),
        ("GET http://node1.lab:1816/ui?a HTTP/1.1", ("GET", "/ui", "a", "1.1")),
        ("GET https://node1.lab HTTP/1.1", ("GET", "/", "", "1.1")),
        ("GET http://node1.lab?a HTTP/1.1", ("GET", "/", "a", "1.1")),
        ("GET //node1.lab HTTP/1.1", ("GET", "//node1.lab", "", "1.1")),
    ],
)
def test_first_lines(line: str, expected: tuple[str, ...]) -> None:
    head = parse_head(request(line, "Host: a"), "192.0.2.1")
    assert head[:4] == expected
    assert head[4:] == ({"host": "a"}, "192.0.2.1", b"")


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "GET",
            "GET /",
            "GET  HTTP/1.1",
            "GET / HTTP/1.1 ",
            " GET / HTTP/1.1",
            "GET\t/ HTTP/1.1",
        ),
        *(
            "get / HTTP/1.1",
            "GET / http/1.1",
            "GET / HTTP/2.0",
            "GET / HTTP/1.10",
            "G@T / HTTP/1.1",
        ),
        *("GET a HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT node1:443 HTTP/1.1", "GET ?a HTTP/1.1"),
        *("GET /\x7f HTTP/1.1", "GET /\0 HTTP/1.1", "GET /\xe4 HTTP/1.1", "GET / / HTTP/1.1"),
        *("GET http:// HTTP/1.1", "GET ftp://node1/ HTTP/1.1", "GET /\n HTTP/1.1"),
    ],
)
def test_no_first_lines(line: str) -> None:
    with pytest.raises(RefusedRequest) as caught:
        parse_head(request(line, "Host: a"), "")
    assert caught.value.answer.status == 400


def test_headers() -> None:
    lines = ("Host:a", "X-Odd: \t b\tc \xff ", "accept:", "ACCEPT: d", "Accept:\te:f")
    raw = "".join(f"{line}\r\n" for line in ("GET / HTTP/1.1", *lines, "")).encode("latin-1")
    assert parse_head(raw, "").headers == {
        "host": "a",
        "x-odd": "b\tc \xff",
        "accept": ", d, e:f",
    }
    assert parse_head(request("GET / HTTP/1.0"), "").headers == {}


@pytest.mark.parametrize(
    "line",
    [
        *("nonsense", ": a", "Host : a", " Host: a", "\tfolded: a", "Ho st: a", "H\xf6st: a"),
        *("Host: a\0", "Host: a\rX: b", "Host: a\nX: b", "Host: \x7f", "Host: \x1b[1m"),
    ],
)
def test_no_headers(line: str) -> None:
    """A line that goes on is none either: it would be another header for another program."""
    with pytest.raises(RefusedRequest, match="a line of the head is not a header") as caught:
        parse_head(request("GET / HTTP/1.1", "Accept: b", line), "")
    assert caught.value.answer.status == 400


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 0),
        ({"content-length": "0"}, 0),
        ({"content-length": "007"}, 7),
        ({"content-length": "9" * 18}, 10**18 - 1),
        ({"transfer-encoding": "Chunked"}, None),
    ],
)
def test_lengths(headers: dict[str, str], expected: int | None) -> None:
    assert body_length(headers) == expected


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *(
            ({"content-length": text}, 400)
            for text in ("", "-1", "+1", "1, 1", "0x1", "1 ", "\xb2")
        ),
        ({"content-length": "9" * 19}, 400),
        ({"transfer-encoding": "chunked", "content-length": "1"}, 400),
        *(({"transfer-encoding": text}, 501) for text in ("", "gzip", "gzip, chunked", "chunked,")),
    ],
)
def test_no_lengths(headers: dict[str, str], status: int) -> None:
    with pytest.raises(RefusedRequest) as caught:
        body_length(headers)
    assert caught.value.answer.status == status


def test_an_answer_as_it_is_sent() -> None:
    answer = HttpAnswer(b"no\n", 405, "text/plain", "GET", (("X-A", "b"),))
    head, _, body = answer.packed().decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    assert (first, body) == ("HTTP/1.1 405 Method Not Allowed", "no\n")
    date, *others = lines
    assert re.fullmatch(r"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", date)
    assert others == [
        "Connection: close",
        "Content-Type: text/plain",
        "Content-Length: 3",
        "Cache-Control: no-store",
        "X-A: b",
        "Allow: GET",
    ]
    assert answer.packed("HEAD").endswith(b"\r\nAllow: GET\r\n\r\n")
    assert b"Allow" not in json_answer([1]).packed()


def test_a_request_needs_no_more_than_method_and_path() -> None:
    """As those that are made by the program itself."""
    assert HttpRequest("GET", "/") == HttpRequest("GET", "/", "", "1.1", {}, "", b"")
