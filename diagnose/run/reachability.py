"""Which nodes of the cluster do not answer this one: a master candidate is a witness of silence.

The maintenance daemon sees the cluster from one place; where that is cut off, all others look dead.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final

from ganeti_steward.core.ganeti.this_node import (
    DATA,
    candidate_addresses,
    node_addresses,
    this_node,
)

#: Seconds for all nodes: the kernel tries a connection again after one and after three.
_LIMIT: Final = 5.0

#: How an attempt to connect ends where a machine runs, whether an agent does or not.
_ANSWERS: Final = (0, errno.ECONNREFUSED, errno.ECONNRESET)


def unreached(port: int, data: str = DATA, host: str = "") -> list[str] | None:
    """Primary addresses of the other nodes whose machines do not answer now, sorted.

    None where that says nothing: this node is not a master candidate, or nothing answers it at all,
    so that it may be cut off itself.  ``port``: that of the agents; ``data``, ``host``: as in
    `this_node`.
    """
    own = this_node(data, host).address
    others = {*node_addresses(data).values()} - {own}
    if own not in candidate_addresses(data) or not others:
        return None
    try:
        answering = _answering(others, port)
    except OSError:
        return None
    return sorted(others - answering) if answering else None


def _answering(addresses: Iterable[str], port: int) -> set[str]:
    """Those of the addresses from which anything came back in time."""
    found, last = set[str](), time.monotonic() + _LIMIT
    with ExitStack() as held:
        waiting = held.enter_context(selectors.DefaultSelector())
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            attempt = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
            attempt.setblocking(False)
            code = attempt.connect_ex((address, port))
            if code == errno.EINPROGRESS:
                waiting.register(attempt, selectors.EVENT_WRITE, address)
            elif code in _ANSWERS:
                found.add(address)
        while waiting.get_map() and (left := last - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                ended = waiting.unregister(key.fileobj)
                assert isinstance(ended.fileobj, socket.socket)
                if ended.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in _ANSWERS:
                    found.add(ended.data)
    return found
