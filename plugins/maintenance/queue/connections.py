"""Whether the calls of an earlier daemon still go on in luxid: its connections show it.

luxid closes the connection of a call when the call has ended, or a while later where the caller is
gone; the kernel closes them all when luxid itself ends.  So a call that was made before a moment is
over as soon as every connection that was open at that moment has been closed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError, reason_of

#: The kernel's list of the Unix sockets of this network namespace.
TABLE: Final = "/proc/net/unix"

#: The flag of a socket that listens.
_LISTENS: Final = 0x10000
#: Fields before the path, in a line of the list.
_FIELDS: Final = 7

#: Seconds for which `Connections.awaited` waits, and between two looks: a call that has ended is
#: closed within milliseconds.
_WAIT: Final = 2.0
_LOOK: Final = 0.05


class _Open(NamedTuple):
    """The connections of a socket at one moment, seen from the side of the server."""

    accepted: frozenset[int]
    """inode numbers"""
    unaccepted: int
    """how many the server has not taken yet; these have no inode number"""


class Connections:
    """The connections that were open at the first look."""

    def __init__(
        self,
        path: str,
        *,
        table: str = TABLE,
        wait: float = _WAIT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``path``: luxid's socket; ``wait``: seconds that `awaited` takes at most."""
        self._path, self._table = path, table
        self._wait, self._sleep = wait, sleep
        self._name = ""
        """what the list calls the socket"""
        self._before: frozenset[int] | None = None
        """inode numbers of those that have not been closed since"""

    def awaited(self) -> str:
        """Why a call made before the first look may go on; empty when none does.

        For a process that can be sure that no other one makes calls for the daemon.
        """
        if self._before is not None and not self._before:
            return ""
        try:
            return self._look()
        except OSError as err:
            fault = f"{self._table} cannot be read: {reason_of(err)}"
        except StewardError as err:
            fault = str(err)
        return f"the connections to luxid cannot be listed: {fault}"

    def _look(self) -> str:
        if self._before is None:
            now = self._visible()
            if now.unaccepted:
                return f"luxid has not taken {now.unaccepted} connections yet"
            self._before = now.accepted
        looks = int(self._wait / _LOOK)
        for left in reversed(range(looks + 1)):
            self._before &= self._read().accepted
            if not self._before or not left:
                break
            self._sleep(_LOOK)
        if not self._before:
            return ""
        return (
            f"{len(self._before)} connections to luxid that were open when the daemon began have "
            "to be closed: a call is under way, or a command waits for a job (a restart of luxid "
            "closes them)"
        )

    def _visible(self) -> _Open:
        """The connections, once it is certain that the list has those of this socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
            own.settimeout(_WAIT)
            own.connect(self._path)
            # The list has the name that the server gave it, which can be another one than ours.
            self._name = own.getpeername()
            if not list(self._rows()):
                raise StewardError(f"{self._table} does not have those of {self._path}")
        # luxid takes connections in their order, and lets go of one without a request.
        for _ in range(int(self._wait / _LOOK)):
            seen = self._read()
            if not seen.unaccepted:
                break
            self._sleep(_LOOK)
        return seen

    def _read(self) -> _Open:
        inodes = list(self._rows())
        return _Open(frozenset(filter(None, inodes)), inodes.count(0))

    def _rows(self) -> Iterator[int]:
        """The inode numbers of the connections to the socket; 0 until luxid takes one."""
        with open(self._table, encoding="utf-8", errors="surrogateescape") as file:
            for line in list(file)[1:]:
                fields = line.rstrip("\n").split(None, _FIELDS)
                listens = int(fields[3], 16) & _LISTENS
                if fields[_FIELDS:] == [self._name] and not listens:
                    yield int(fields[6])
