"""Running a foreign program so that it can neither hang nor flood nor outlive its caller.

It gets a session and process group of its own, almost no environment, a limit on its time
and on its output.  When its time is over, the whole group is asked to end, then killed,
then abandoned: not even what cannot be killed holds the caller up.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, NamedTuple

#: All a program finds; noded gives its allocators hardly more.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}

#: Bytes of standard output; an answer about 10 000 instances takes a few MB.
OUTPUT_LIMIT: Final = 32 * 2**20

#: Signals to a program whose time is over, each with the seconds it then has to end.
Ladder = Sequence[tuple[signal.Signals, float]]
LADDER: Final[Ladder] = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))

#: The group of programs that run under a user's id: nogroup, whose number is the same on
#: every Linux.  It owns nothing.
NO_GROUP: Final = 65534

#: Bytes of standard error that are kept; the rest is read and dropped.
_ERRORS_KEPT: Final = 2**16

#: The number of an executable's descriptor; out of the way of what scripts open themselves.
_EXECUTABLE: Final = 99

#: Seconds between two looks whether it has ended, when its pipes do not tell.
_LOOK: Final = 0.05

#: Processes that could not be killed; they are reaped when they are gone at last.
_abandoned: list[int] = []


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
    executable: int | None = None,
    given: bytes = b"",
    environment: Mapping[str, str] = ENVIRONMENT,
    user: int | None = None,
    ladder: Ladder = LADDER,
) -> Ended:
    """Run a program in ``/`` for ``limit`` seconds at most.

    ``executable`` is a descriptor of the file to run, whatever has become of its path since;
    of a script it stays open in the interpreter, which is told ``/proc/self/fd/99``.
    ``given`` is its standard input.  With ``user``, a uid, it has that id, the group nogroup
    and no others.

    Raises OSError when it cannot be started.  Nothing it started stays behind, unless it
    left the process group or cannot be killed.
    """
    with ExitStack() as held:
        by_descriptor = -1 if executable is None else held.enter_context(_kept(executable))
        process = subprocess.Popen(
            command,
            executable=None if executable is None else f"/proc/self/fd/{by_descriptor}",
            pass_fds=() if executable is None else (by_descriptor,),
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
                process.pid, output.fileno(), errors.fileno(), limit, output_limit, ladder
            )
        finally:
            # It is reaped, or abandoned, but nothing Popen could still do anything about.
            process.returncode = -signal.SIGKILL
    process.returncode = ended.status
    return ended


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
    _reap_abandoned()
    reading = _Reading(pid, output, errors, output_limit)
    deadline = time.monotonic() + limit + around
    try:
        fault = reading.until(deadline, f"killed after {limit:g} s", ladder[-1][1])
    finally:
        status = _end(pid, ladder)
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
        while not _has_ended(self._pid):
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
        _signal(self._pid, signal.SIGKILL)
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


def _has_ended(pid: int) -> bool:
    """Whether it has; it is not reaped, so its process group is surely still its own."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _signal(pid: int, number: signal.Signals) -> bool:
    """Signal a process group; whether there is one."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _end(pid: int, ladder: Ladder) -> int:
    """Let the whole group be gone: asked, killed, abandoned; the leader's exit status."""
    for number, grace in ladder:
        if not _has_ended(pid):
            if not _signal(pid, number):
                # It has not come to make its group yet.
                os.kill(pid, number)
            last = time.monotonic() + grace
            while not _has_ended(pid) and time.monotonic() < last:
                time.sleep(_LOOK / 10)
    if not _has_ended(pid):
        _abandoned.append(pid)
        return -signal.SIGKILL
    _signal(pid, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # This process has its children reaped unseen; Popen would say the same.
        return 0


def _reap_abandoned() -> None:
    for pid in _abandoned[:]:
        if _has_ended(pid):
            _abandoned.remove(pid)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


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
