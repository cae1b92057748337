"""The HTTP server: waitress with limits for each caller, ended by a signal within a second."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.diagnose.agent.callers import caller
from ganeti_steward.diagnose.agent.repairs import REQUEST_LIMIT

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

#: Requests that are answered at a time; a repair command takes one for as long as it runs.
THREADS: Final = 4

#: Connections of all callers, and of one.
CONNECTIONS: Final = 100
CONNECTIONS_OF_ONE: Final = 8

#: Seconds after which a connection nobody works for is closed, however busy it looks.
LIFE: Final = 30.0

#: Bytes a request may have besides its body.
_HEADERS: Final = 8192

#: Bytes waitress takes before it refuses by itself; below, the application refuses.
_BODY: Final = 2 * REQUEST_LIMIT

#: Bytes up to which waitress keeps what it reads and writes in memory, not on disk.
_IN_MEMORY: Final = 2**25

_LAST_PORT: Final = 65535

#: Seconds that answers which are nearly there are waited for at the end.
_LAST_ANSWERS: Final = 0.2

#: Seconds between two looks at old connections.
_CLEANUP: Final = 5


def bind(address: str, port: int) -> socket.socket:
    """A socket for one address; raises StewardError."""
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
        listener.bind(place)
    except OSError as err:
        listener.close()
        raise StewardError(f"cannot listen at {address} port {port}: {reason_of(err)}") from None
    return listener


class _OneRequest(HTTPRequestParser):
    """The only request of its connection.

    Of many that are sent at once the answers would pile up while nobody reads them, until the
    thread that answers waits for their reader.
    """

    def parse_header(self, header_plus: bytes) -> None:
        """Read the head, as if the caller had asked for the connection to be closed."""
        super().parse_header(header_plus)
        self.headers = {**self.headers, "CONNECTION": "close"}


class _Channel(HTTPChannel):
    """A connection that knows how old it is, whatever becomes of the clock."""

    parser_class = _OneRequest

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._begun = time.monotonic()
        self._unread_since = 0.0
        super().__init__(*arguments, **more)

    def is_over(self, now: float) -> bool:
        """Whether nobody works for it any more, or its answer has not been read in time."""
        if not self.total_outbufs_len:
            self._unread_since = 0.0
            return not self.requests and self._begun < now - LIFE
        self._unread_since = self._unread_since or now
        return self._unread_since < now - LIFE


class Server(TcpWSGIServer):
    """Serves an application on a bound socket until it is told to stop."""

    channel_class = _Channel

    def __init__(self, application: WSGIApplication, listener: socket.socket) -> None:
        adjustments = Adjustments(
            sockets=[listener],
            threads=THREADS,
            connection_limit=CONNECTIONS,
            channel_timeout=int(LIFE),
            cleanup_interval=_CLEANUP,
            max_request_header_size=_HEADERS,
            max_request_body_size=_BODY,
            inbuf_overflow=_IN_MEMORY,
            outbuf_overflow=_IN_MEMORY,
            asyncore_use_poll=True,
            log_socket_errors=False,
            clear_untrusted_proxy_headers=True,
            ident=None,
        )
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(THREADS)
        self._listener, self._stopping = listener, False
        self._next_look = 0.0
        place = (listener.family, listener.type, listener.proto, listener.getsockname())
        super().__init__(
            application,
            map={},
            _sock=listener,
            dispatcher=dispatcher,
            adj=adjustments,
            sockinfo=place,
            bind_socket=False,
        )

    def stop(self) -> None:
        """Let `run` end; may be called by a signal handler."""
        self._stopping = True
        self.pull_trigger()

    def run(self) -> None:
        """Serve until it is stopped; takes no more connections then."""
        while not self._stopping:
            self.asyncore.loop(timeout=_CLEANUP, use_poll=True, map=self._channels(), count=1)
            self._close_old(time.monotonic())
        self.accepting = False
        self._listener.close()

    def finish(self) -> None:
        """Let the threads answer what can be answered at once."""
        self.task_dispatcher.shutdown(timeout=_LAST_ANSWERS)  # type: ignore[arg-type]

    def set_socket_options(self, conn: socket.socket) -> None:
        """What waitress calls for each new connection; with an OSError it is dropped."""
        super().set_socket_options(conn)
        who = caller(conn.getpeername()[0])
        if sum(who == caller(channel.addr[0]) for channel in self._open()) >= CONNECTIONS_OF_ONE:
            conn.close()
            raise ConnectionAbortedError

    def maintenance(self, now: float) -> None:
        """What waitress calls for old connections, by a clock that may be set back by years."""

    def _close_old(self, now: float) -> None:
        """Close what is old, also where a byte comes now and then to keep it open."""
        if now < self._next_look:
            return
        self._next_look = now + _CLEANUP
        for channel in self._open():
            if channel.is_over(now):
                # Not will_close, which waits until the caller takes something.
                channel.handle_close()

    def _open(self) -> list[Any]:
        channels: Any = self.active_channels
        return list(channels.values())

    def _channels(self) -> Any:
        """All sockets of this server, as waitress keeps them."""
        return self._map  # type: ignore[attr-defined]


def silence_waitress() -> None:
    """Let waitress log nothing: all it has to say is what broken requests make it say."""
    logger = logging.getLogger("waitress")
    logger.propagate = False
    logger.handlers = [logging.NullHandler()]
