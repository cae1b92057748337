"""Servers on loopback that answer as confd does, or as a test wants it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import open_signed, sign
from ganeti_steward.plugins.maintenance.confd.client import Confd
from ganeti_steward.plugins.maintenance.confd.messages import MAGIC

KEY: Final = b"secretkey0123456789\n"

#: Gives the datagrams that answer one request.
Answers = Callable[[bytes], list[bytes]]


def reply(raw: bytes, answer: Any = "node1.lab", serial: int = 5, **changed: Any) -> bytes:
    """What confd answers to a request."""
    inner = json.loads(open_signed(KEY, raw.removeprefix(MAGIC)).text)
    members = {"protocol": 1, "status": 0, "answer": answer, "serial": serial} | changed
    return MAGIC + sign(KEY, json.dumps(members), inner["rsalt"])


class Server(threading.Thread):
    """A confd on one address of loopback."""

    def __init__(self, address: str, port: int, answers: Answers) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, port))
        self.port: int = self.socket.getsockname()[1]
        self.requests: list[bytes] = []
        self._answers = answers

    def run(self) -> None:
        while True:
            raw, caller = self.socket.recvfrom(65536)
            if raw == b"end":
                return
            self.requests.append(raw)
            for answer in self._answers(raw):
                self.socket.sendto(answer, caller)

    def end(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"end", self.socket.getsockname())
        self.join()
        self.socket.close()


class Cluster:
    """Servers with one port on several addresses."""

    def __init__(self, key_file: Path) -> None:
        self.key_file = key_file
        self.servers: list[Server] = []

    @property
    def port(self) -> int:
        return self.servers[0].port

    @property
    def addresses(self) -> list[str]:
        return [server.socket.getsockname()[0] for server in self.servers]

    def end(self) -> None:
        for server in self.servers:
            server.end()

    def add(self, answers: Answers) -> Server:
        port = self.servers[0].port if self.servers else 0
        server = Server(f"127.0.0.{len(self.servers) + 2}", port, answers)
        server.start()
        self.servers.append(server)
        return server

    def client(self, time_limit: float = 3.0, more: tuple[str, ...] = ()) -> Confd:
        return Confd(
            KeyFile(str(self.key_file)),
            [*self.addresses, *more],
            port=self.port,
            time_limit=time_limit,
        )


def good(raw: bytes) -> list[bytes]:
    return [reply(raw)]


def silent(raw: bytes) -> list[bytes]:
    return []
