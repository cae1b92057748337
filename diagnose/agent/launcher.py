"""Having the node diagnosed and repaired by a process without threads, which may fork.

That process (`ganeti_steward.diagnose.agent.launching`) holds everything it needs in memory, so
that a node whose system disk is dead is still diagnosed.  When it has ended, another is started.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.ganeti.this_node import DATA
from ganeti_steward.core.hooks.timed_call import sentence
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.node_agent.protocol import HOOK, CommandEnd, RepairRequest
from ganeti_steward.core.process.following import LADDER, Ended, unpacked_ended
from ganeti_steward.core.process.frames import packed
from ganeti_steward.core.process.own_program import own_program
from ganeti_steward.core.process.supervisor import (
    AROUND,
    STOPPING,
    Message,
    WorkFailed,
    result_of,
)

#: The program, behind which its arguments stand, see `launching.main`.
_PROGRAM: Final = "from ganeti_steward.diagnose.agent.launching import main; main()"

#: What the process sends when it has loaded everything.
READY: Final = b"ready"

#: Seconds it has until then.
_LOADING: Final = 120.0

#: Bytes a repair command may print before it is stopped.
OUTPUT_LIMIT: Final = 2**20

#: Characters of it that are returned, the last ones.
OUTPUT_RETURNED: Final = 2**16

_log = logging.getLogger(__name__)


class Repair(NamedTuple):
    """A command to run: one of the whitelist, or a program with arguments."""

    command: str
    directory: str
    seconds: float
    environment: Mapping[str, str] = MappingProxyType({})
    program: tuple[str, ...] = ()
    """its absolute path and its arguments; empty: a command of the whitelist"""


class Request(NamedTuple):
    """What the process is to do; what the command reads follows."""

    limit: float
    """seconds"""
    repair: Repair | None = None
    """None: diagnose the node"""


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
                own_program(
                    _PROGRAM, str(theirs.fileno()), str(int(self._lock_memory)), *self._node
                ),
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

    def call(self, request: Request, given: bytes = b"") -> bytes:
        """The result of a request after its limit at most: a report, or how a command has ended.

        ``given``: what the command reads.  Raises OSError when it cannot be requested, WorkFailed,
        and Forbidden for a command that must not be run.
        """
        reading, writing = os.pipe()
        try:
            try:
                self._request(packed(request, given), writing)
            finally:
                os.close(writing)
            message = Message(reading)
            if not message.read_until(time.monotonic() + request.limit + STOPPING + AROUND):
                raise WorkFailed(f"there is no answer after {request.limit:g} s")
        finally:
            os.close(reading)
        return result_of(message.outcome("has ended"))

    def _request(self, request: bytes, writing: int) -> None:
        with open(os.memfd_create("request"), "w+b") as file, self._lock:
            file.write(request)
            file.seek(0)
            descriptors = (writing, file.fileno())
            try:
                self._send(descriptors)
            except (BrokenPipeError, ConnectionError):
                self.start()
                self._send(descriptors)

    def _send(self, descriptors: tuple[int, ...]) -> None:
        if self._socket is None:
            raise BrokenPipeError
        socket.send_fds(self._socket, [READY], list(descriptors))


class Diagnosing(threading.Thread):
    """Diagnoses, again ``interval`` seconds after it was begun, until it is stopped."""

    def __init__(
        self, diagnose: Callable[[], bytes], take: Callable[[bytes], None], interval: float
    ) -> None:
        """``diagnose``: gives the report, or nothing while another run is under way.

        It raises WorkFailed, and OSError when it cannot be begun.  ``take`` gets the report.
        """
        super().__init__(name="diagnosing", daemon=True)
        self._diagnose, self._take, self._interval = diagnose, take, interval
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Start no more."""
        self._stopped.set()

    def run(self) -> None:
        """What the thread does."""
        wait = 0.0
        while not self._stopped.wait(wait):
            begun = time.monotonic()
            try:
                fault = self._once()
            except Exception as err:
                # Such as MemoryError: this thread would not be restarted.
                fault = sentence(err)
            if fault and not self._stopped.is_set():
                _log.warning("the self-diagnosis failed: %s", fault)
            wait = max(begun + self._interval - time.monotonic(), 0.0)

    def _once(self) -> str:
        """Diagnose; what went wrong."""
        try:
            report = self._diagnose()
        except WorkFailed as err:
            return str(err)
        except OSError as err:
            return f"it cannot be started: {reason_of(err)}"
        try:
            if report:
                self._take(report)
        except StewardError as err:
            return f"what it printed cannot be used: {err}"
        return ""


def executor(
    launcher: Launcher,
    directories: Mapping[str, str],
    limit: float,
    is_ending: Callable[[], bool],
    program: tuple[str, ...] = (),
) -> Callable[[RepairRequest], CommandEnd]:
    """What runs the commands of a few directories for ``limit`` seconds each.

    ``directories``: by the status of the diagnose object.  ``is_ending``: whether the agent ends,
    and with it what it has started.  ``program``: see `Repair`; it is run instead of them, and
    gets no standard input.  What it gives raises `Forbidden` for commands that must not be run.
    """
    around = sum(grace for _, grace in LADDER) + 1

    def execute(request: RepairRequest) -> CommandEnd:
        if program:
            repair, given = Repair(request.command, "", limit, program=program), b""
        else:
            found, given = load_json(request.diagnose), request.diagnose
            directory = directories[found["status"]]
            repair = Repair(request.command, directory, limit, _environment(found))
        try:
            raw = launcher.call(Request(limit + around, repair), given)
        except WorkFailed as err:
            ended = "it was stopped because the agent ended" if is_ending() else str(err)
            return CommandEnd(None, fault=ended)
        except OSError as err:
            return CommandEnd(None, fault=f"it could not be started: {reason_of(err)}")
        return _outcome(unpacked_ended(raw))

    return execute


def _environment(given: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a hook: its node and step, and the uuid of the maintenance."""
    if given["status"] != HOOK:
        return {}
    texts = {key: given.get(key) for key in ("node", "step", "maintenance")}
    return {
        f"STEWARD_{key.upper()}": text
        for key, text in texts.items()
        if isinstance(text, str) and "\0" not in text
    }


def _outcome(ended: Ended) -> CommandEnd:
    """What it printed, then what it complained about, as Ganeti returns it."""
    text = (ended.output + ended.errors).decode(errors="replace")
    status = None if ended.fault else ended.status
    return CommandEnd(status, text[-OUTPUT_RETURNED:], ended.fault)
