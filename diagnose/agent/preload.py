"""Using everything once, so that nothing has to be read from a disk that may be dead by then."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.node_agent.protocol import NONCE_PATH, REPORT_PATH
from ganeti_steward.diagnose.agent.http import ALL, METRICS

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

#: A documentation address (RFC 5737): what it is given or refused affects no caller.
_UNUSED: Final = "192.0.2.0"

_REQUESTS: Final = (
    ("GET", "/", ""),
    ("HEAD", REPORT_PATH, ""),
    ("GET", REPORT_PATH, "salt=preloading"),
    ("GET", ALL, "salt="),
    ("POST", NONCE_PATH, ""),
    ("GET", METRICS, ""),
    ("GET", "/nowhere", ""),
)


def preload(application: WSGIApplication) -> None:
    """Answer requests that need no caller; a repair would only be refused, and logged."""
    for method, path, query in _REQUESTS:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REMOTE_ADDR": _UNUSED,
            "wsgi.input": io.BytesIO(),
        }
        for _ in application(environ, _ignored):
            pass


def _ignored(*_: Any) -> Callable[[bytes], object]:
    return len
