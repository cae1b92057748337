"""Serves the stand-in for luxid at a socket: in this process, or in one of its own.

As a program (``python standin_server.py SOCKET``) it reads an iallocator message from standard
input, prints a line once it listens, and lives on when its callers die.
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from standin import StandIn

from ganeti_steward.core.ganeti.luxi import Luxi

Row = dict[str, Any]


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, stand_in: StandIn) -> None:
        self.stand_in = stand_in
        self.lock = threading.Lock()
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed is no fault."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        raw = bytearray()
        while not raw.endswith(b"\x03"):
            part = self.request.recv(2**16)
            if not part:
                return
            raw += part
        request = json.loads(raw[:-1])
        with self.server.lock:
            answer = self.server.stand_in.answer(request["method"], request["args"])
            written = json.dumps(answer).encode() + b"\x03"
        self.request.sendall(written)


@contextmanager
def serving(path: Path, stand_in: StandIn) -> Iterator[Luxi]:
    """Serve it in this process; yields a client."""
    with _Server(str(path / "standin.socket"), stand_in) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Luxi(str(path / "standin.socket"), time_limit=300)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def process(path: Path, message: Row) -> Iterator[Luxi]:
    """Serve it in a process of its own; yields a client."""
    socket = str(path / "standin.socket")
    command = [sys.executable, __file__, socket]
    here = Path(__file__).parent
    pythonpath = f"{here}:{here.parent / 'cluster'}"
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": pythonpath},
        start_new_session=True,
    ) as running:
        try:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(json.dumps(message).encode())
            running.stdin.close()
            assert running.stdout.readline() == b"ready\n"
            yield Luxi(socket, time_limit=300)
        finally:
            running.kill()


def main() -> None:
    with _Server(sys.argv[1], StandIn(json.load(sys.stdin))) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
