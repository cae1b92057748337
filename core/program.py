"""Running a foreign program so that it can neither hang nor flood nor outlive its caller.

It gets a session and process group of its own, almost no environment, a limit on its time
and on its output.  When its time is over, the whole group is asked to end, then killed,
then abandoned: not even what cannot be killed holds the caller up.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

#: All a program finds; noded gives its allocators hardly more.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}

#: Bytes of standard output; an answer about 10 000 instances takes a few MB.
OUTPUT_LIMIT: Final = 32 * 2**20

#: Bytes of standard error that are kept; the rest is read and dropped.
_ERRORS_KEPT: Final = 2**16

#: Seconds a program has to end after being asked to, and again after being killed.
_GRACE: Final = 1.0

#: Seconds between two looks whether it has ended, when its pipes do not tell.
_LOOK: Final = 0.05


class Ended(NamedTuple):
    """What came of running a program."""

    status: int
    """exit status; negative is the signal that ended it"""
    output: bytes
    errors: bytes
    """the beginning of its standard error"""
    fault: str = ""
    """why it was stopped; empty when it ended by itself"""


def run_program(command: Sequence[str], limit: float, *, output_limit: int = OUTPUT_LIMIT) -> Ended:
    """Run a program in ``/``, without input, for ``limit`` seconds at most.

    Raises OSError when it cannot be started.  Nothing it started stays behind, unless it
    left the process group or cannot be killed.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=dict(ENVIRONMENT),
        start_new_session=True,
    )
    reading = _Reading(process, output_limit)
    try:
        fault = reading.until(time.monotonic() + limit, f"killed after {limit:g} s")
    finally:
        _end(process)
    return Ended(process.returncode, bytes(reading.output), bytes(reading.errors), fault)


class _Reading:
    """What a running program has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], output_limit: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.output, self.errors = bytearray(), bytearray()
        self._process, self._limit = process, output_limit
        self._stdout = process.stdout.fileno()
        self._open = {self._stdout, process.stderr.fileno()}
        self._poll = select.poll()
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)

    def until(self, deadline: float, overrun: str) -> str:
        """Read until the program has ended; gives back why it has to be stopped."""
        while not _has_ended(self._process):
            left = deadline - time.monotonic()
            if left <= 0:
                return overrun
            if self._open:
                self._read(min(left, _LOOK))
            else:
                time.sleep(min(left, _LOOK / 10))
            if len(self.output) > self._limit:
                return f"killed, it printed more than {self._limit} bytes"
        # A child of its own may hold the pipes open for ever: only what is there counts.
        _signal(self._process, signal.SIGKILL)
        last = time.monotonic() + _GRACE
        while self._open and self._read(0) and time.monotonic() < last:
            if len(self.output) > self._limit:
                return f"printed more than {self._limit} bytes"
        return ""

    def _read(self, seconds: float) -> bool:
        """Take what the pipes hold; whether there was anything."""
        ready = self._poll.poll(seconds * 1000)
        for descriptor, _ in ready:
            chunk = os.read(descriptor, 2**16)
            if not chunk:
                self._poll.unregister(descriptor)
                self._open.remove(descriptor)
            elif descriptor == self._stdout:
                self.output += chunk
            else:
                self.errors += chunk[: _ERRORS_KEPT - len(self.errors)]
        return bool(ready)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; it is not reaped, so its process group is surely still its own."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the whole group be gone: asked, killed, abandoned."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _has_ended(process):
            _signal(process, number)
            last = time.monotonic() + _GRACE
            while not _has_ended(process) and time.monotonic() < last:
                time.sleep(_LOOK / 10)
    if _has_ended(process):
        _signal(process, signal.SIGKILL)
        process.wait()
    else:
        process.returncode = -signal.SIGKILL
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def program_fault(path: str) -> str:
    """Why a program must not be run with this process's rights; empty when it may.

    Whoever can change it, or put another in its place, would gain them.
    """
    if not path.startswith("/") or "\0" in path:
        return "is no absolute path"
    try:
        real = os.path.realpath(path, strict=True)
        mode = os.stat(real).st_mode
    except OSError as err:
        return f"cannot be used: {err.strerror}"
    if not stat.S_ISREG(mode):
        return "is no regular file"
    if not mode & 0o111 or not os.access(real, os.X_OK):
        return "is not executable"
    for place in dict.fromkeys((real, os.path.dirname(real), os.path.dirname(path))):
        fault = _place_fault(place)
        if fault:
            return fault if place == real else f"lies in {place}, which {fault}"
    return ""


def _place_fault(path: str) -> str:
    found = os.stat(path)
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to the user {found.st_uid}, not to root"
    shared_safely = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & 0o022 and not shared_safely:
        return "can be written to by others than its owner"
    return ""
