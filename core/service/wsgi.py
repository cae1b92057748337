"""Answers of an HTTP server, and what hands them to WSGI; a failure inside is one of status 500."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

TEXT: Final = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


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


def json_answer(value: object, status: int = 200, allow: str = "") -> HttpAnswer:
    """A value as JSON."""
    return HttpAnswer(json.dumps(value).encode(), status, allow=allow)


def respond(
    answer_to: Callable[[str, WSGIEnvironment], HttpAnswer],
    environ: WSGIEnvironment,
    start_response: StartResponse,
) -> Iterable[bytes]:
    """Answer one request; ``answer_to`` gets its method and WSGI environment."""
    method = environ["REQUEST_METHOD"]
    try:
        answer = answer_to(method, environ)
    except Exception:
        _log.exception("a request failed")
        answer = HttpAnswer(b"failed\n", 500, TEXT)
    headers = [
        ("Content-Type", answer.kind),
        ("Content-Length", str(len(answer.body))),
        ("Cache-Control", "no-store"),
        *answer.headers,
    ]
    if answer.allow:
        headers.append(("Allow", answer.allow))
    start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
    return [] if method == "HEAD" else [answer.body]
