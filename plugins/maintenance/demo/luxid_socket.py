"""A socket with the framing of luxid: each message ends with a byte of its own."""

from __future__ import annotations

import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import LONGEST

_END: Final = b"\x03"
#: Seconds between looks for the end.
_POLL: Final = 0.02


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, answer: Callable[[bytes], bytes]) -> None:
        self.answer = answer
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
        self.request.sendall(self.server.answer(bytes(raw[:-1])) + _END)


@contextmanager
def served(path: str, answer: Callable[[bytes], bytes]) -> Iterator[None]:
    """Serve a socket until the end of the block; raises StewardError when that is impossible.

    ``answer``: of one request, both without the last byte; called by several threads.
    """
    try:
        server = _Server(path, answer)
    except OSError as err:
        raise StewardError(f"cannot listen at {path}: {reason_of(err)}") from None
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
