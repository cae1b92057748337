"""Running a foreign program so that it can neither hang nor flood nor outlive its caller.

It gets a session and process group of its own, almost no environment, a limit on its time
and on its output.  When its time is over, the whole group is terminated, then killed, then
abandoned: not even a program that cannot be killed keeps the caller waiting.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from ganeti_steward.core.process_group import (
    LADDER,
    Ladder,
    end_group,
    has_ended,
    reap_abandoned,
    signal_group,
)
from ganeti_steward.core.trusted_program import Executable

#: All a program finds; noded gives its allocators hardly more.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}

#: Bytes of standard output; an answer about 10 000 instances takes a few MB.
OUTPUT_LIMIT: Final = 32 * 2**20

#: The group of programs that run under a user's id: nogroup, whose number is the same on
#: every Linux.  It owns nothing.
NO_GROUP: Final = 65534

#: Bytes of standard error that are kept; the rest is read and dropped.
_ERRORS_KEPT: Final = 2**16

#: The number of an executable's descriptor; out of the way of what scripts open themselves.
_EXECUTABLE: Final = 99

#: Seconds between two checks whether it has ended, when its pipes stay open.
_CHECK: Final = 0.05


class Ended(NamedTuple):
    """What came of running a program."""

    status: int
    """exit status; negative is the signal that ended it"""
    output: bytes
    errors: bytes
    """the beginning of its standard error"""
    fault: str = ""
    """why it was stopped; empty when it ended by itself"""


def run_program(
    command: Sequence[str],
    limit: float,
    *,
    output_limit: int = OUTPUT_LIMIT,
    executable: Executable | None = None,
    given: bytes = b"",
    environment: Mapping[str, str] = ENVIRONMENT,
    user: int | None = None,
    ladder: Ladder = LADDER,
    around: float = 0,
) -> Ended:
    """Run a program in ``/`` for ``limit`` seconds at most.

    ``executable`` is the file to run by descriptor, whatever has become of its path since; of a
    script the descriptor stays open in the interpreter, which gets ``/proc/self/fd/99`` as its
    name, or ``/proc/self/fd/99/NAME`` where the descriptor is the directory's.
    ``given`` is its standard input.  With ``user``, a uid, it has that id, the group nogroup
    and no others.  ``around``: extra seconds for set-up, not charged to the program.

    Raises OSError when it cannot be started.  Nothing it started stays behind, unless it
    left the process group or cannot be killed.
    """
    with ExitStack() as held:
        kept = held.enter_context(_kept(executable.descriptor)) if executable else -1
        process = subprocess.Popen(
            command,
            executable=_path(kept, executable.entry) if executable else None,
            pass_fds=(kept,) if executable else (),
            stdin=held.enter_context(_input(given)) if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=dict(environment),
            start_new_session=True,
            user=user,
            group=None if user is None else NO_GROUP,
            extra_groups=None if user is None else (),
        )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as output, process.stderr as errors:
        try:
            ended = follow(
                process.pid, output.fileno(), errors.fileno(), limit, output_limit, ladder, around
            )
        finally:
            # It is reaped, or abandoned, but nothing Popen could still do anything about.
            process.returncode = -signal.SIGKILL
    process.returncode = ended.status
    return ended


def _path(descriptor: int, entry: str) -> str:
    """What is executed: the file itself, or an entry of the directory."""
    place = f"/proc/self/fd/{descriptor}"
    return f"{place}/{entry}" if entry else place


@contextmanager
def _kept(descriptor: int) -> Iterator[int]:
    """The same file under another number: none of a standard stream, and always the same.

    A script sees it in its own name, which may be part of what it prints.
    """
    kept = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _EXECUTABLE)
    try:
        yield kept
    finally:
        os.close(kept)


@contextmanager
def _input(given: bytes) -> Iterator[int]:
    """A file of no name that holds the input: unlike a pipe, it never fills up."""
    descriptor = os.memfd_create("input")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(given)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def follow(
    pid: int,
    output: int,
    errors: int,
    limit: float,
    output_limit: int,
    ladder: Ladder,
    around: float = 0,
) -> Ended:
    """Follow a child, the leader of a session, until it has ended or been abandoned.

    ``output`` and ``errors`` are the descriptors of what it prints; they stay open.  It has
    ``limit`` seconds, and those of ``around`` for what belongs not to its work.  The
    ladder's come on top.
    """
    reap_abandoned()
    reading = _Reading(pid, output, errors, output_limit)
    deadline = time.monotonic() + limit + around
    try:
        fault = reading.until(deadline, f"killed after {limit:g} s", ladder[-1][1])
    finally:
        status = end_group(pid, ladder)
    return Ended(status, bytes(reading.output), bytes(reading.errors), fault)


class _Reading:
    """What a running program has printed so far."""

    def __init__(self, pid: int, output: int, errors: int, output_limit: int) -> None:
        self.output, self.errors = bytearray(), bytearray()
        self._pid, self._limit, self._stdout = pid, output_limit, output
        self._open = {output, errors}
        self._poll = select.poll()
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)

    def until(self, deadline: float, overrun: str, grace: float) -> str:
        """Read until the program has ended; gives back why it has to be stopped."""
        while not has_ended(self._pid):
            left = deadline - time.monotonic()
            if left <= 0:
                return overrun
            if self._open:
                self._read(min(left, _CHECK))
            else:
                time.sleep(min(left, _CHECK / 10))
            if len(self.output) > self._limit:
                return f"killed, it printed more than {self._limit} bytes"
        # A child of its own may hold the pipes open for ever: only what is there counts.
        signal_group(self._pid, signal.SIGKILL)
        last = time.monotonic() + grace
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
