"""An HTTP server with limits for each caller, ended by a signal within a second.

It answers only those who call it by its own name, and drops every body that its application does
not use while it comes: who is refused costs no memory.  One thread reads and writes all
connections; a few others answer, so that an answer that takes long delays none that does not.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.service.callers import OwnNames, caller
from ganeti_steward.core.service.http_messages import (
    TEXT,
    HttpAnswer,
    HttpRequest,
    RefusedRequest,
    body_length,
    parse_head,
)
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog

_log = logging.getLogger(__name__)

_LAST_PORT: Final = 65535

#: Connections that wait in the kernel until they are accepted, and those accepted at a time.
_WAITING: Final = 1024
_AT_ONCE: Final = 1

#: Seconds that answers which are nearly there are waited for at the end.
_LAST_ANSWERS: Final = 0.2

#: Bytes of a connection that the kernel takes in advance, at most about the double of it.
_UNREAD: Final = 2**15

#: Bytes of a body that are read at a time.
_PART: Final = 2**16

#: The line before a chunk of a body: how many bytes it has.
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")

_BROKEN: Final = "a chunk of the body is broken"

#: What a browser gets that was led here by a name of others.
_MISDIRECTED: Final = (
    "this server does not have the name it was called by; [http] names lists further ones"
)

#: Characters of a wrong name that are logged.
_SHOWN: Final = 100

Application = Callable[[HttpRequest], HttpAnswer]

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
    """seconds in which a request has to come, and those in which its answer has to be read"""
    headers: int = 8192
    """bytes a request may have in addition to its body"""
    body: int = 2**21
    """bytes from which on the body of a request is refused, unread if it names its length"""


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
        raise StewardError(f"{address!a} is not an IP address to listen on") from None
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


def answer_of(application: Application, request: HttpRequest) -> HttpAnswer:
    """What it answers; a failure inside is an answer of status 500."""
    try:
        return application(request)
    except Exception:
        _log.exception("a request failed")
        return HttpAnswer(b"failed\n", 500, TEXT)


class _Connection:
    """A connection, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.address: Final[str] = writer.get_extra_info("peername")[0]
        self.caller: Final = caller(self.address)
        self.is_worked_for = self.is_answered = False

    async def body(self, length: int | None, most: int, is_kept: bool) -> bytes:
        """Read a body, empty unless it is kept; raises RefusedRequest, OSError, EOFError.

        ``length``: None where it comes in chunks; ``most``: bytes from which on it is refused.
        """
        body, size = bytearray(), 0
        while left := await self._size_of_chunk() if length is None else length - size:
            size += left
            if size >= most:
                raise RefusedRequest(413, "the body of the request is too large")
            while left:
                part = await self.reader.read(min(left, _PART))
                if not part:
                    raise EOFError
                left -= len(part)
                if is_kept:
                    body += part
            if length is None and await self.reader.readexactly(2) != b"\r\n":
                raise RefusedRequest(400, _BROKEN)
        return bytes(body)

    async def _size_of_chunk(self) -> int:
        """Bytes of the next one; 0 behind the last one and the lines that follow it."""
        line = _CHUNK.fullmatch(await self.reader.readuntil(b"\r\n"))
        if not line:
            raise RefusedRequest(400, _BROKEN)
        size = int(line[1], 16)
        while not size and await self.reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return size


class Server:
    """Serves an application on a bound socket until `stop` is called."""

    def __init__(
        self,
        application: Application,
        listener: socket.socket,
        limits: Limits,
        names: Iterable[str],
        reads_body: ReadsBody = lambda address, path: False,
    ) -> None:
        """Listen; ``names``: further ones than its addresses, see `OwnNames`."""
        self._application, self._reads_body = application, reads_body
        self._listener, self._limits = listener, limits
        self._own = OwnNames((listener.getsockname()[0], *names))
        self._misdirected = RateLimitedLog(_log)
        self._failed = RateLimitedLog(_log)
        self._open: dict[asyncio.StreamWriter, _Connection] = {}
        """from the oldest one on"""
        self._jobs: SimpleQueue[tuple[HttpRequest, Future[HttpAnswer]] | None] = SimpleQueue()
        for _ in range(limits.threads):
            threading.Thread(target=self._answer, name="http-answer", daemon=True).start()
        # Each connection has it from the listening socket.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD)
        listener.listen(_WAITING)
        # It would log what broken requests bring about.
        logging.getLogger(asyncio.__name__).disabled = True
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        # Made here: `stop` and `run`, in two threads, would each make one.
        self._loop = self._runner.get_loop()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Let `run` end; may be called by a signal handler and by other threads."""
        # It may have ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)

    def run(self) -> None:
        """Serve until it is stopped; takes no more connections then."""
        self._runner.run(self._serve())

    def finish(self) -> None:
        """Let the threads answer what can be answered at once, and close all connections."""
        with self._runner, self._listener:
            self._runner.run(self._send_last_answers())
        for _ in range(self._limits.threads):
            self._jobs.put(None)

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._converse, sock=self._listener, limit=self._limits.headers, backlog=_AT_ONCE
        )
        self._listener.listen(_WAITING)
        await self._stopping.wait()
        self._loop.remove_reader(self._listener)
        # What was accepted last is begun within three steps of the loop; a closed server would
        # leave it open for ever.
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()

    async def _send_last_answers(self) -> None:
        for writer, connection in self._open.items():
            if not (connection.is_worked_for or connection.is_answered):
                writer.transport.abort()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=_LAST_ANSWERS)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What a connection is for: a request and its answer, if there is room."""
        try:
            connection = _Connection(reader, writer)
            if self._make_room(connection.caller):
                self._open[writer] = connection
                await self._exchange(connection)
        except (OSError, EOFError):
            # It was too slow, or ended in the middle of a request.
            return
        except Exception as err:
            self._failed.warning("a connection failed", err)
        finally:
            writer.transport.abort()
            self._open.pop(writer, None)

    def _make_room(self, who: str) -> bool:
        """Whether there is a place for one more connection, if need be that of an older one.

        It is taken from this caller where that one has enough, else from the one with the most:
        of those that no thread works for the oldest that waits, else the oldest answered one.
        """
        places = Counter(one.caller for one in self._open.values())
        among = [one for one in self._open.values() if not one.is_worked_for]
        if places[who] >= self._limits.connections_of_one:
            among = [one for one in among if one.caller == who]
        elif len(self._open) < self._limits.connections:
            return True
        if among:
            dropped = min(among, key=lambda one: (-places[one.caller], one.is_answered))
            dropped.writer.transport.abort()
            del self._open[dropped.writer]
        return bool(among)

    async def _exchange(self, connection: _Connection) -> None:
        """Read a request, and answer it; raises OSError, EOFError."""
        method, life = "GET", self._limits.life
        try:
            async with asyncio.timeout(life):
                raw = await connection.reader.readuntil(b"\r\n\r\n")
                head = parse_head(raw, connection.address)
                method = head.method
                request = head._replace(body=await self._body(connection, head))
            connection.is_worked_for = True
            answer = await self._answered(connection, request)
        except RefusedRequest as err:
            answer = err.answer
        except asyncio.LimitOverrunError:
            answer = HttpAnswer(b"a line or the head of the request is too long\n", 431, TEXT)
        connection.is_worked_for, connection.is_answered = False, True
        connection.writer.write(answer.packed(method))
        connection.writer.close()
        async with asyncio.timeout(life):
            await connection.writer.wait_closed()

    async def _body(self, connection: _Connection, head: HttpRequest) -> bytes:
        """What the application reads of it, when all has come; raises RefusedRequest and others.

        That it is refused, the caller learns when all was sent: else the answer could be lost.
        """
        body, length, refusal = b"", body_length(head.headers), self._refusal(head)
        if length is None or length:
            is_read = not refusal and self._reads_body(head.address, head.path)
            waits = head.headers.get("expect", "").lower() == "100-continue"
            if waits and (length or 0) < self._limits.body:
                connection.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await connection.body(length, self._limits.body, is_read)
        if refusal:
            raise refusal
        return body

    def _refusal(self, head: HttpRequest) -> RefusedRequest | None:
        """What one gets who calls by a name that is not the server's own.

        Browsers always name a host; simple checks that speak HTTP/1.0 need not.
        """
        host = head.headers.get("host", "")
        if host and host not in self._own:
            name = quoted(host[:_SHOWN])
            self._misdirected.warning(f"request misdirected caller={head.address} host={name}")
            return RefusedRequest(421, _MISDIRECTED)
        if not host and head.version != "1.0":
            return RefusedRequest(400, "a request of HTTP/1.1 must have one header Host")
        return None

    async def _answered(self, connection: _Connection, request: HttpRequest) -> HttpAnswer:
        """The application's answer, once a thread is free; raises OSError.

        A caller who breaks the connection off makes room at once, and no thread begins to work.
        """
        future: Future[HttpAnswer] = Future()
        self._jobs.put((request, future))
        answer = asyncio.wrap_future(future)
        closed = asyncio.ensure_future(connection.writer.wait_closed())
        try:
            await asyncio.wait((answer, closed), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ConnectionAbortedError
            return answer.result()
        finally:
            answer.cancel()

    def _answer(self) -> None:
        """What a thread does."""
        while job := self._jobs.get():
            request, future = job
            if future.set_running_or_notify_cancel():
                future.set_result(answer_of(self._application, request))
