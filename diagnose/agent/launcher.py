"""Having the node diagnosed and repaired by a process without threads, which may fork.

That process (`ganeti_steward.diagnose.agent.launching`) holds everything it needs in memory, so
that a node whose system disk is dead is still diagnosed.  When it has ended, another is started.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.ganeti.this_node import DATA
from ganeti_steward.core.supervision.supervising import STOPPING
from ganeti_steward.core.supervision.supervisor import AROUND, Message, Outcome

#: The program, behind which its arguments stand, see `launching.main`.
_PROGRAM: Final = (
    *(sys.executable, "-P", "-c"),
    "from ganeti_steward.diagnose.agent.launching import main; main()",
)

#: What the process sends when it has loaded everything.
READY: Final = b"ready"

#: Seconds it has until then.
_LOADING: Final = 120.0


class Launcher:
    """May be called by several threads."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        lock_memory: bool,
        data: str = DATA,
        node_name: str = "",
    ) -> None:
        """``environment`` of the process and of what it starts.

        ``data`` and ``node_name``: which node this is, see `core.ganeti.this_node.this_node`.
        """
        self._environment, self._lock_memory = dict(environment), lock_memory
        self._node = (data, node_name)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it has loaded everything; raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [*_PROGRAM, str(theirs.fileno()), str(int(self._lock_memory)), *self._node],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env=self._environment,
                start_new_session=True,
            )
        self.close()
        self._socket, self._process = ours, process
        ours.settimeout(_LOADING)
        if ours.recv(len(READY)) != READY:
            raise ConnectionError(errno.ECONNREFUSED, "the diagnosing process ended at its start")

    def close(self) -> None:
        """Let the process end, with everything it has started."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            # Reaped if it has ended already, else with this process.
            self._process.poll()
            self._process.returncode = 0

    def call(self, work: Mapping[str, Any], limit: float, given: bytes = b"") -> Outcome:
        """What came of some work (`launching.WORK`) after ``limit`` seconds at most.

        ``given``: what the work reads.  Raises OSError when it cannot be requested.
        """
        reading, writing = os.pipe()
        try:
            try:
                request = json.dumps([*work.items(), ("limit", limit)]).encode()
                self._request(request, writing, given)
            finally:
                os.close(writing)
            message = Message(reading)
            if not message.read_until(time.monotonic() + limit + STOPPING + AROUND):
                return Outcome(None, f"there is no answer after {limit:g} s")
        finally:
            os.close(reading)
        return message.outcome("has ended")

    def _request(self, request: bytes, writing: int, given: bytes) -> None:
        descriptor = os.memfd_create("given")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(given)
            with self._lock:
                try:
                    self._send(request, (writing, descriptor))
                except (BrokenPipeError, ConnectionError):
                    self.start()
                    self._send(request, (writing, descriptor))
        finally:
            os.close(descriptor)

    def _send(self, request: bytes, descriptors: Sequence[int]) -> None:
        if self._socket is None:
            raise BrokenPipeError
        socket.send_fds(self._socket, [request], list(descriptors))
