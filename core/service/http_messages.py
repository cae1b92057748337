"""Requests and answers of HTTP/1.1, and how they are written on a connection.

A request is refused unless each line of its head has one meaning.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote

TEXT: Final = "text/plain; charset=utf-8"

#: The first line of a request, which may name a server in addition: method, path, query, version.
_FIRST: Final = re.compile(
    r"([A-Z]+) (?:https?://[!-.0->@-~]+|(?=/))(/[!->@-~]*)?(?:\?([!-~]*))? HTTP/(1\.[01])"
)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_LENGTH: Final = re.compile("[0-9]{1,18}")


class HttpRequest(NamedTuple):
    """What came in."""

    method: str
    path: str
    """without the query, and with characters in the place of %XX"""
    query: str = ""
    version: str = "1.1"
    headers: Mapping[str, str] = MappingProxyType({})
    """by names in lower case; what is repeated is joined by commas"""
    address: str = ""
    """the caller's"""
    body: bytes = b""
    """empty where the application does not read it"""


class HttpAnswer(NamedTuple):
    """What goes back."""

    body: bytes
    status: int = 200
    """of HTTP"""
    kind: str = "application/json"
    allow: str = ""
    """the methods a path has, with 405"""
    headers: tuple[tuple[str, str], ...] = ()
    """further ones"""

    def packed(self, method: str = "GET") -> bytes:
        """As it is sent, with the end of the connection announced."""
        headers = {
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            "Connection": "close",
            "Content-Type": self.kind,
            "Content-Length": str(len(self.body)),
            "Cache-Control": "no-store",
            **dict(self.headers),
            **({"Allow": self.allow} if self.allow else {}),
        }
        first = f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"
        lines = (first, *(f"{name}: {value}" for name, value in headers.items()), "", "")
        return "\r\n".join(lines).encode("latin-1") + (b"" if method == "HEAD" else self.body)


class RefusedRequest(Exception):
    """A request that is not handed to the application."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.answer: Final = HttpAnswer(f"{sentence}\n".encode(), status, TEXT)


def json_answer(value: object, status: int = 200, allow: str = "") -> HttpAnswer:
    """A value as JSON."""
    return HttpAnswer(json.dumps(value).encode(), status, allow=allow)


def parse_head(raw: bytes, address: str) -> HttpRequest:
    """Read what stands before the body, with the empty line behind it; raises RefusedRequest."""
    first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    request = _FIRST.fullmatch(first)
    if not request:
        raise RefusedRequest(400, "the first line is not a request line of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not (colon and _NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise RefusedRequest(400, "a line of the head is not a header")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    method, path, query, version = request.groups("")
    return HttpRequest(method, unquote(path or "/", "latin-1"), query, version, headers, address)


def body_length(headers: Mapping[str, str]) -> int | None:
    """Bytes of the body, None where it comes in chunks; raises RefusedRequest."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length", "0")
    if coding is None:
        if _LENGTH.fullmatch(length):
            return int(length)
    elif coding.lower() != "chunked":
        raise RefusedRequest(501, "no transfer coding but chunked is known")
    elif "content-length" not in headers:
        return None
    raise RefusedRequest(400, "the body must have one length")
