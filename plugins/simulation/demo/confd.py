"""confd of the demo: says on loopback which node is the master."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ganeti_steward.core.ganeti.signing import BadMessage, open_signed, sign
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.maintenance.confd.messages import MAGIC, ReplyStatus

ADDRESS: Final = "127.0.0.1"

_LARGEST: Final = 2**16


def reply(raw: bytes, key: bytes, master: str) -> bytes:
    """The answer to a query for the master; raises BadMessage for what is not signed."""
    inner = load_json(open_signed(key, raw.removeprefix(MAGIC)).text)
    members = {
        "protocol": 1,
        "status": int(ReplyStatus.OK),
        "answer": [master, "", ""],
        "serial": 1,
    }
    return MAGIC + sign(key, json.dumps(members), inner["rsalt"])


@contextmanager
def answering(key: bytes, master: Callable[[], str]) -> Iterator[int]:
    """Answer until the end; the UDP port.  ``master``: its name now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((ADDRESS, 0))
        ended = threading.Event()
        thread = threading.Thread(target=_answer, args=(server, key, master, ended))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ended.set()
            # Wakes the thread.
            server.sendto(b"", server.getsockname())
            thread.join()


def _answer(
    server: socket.socket, key: bytes, master: Callable[[], str], ended: threading.Event
) -> None:
    while True:
        raw, caller = server.recvfrom(_LARGEST)
        if ended.is_set():
            return
        try:
            server.sendto(reply(raw, key, master()), caller)
        except (BadMessage, KeyError, OSError, TypeError, ValueError):
            # Not from this demo's daemon.
            continue
