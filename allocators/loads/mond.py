"""Queries to the monitoring daemons of many nodes at once, within one time limit.

The daemon speaks plain HTTP on the address behind the node's name.  It sends no content
type, and answers 404 or 500 for a report it does not have; the list of all its reports is lost
as soon as one of them fails, so one report is requested alone.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from queue import Empty, SimpleQueue
from typing import Final

import orjson

from ganeti_steward.allocators.loads.load_reports import NoLoads
from ganeti_steward.core.errors import reason_of

PORT: Final = 1815

#: Connections at a time.
_WORKERS: Final = 64

#: Bytes of one report.
_LONGEST: Final = 2**20


def query(
    nodes: Sequence[str], collector: str, limit: float, *, port: int = PORT
) -> dict[str, object]:
    """Each node's report of one collector.

    ``limit``: seconds for all of them together.  Raises NoLoads at the first node found
    that does not give one, or has not when the time is over.
    """
    running = _Query(nodes, f"/1/report/default/{collector}", limit, port)
    reports: dict[str, object] = {}
    try:
        while len(reports) < len(nodes):
            node, body = running.next_answer()
            if body is None:
                late = next(name for name in nodes if name not in reports)
                raise NoLoads.of(late, "no complete answer in time")
            try:
                reports[node] = orjson.loads(body)
            except orjson.JSONDecodeError as err:
                raise NoLoads.of(node, f"its answer is not valid JSON: {err}") from None
    finally:
        running.end()
    return reports


class _Query:
    """The threads that query the nodes, and their answers.

    At the end nothing waits for them: their connections are closed.  A thread that still looks
    up a name ends when the resolver does, or with the process.
    """

    def __init__(self, nodes: Sequence[str], path: str, limit: float, port: int) -> None:
        self._waiting = deque(dict.fromkeys(nodes))
        self._path, self._port = path, port
        self._deadline = time.monotonic() + limit
        self._answers: SimpleQueue[tuple[str, bytes | NoLoads]] = SimpleQueue()
        self._lock = threading.Lock()
        self._connected: set[socket.socket] = set()
        self._over = False
        for started in range(min(_WORKERS, len(self._waiting))):
            try:
                threading.Thread(target=self._work, daemon=True).start()
            except RuntimeError:
                if not started:
                    raise NoLoads("no thread can be started to query the nodes") from None

    def next_answer(self) -> tuple[str, bytes | None]:
        """The next answer, or None when the time is over; raises NoLoads."""
        try:
            node, answer = self._answers.get(timeout=self._left())
        except Empty:
            return "", None
        if isinstance(answer, NoLoads):
            raise answer
        return node, answer

    def end(self) -> None:
        """Query no further node and wait for none."""
        with self._lock:
            self._over = True
            for connected in self._connected:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)

    def _work(self) -> None:
        while not self._over:
            try:
                node = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._answers.put((node, self._fetch(node)))
            except (OSError, HTTPException, ValueError) as err:
                self._answers.put((node, NoLoads.of(node, _fault(err))))

    def _fetch(self, node: str) -> bytes:
        connection = HTTPConnection(node, self._port, timeout=self._left())
        connection.connect()
        # The connection forgets its socket while the answer is still being read from it.
        connected = connection.sock
        with self._lock:
            if self._over:
                connection.close()
                raise TimeoutError
            self._connected.add(connected)
        try:
            connection.request("GET", self._path)
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(f"status {response.status} for {self._path}")
            body = response.read(_LONGEST + 1)
        finally:
            with self._lock:
                self._connected.discard(connected)
            connection.close()
        if len(body) > _LONGEST:
            raise ValueError(f"its answer is longer than {_LONGEST // 2**20} MiB")
        return body


def _fault(err: Exception) -> str:
    if isinstance(err, TimeoutError):
        return "no complete answer in time"
    if isinstance(err, HTTPException) and not isinstance(err, OSError):
        return f"its answer is not HTTP ({type(err).__name__})"
    return reason_of(err)
