"""The socket of the demo's luxid."""

from __future__ import annotations

import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import LONGEST
from ganeti_steward.plugins.maintenance.demo.luxid import Luxid

_END: Final = b"\x03"


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, luxid: Luxid) -> None:
        self.luxid = luxid
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was ended is no fault."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        raw = bytearray()
        while not raw.endswith(_END):
            part = self.request.recv(2**16)
            if not part or len(raw) > LONGEST:
                return
            raw += part
        self.request.sendall(self.server.luxid.answer(bytes(raw[:-1])) + _END)


@contextmanager
def served(path: str, luxid: Luxid) -> Iterator[None]:
    """Answer at a socket until the end; raises StewardError when that is impossible."""
    try:
        server = _Server(path, luxid)
    except OSError as err:
        raise StewardError(f"cannot listen at {path}: {reason_of(err)}") from None
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
