"""Notifies systemd that the agent is ready; without systemd nothing happens."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from ganeti_steward.core.json_reader import printable

#: Seconds until the socket takes the line; then it is not sent.
_LIMIT: Final = 1.0


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send one line, such as ``READY=1``, to the socket that systemd has named.

    What others have written in it cannot become a second line.
    """
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    # An @ stands for the zero byte of a name that is in no filesystem.
    address = "\0" + path[1:] if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_LIMIT)
        sender.sendto(printable(state).encode(), address)
