"""Stand-ins for luxid and the RAPI daemon, with given answers, which remember the requests."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

#: Gets method and arguments; bytes are sent as they are, None closes the connection.
Answerer = Callable[[str, list[Any]], Any]


class Luxid:
    """A socket behind which every method is answered by one function."""

    def __init__(self, path: Path, answer: Answerer) -> None:
        self.path = str(path)
        self.requests: list[dict[str, Any]] = []
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.path)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        Path(self.path).unlink()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._answer_one(connection)

    def _answer_one(self, connection: socket.socket) -> None:
        raw = b""
        while not raw.endswith(b"\x03"):
            part = connection.recv(65536)
            if not part:
                return
            raw += part
        request = json.loads(raw[:-1])
        self.requests.append(request)
        answer = self._answer(request["method"], request["args"])
        if answer is None:
            return
        if not isinstance(answer, bytes):
            answer = json.dumps({"success": True, "result": answer}).encode() + b"\x03"
        # In two parts, as they may come.
        connection.sendall(answer[: len(answer) // 2])
        connection.sendall(answer[len(answer) // 2 :])


@contextmanager
def luxid(path: Path, answer: Answerer) -> Iterator[Luxid]:
    daemon = Luxid(path / "luxid.socket", answer)
    try:
        yield daemon
    finally:
        daemon.close()


class Received(NamedTuple):
    """One request to the RAPI daemon."""

    method: str
    path: str
    body: Any
    authorization: str | None


class Rapid(ThreadingHTTPServer):
    """Answers by method and path: a status and an object, or bytes."""

    daemon_threads = True

    def __init__(self, answers: Callable[[str, str], tuple[int, Any]]) -> None:
        self.requests: list[Received] = []
        self.answers = answers
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Rapid

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        received = Received(self.command, self.path, body, self.headers.get("Authorization"))
        self.server.requests.append(received)
        status, answer = self.server.answers(self.command, self.path)
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def rapi(answers: Callable[[str, str], tuple[int, Any]]) -> Iterator[Rapid]:
    daemon = Rapid(answers)
    thread = threading.Thread(target=daemon.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield daemon
    finally:
        daemon.shutdown()
        thread.join()
        daemon.server_close()


class Reached:
    """A cluster that answers by luxid and by RAPI."""

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        """What luxid answers."""
        raise NotImplementedError

    def rapi(self, method: str, path: str) -> tuple[int, Any]:
        """What RAPI answers: HTTP status and content."""
        raise NotImplementedError

    @contextmanager
    def reached(self, path: Path, way: str) -> Iterator[tuple[str, ...]]:
        """The options with which a command reaches it, by ``luxi`` or ``rapi``."""
        if way == "luxi":
            with luxid(path, self.luxi) as daemon:
                yield "--luxi-socket", daemon.path
        else:
            with rapi(self.rapi) as daemon:
                yield "--rapi", daemon.host, "--rapi-insecure"
