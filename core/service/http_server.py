"""An HTTP server: waitress with limits for each caller, ended by a signal within a second.

It answers only those who call it by its own name, and drops every body that its application does
not use while it comes: who is refused costs no memory and no reading.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.service.callers import OwnNames, caller
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.core.service.wsgi import TEXT, HttpAnswer, respond

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger(__name__)

#: Bytes up to which waitress keeps what it reads and writes in memory, not on disk.
_IN_MEMORY: Final = 2**25

_LAST_PORT: Final = 65535

#: Seconds that answers which are nearly there are waited for at the end.
_LAST_ANSWERS: Final = 0.2

#: Seconds between two looks whether the server is to stop.
_WAKE: Final = 0.5

#: Places that waitress counts in addition to ours: at its own limit it takes no connection at all.
_SPARE: Final = 16

#: Seconds between two looks at old connections.
_CLEANUP: Final = 5.0

#: Bytes that are read from a connection at a time.
_PART: Final = 2**16

#: What a browser gets that was led here by a name of others.
_MISDIRECTED: Final = HttpAnswer(
    b"this server does not have the name it was called by; [http] names lists further ones\n",
    421,
    TEXT,
)
_NO_HOST: Final = HttpAnswer(b"a request of HTTP/1.1 must have one header Host\n", 400, TEXT)

#: Characters of a wrong name that are logged.
_SHOWN: Final = 100

#: Whether an application reads the body of a request, by the caller's address and the path.
ReadsBody = Callable[[str, str], bool]


class Limits(NamedTuple):
    """What callers may take of a server."""

    threads: int = 4
    """requests that are answered at a time"""
    connections: int = 100
    """of all callers"""
    connections_of_one: int = 8
    """of one caller; one more takes the place of an older one that waits"""
    life: float = 30.0
    """seconds after which an idle connection is closed, however busy it looks"""
    headers: int = 8192
    """bytes a request may have in addition to its body"""
    body: int = 2**21
    """bytes a request's body may have; a larger one is refused unread"""


#: Options of Linux for sockets at addresses that no interface has yet (linux/in.h, in6.h).
_FREEBIND: Final = {
    socket.AF_INET: (socket.IPPROTO_IP, 15),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 78),
}


def bind(address: str, port: int, *, absent: bool = False) -> socket.socket:
    """A socket for one address; raises StewardError.

    ``absent``: whether this machine may get the address later.
    """
    if not 0 <= port <= _LAST_PORT:
        # getaddrinfo would take it for another one.
        raise StewardError(f"there is no TCP port {port}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
    except (OSError, UnicodeError):
        raise StewardError(f"{address!a} is no IP address to listen at") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if absent:
            listener.setsockopt(*_FREEBIND[family], 1)
        listener.bind(place)
    except OSError as err:
        listener.close()
        raise StewardError(f"cannot listen at {address} port {port}: {reason_of(err)}") from None
    return listener


class _Dropped:
    """What becomes of a body that is not read; waitress takes it for one of its buffers."""

    def append(self, part: bytes) -> None:
        """Drop a part."""

    def getfile(self) -> BytesIO:
        """What the application can read of it."""
        return BytesIO()

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        """What waitress calls in the end."""


class _OneRequest(HTTPRequestParser):
    """The only request of its connection.

    Of many that are sent at once the answers would pile up while they are not read, until the
    thread that answers waits for their reader.
    """

    def __init__(self, adjustments: Adjustments, reads_body: Callable[[str, str], bool]) -> None:
        """``reads_body``: by the header ``Host`` and the path."""
        self._reads_body = reads_body
        super().__init__(adjustments)

    def parse_header(self, header_plus: bytes) -> None:
        """Read the head, as if the caller had requested that the connection is closed."""
        super().parse_header(header_plus)
        self.headers = {**self.headers, "CONNECTION": "close"}
        parsed: Any = self
        host, path, body = self.headers.get("HOST", ""), parsed.path, parsed.body_rcv
        if body is not None and not self._reads_body(host, path):
            body.buf = _Dropped()


class _Channel(HTTPChannel):
    """A connection that knows how old it is, whatever becomes of the clock."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._begun = time.monotonic()
        self._unread_since = 0.0
        super().__init__(*arguments, **more)
        self.caller = caller(self.addr[0])
        server: Any = self.server
        self.parser_class = partial(  # type: ignore[assignment]
            _OneRequest, reads_body=partial(server.reads_body, self.addr[0])
        )

    def rank(self) -> tuple[bool, float]:
        """Which one is dropped first when there are too many: the oldest without an answer."""
        return bool(self.total_outbufs_len), self._begun

    def is_over(self, now: float, life: float) -> bool:
        """Whether no thread works for it any more, or its answer has not been read in time."""
        if not self.total_outbufs_len:
            self._unread_since = 0.0
            return not self.requests and self._begun < now - life
        self._unread_since = self._unread_since or now
        return self._unread_since < now - life


class Server(TcpWSGIServer):
    """Serves an application on a bound socket until `stop` is called."""

    channel_class = _Channel

    def __init__(
        self,
        application: WSGIApplication,
        listener: socket.socket,
        limits: Limits,
        names: Iterable[str],
        reads_body: ReadsBody = lambda address, path: False,
    ) -> None:
        """``names``: by which it may be called in addition to its addresses, see `OwnNames`."""
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(limits.threads)
        self._own = OwnNames((listener.getsockname()[0], *names))
        self._reads_body = reads_body
        self._listener, self._limits = listener, limits
        self._sockets: dict[int, Any] = {}
        self._stopping, self._next_look = False, 0.0
        super().__init__(
            _only_by(self._own, application),
            map=self._sockets,
            _sock=listener,
            dispatcher=dispatcher,
            adj=_adjustments(listener, limits),
            sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
            bind_socket=False,
        )

    def reads_body(self, address: str, host: str, path: str) -> bool:
        """Whether the body of a request is kept for the application."""
        return (not host or host in self._own) and self._reads_body(address, path)

    def stop(self) -> None:
        """Let `run` end within half a second; may be called by a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Serve until it is stopped; takes no more connections then."""
        while not self._stopping:
            self.asyncore.loop(timeout=_WAKE, use_poll=True, map=self._sockets, count=1)
            self._close_old(time.monotonic())
        self.accepting = False
        self._listener.close()

    def finish(self) -> None:
        """Let the threads answer what can be answered at once."""
        self.task_dispatcher.shutdown(timeout=_LAST_ANSWERS)  # type: ignore[arg-type]

    def close_all(self) -> None:
        """Close all connections, after `run` has ended, in a process that goes on."""
        self.asyncore.close_all(self._sockets, ignore_all=True)

    def set_socket_options(self, conn: socket.socket) -> None:
        """What waitress calls for each new connection; with an OSError it is dropped."""
        super().set_socket_options(conn)
        if not self._make_room(caller(conn.getpeername()[0])):
            conn.close()
            raise ConnectionAbortedError

    def _make_room(self, who: str) -> bool:
        """Whether there is a place for one more connection, if need be that of an older one.

        It is taken from this caller where that one has enough, else from the one with the most.
        Connections that a thread works for stay.
        """
        by_caller: dict[str, list[_Channel]] = {}
        for channel in self._open():
            by_caller.setdefault(channel.caller, []).append(channel)
        if len(by_caller.get(who, ())) >= self._limits.connections_of_one:
            return _drop_one(by_caller[who])
        if sum(map(len, by_caller.values())) < self._limits.connections:
            return True
        return any(_drop_one(each) for each in sorted(by_caller.values(), key=len, reverse=True))

    def maintenance(self, now: float) -> None:
        """What waitress calls for old connections, by a clock that may be set back by years."""

    def _close_old(self, now: float) -> None:
        """Close what is old, also where a byte comes now and then to keep it open."""
        if now < self._next_look:
            return
        self._next_look = now + _CLEANUP
        for channel in self._open():
            if channel.is_over(now, self._limits.life):
                # Not will_close, which waits until the caller takes something.
                channel.handle_close()

    def _open(self) -> list[_Channel]:
        channels: Any = self.active_channels
        return list(channels.values())


def _drop_one(channels: list[_Channel]) -> bool:
    """Close the first one that may be dropped; whether there is one."""
    waiting = [channel for channel in channels if not channel.requests]
    if waiting:
        min(waiting, key=_Channel.rank).handle_close()
    return bool(waiting)


def _only_by(own: OwnNames, application: WSGIApplication) -> WSGIApplication:
    """The application for those who call it by one of its own names.

    Browsers always name a host; simple checks that speak HTTP/1.0 need not.
    """
    refused = RateLimitedLog(_log)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "")
        if host and host not in own:
            name, address = quoted(host[:_SHOWN]), environ["REMOTE_ADDR"]
            refused.warning(f"request misdirected caller={address} host={name}")
            return respond(lambda *_: _MISDIRECTED, environ, start_response)
        if not host and environ["SERVER_PROTOCOL"] != "HTTP/1.0":
            return respond(lambda *_: _NO_HOST, environ, start_response)
        return application(environ, start_response)

    return answer


def _adjustments(listener: socket.socket, limits: Limits) -> Adjustments:
    return Adjustments(
        sockets=[listener],
        threads=limits.threads,
        connection_limit=limits.connections + _SPARE,
        channel_timeout=int(limits.life),
        cleanup_interval=int(_CLEANUP),
        max_request_header_size=limits.headers,
        max_request_body_size=limits.body,
        inbuf_overflow=_IN_MEMORY,
        outbuf_overflow=_IN_MEMORY,
        recv_bytes=_PART,
        asyncore_use_poll=True,
        log_socket_errors=False,
        clear_untrusted_proxy_headers=True,
        ident=None,
    )


def silence_waitress() -> None:
    """Let waitress log nothing: all it logs is what broken requests make it log."""
    logger = logging.getLogger("waitress")
    logger.propagate = False
    logger.handlers = [logging.NullHandler()]
