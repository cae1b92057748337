"""An HTTP server in a thread of the test, and callers of it that send bytes of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from programs import TIME_LIMIT

from ganeti_steward.core.service.http_messages import HttpAnswer, HttpRequest
from ganeti_steward.core.service.http_server import Application, Limits, Server, bind

#: Where it listens.
Place = tuple[str, int]

#: What it is called, and what it permits.
NAME: Final = "node1.lab"
USUAL: Final = Limits()


def echo(request: HttpRequest) -> HttpAnswer:
    """The number of bytes of the body."""
    return HttpAnswer(str(len(request.body)).encode())


@contextmanager
def serving(
    application: Application = echo,
    limits: Limits = USUAL,
    reads_body: Callable[[str, str], bool] = lambda *_: False,
) -> Iterator[Place]:
    """A server at a loopback address."""
    listener = bind("127.0.0.1", 0)
    place = listener.getsockname()
    server = Server(application, listener, limits, (NAME,), reads_body)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield place
    finally:
        server.stop()
        thread.join()
        server.finish()


def request(*lines: str) -> bytes:
    """The head of a request."""
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


@contextmanager
def calling(place: Place, sent: bytes, caller: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A connection on which something was sent."""
    with socket.create_connection(place, TIME_LIMIT, (caller, 0)) as one:
        one.sendall(sent)
        yield one


def answer(place: Place, sent: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to a request."""
    with calling(place, sent) as one:
        return answer_at(one)


def answer_at(one: socket.socket) -> tuple[int, bytes]:
    """The same on a connection, which is read to its end."""
    whole = one.makefile("rb").read()
    return int(whole.split(b" ")[1]), whole.partition(b"\r\n\r\n")[2]
