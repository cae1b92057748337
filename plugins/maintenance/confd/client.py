"""A client of confd: one query to all master candidates at once, over UDP."""

from __future__ import annotations

import ipaddress
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.plugins.maintenance.confd import messages
from ganeti_steward.plugins.maintenance.confd.choice import is_enough

PORT: Final = 1814

#: Requests to a candidate that does not answer, and seconds from one to the next.
_TRIES: Final = 3
_BETWEEN_TRIES: Final = 1.0

#: Seconds for a whole query.
TIME_LIMIT: Final = 10.0

#: Bytes of a reply, as long as a datagram can be.
_LONGEST_REPLY: Final = 65535


class Confd:
    """Queries to the master candidates of one cluster."""

    def __init__(
        self,
        key: KeyFile,
        candidates: Sequence[str],
        *,
        port: int = PORT,
        time_limit: float = TIME_LIMIT,
        clock: Callable[[], float] = time.time,
        token: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        """``candidates``: their primary addresses; ``time_limit``: seconds for one query.

        ``clock``: s since 1970; ``token``: a fresh salt for each candidate and query.
        """
        self._key, self._port, self._time_limit = key, port, time_limit
        self._candidates = tuple(dict.fromkeys(candidates))
        self._clock, self._token = clock, token

    @property
    def candidates(self) -> tuple[str, ...]:
        """The addresses that are queried."""
        return self._candidates

    def query(
        self, kind: messages.QueryType, query: messages.Query = None, *, all_replies: bool = False
    ) -> list[messages.Reply]:
        """The verified replies, one of each candidate at most.

        Waiting ends when enough candidates agree, or with ``all_replies`` when all have
        answered, and at the time limit.  Raises StewardError where no query can be sent.
        """
        if not self._candidates:
            raise StewardError("no master candidate is known that could be queried")
        exchange = _Exchange(self._key, self._port, self._token, self._clock)
        with selectors.DefaultSelector() as selector:
            try:
                for candidate in self._candidates:
                    exchange.open(selector, candidate)
                return self._collect(selector, exchange, (kind, query), all_replies=all_replies)
            finally:
                exchange.close()

    def _collect(
        self,
        selector: selectors.BaseSelector,
        exchange: _Exchange,
        question: tuple[messages.QueryType, messages.Query],
        *,
        all_replies: bool,
    ) -> list[messages.Reply]:
        started = time.monotonic()
        until, sent = started + self._time_limit, 0
        while not exchange.complete and (now := time.monotonic()) < until:
            if sent < _TRIES and now >= started + sent * _BETWEEN_TRIES:
                exchange.send(*question)
                sent += 1
            again = started + sent * _BETWEEN_TRIES if sent < _TRIES else until
            for ready, _ in selector.select(max(min(again, until) - time.monotonic(), 0)):
                exchange.receive(ready.data)
            if not all_replies and is_enough(exchange.replies, len(self._candidates)):
                break
        return exchange.replies


class _Exchange:
    """The sockets of one query, one for each candidate, and what came back."""

    def __init__(
        self, key: KeyFile, port: int, token: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self._key, self._port, self._token, self._clock = key, port, token, clock
        self._sockets: dict[str, socket.socket] = {}
        self._salts: dict[str, str] = {}
        self._replies: dict[str, messages.Reply] = {}

    @property
    def complete(self) -> bool:
        return len(self._replies) == len(self._sockets)

    @property
    def replies(self) -> list[messages.Reply]:
        return list(self._replies.values())

    def open(self, selector: selectors.BaseSelector, candidate: str) -> None:
        """A connected socket: the kernel then drops datagrams from other addresses."""
        try:
            version = ipaddress.ip_address(candidate).version
        except ValueError:
            raise StewardError(f"master candidate {candidate!r} is not an IP address") from None
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        opened = socket.socket(family, socket.SOCK_DGRAM)
        self._sockets[candidate], self._salts[candidate] = opened, self._token()
        opened.setblocking(False)
        try:
            opened.connect((candidate, self._port))
        except OSError:
            # A candidate without a route does not answer, like one that is down.
            return
        selector.register(opened, selectors.EVENT_READ, candidate)

    def send(self, kind: messages.QueryType, query: messages.Query) -> None:
        """Send to each candidate that has not answered; raises StewardError without a key."""
        key, now = self._key.key(), int(self._clock())
        for candidate, opened in self._sockets.items():
            if candidate not in self._replies:
                salt = self._salts[candidate]
                raw = messages.request(kind, query, key=key, reply_salt=salt, now=now)
                _send(opened, raw)

    def receive(self, candidate: str) -> None:
        """Take a datagram; one that is no reply to this query is dropped."""
        try:
            raw = self._sockets[candidate].recv(_LONGEST_REPLY)
            salt = self._salts[candidate]
            reply = messages.read_reply(raw, key=self._key.key(), reply_salt=salt, peer=candidate)
        except (OSError, messages.BadReply):
            # An ICMP error (the port is closed) is no answer either.
            return
        self._replies.setdefault(candidate, reply)

    def close(self) -> None:
        for opened in self._sockets.values():
            opened.close()


def _send(opened: socket.socket, raw: bytes) -> None:
    try:
        opened.send(raw)
    except OSError:
        # The same as no answer: the next try may succeed.
        return
