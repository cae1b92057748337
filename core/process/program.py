"""Running a foreign program so that it can neither hang nor flood nor outlive its caller.

It gets a session and process group of its own, almost no environment, a limit on its time
and on its output.  When its time is over, the whole group is terminated, then killed, then
abandoned: not even a program that cannot be killed keeps the caller waiting.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from signal import SIGKILL
from typing import Any, Final, NamedTuple

from ganeti_steward.core.process import following
from ganeti_steward.core.process.supervisor import (
    AROUND,
    Limits,
    Start,
    WorkFailed,
    forked_supervisor,
    result_of,
    run,
    write_result,
)
from ganeti_steward.core.process.trusted_program import Executable

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

#: The number of an executable's descriptor; out of the way of what scripts open themselves.
_EXECUTABLE: Final = 99


def run_program(
    command: Sequence[str],
    limit: float,
    *,
    output_limit: int = OUTPUT_LIMIT,
    executable: Executable | None = None,
    given: bytes = b"",
    environment: Mapping[str, str] = ENVIRONMENT,
    user: int | None = None,
    ladder: following.Ladder = following.LADDER,
    around: float = 0,
) -> following.Ended:
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
            ended = following.follow(
                process.pid, output.fileno(), errors.fileno(), limit, output_limit, ladder, around
            )
        finally:
            # It is reaped, or abandoned, but nothing Popen could still do anything about.
            process.returncode = -SIGKILL
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


class _Run(NamedTuple):
    """A worker that runs a program; the arguments are those of `run_program`."""

    command: tuple[str, ...]
    limit: float
    """seconds"""
    output_limit: int
    """bytes"""
    executable: Executable | None
    given: str
    """its bytes as Latin-1"""
    environment: Mapping[str, str]
    ladder: following.Ladder

    def __call__(self, output: int) -> None:
        """Run it, and write how it has ended."""
        ended = partial(run_program, **{**self._asdict(), "given": self.given.encode("latin-1")})
        write_result(lambda: following.packed_ended(ended()), output)


def run_supervised(
    command: Sequence[str],
    limit: float,
    *,
    output_limit: int = OUTPUT_LIMIT,
    executable: Executable | None = None,
    given: bytes = b"",
    environment: Mapping[str, str] = ENVIRONMENT,
    ladder: following.Ladder = following.LADDER,
    start: Start = forked_supervisor,
) -> following.Ended:
    """Run a program as `run_program` does, and end everything it has started, however.

    ``start``: `supervisor_program` where this process has other threads.  Raises OSError when it
    cannot be started.
    """
    text = given.decode("latin-1")
    worker: Any = _Run(
        tuple(command), limit, output_limit, executable, text, environment, tuple(ladder)
    )
    # The worker keeps the limits of the program, and needs a while to begin and to end it.
    limits = Limits(limit, ladder=ladder, around=AROUND)
    descriptors = () if executable is None else (executable.descriptor,)
    outcome = run(worker, limits, descriptors, start)
    try:
        return following.unpacked_ended(result_of(outcome))
    except WorkFailed as err:
        return following.Ended(-SIGKILL, b"", b"", str(err))
