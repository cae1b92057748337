"""Programs that may be run with this process's rights, without a gap between check and use.

A user who can change a program, or put another one in its place, would gain these rights.  So
every directory from ``/`` on is opened relative to the one before and looked at by descriptor:
it has to belong to root and be closed to the writing of others.  Symbolic links are followed one
step at a time and under the same rules: a link may lead anywhere where only root can change the
target or anything on the way to it.  Then it is root who chose what runs.

The sticky bit of ``/tmp`` does not help root, for what is missing there today can be made by
anybody.  A program that does not run as root uses what its user names: files of that user, and
below sticky directories.

The interpreter of a script (``#!``) is checked in the same way.  What a program or an interpreter
loads or runs itself (libraries, modules, the ``python3`` that ``/usr/bin/env`` looks for in PATH)
is not looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted

#: Symbolic links on the way to one file; the kernel follows as many.
_MOST_LINKS: Final = 40

#: Interpreters of interpreters; the kernel follows fewer.
_MOST_INTERPRETERS: Final = 5

#: Bytes at the beginning of a script in which the kernel looks for the interpreter.
_HEAD: Final = 256

#: Only to look at: nothing is read, a fifo does not block, a device does not wake up.
_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Forbidden(StewardError):
    """A program that must not be run, and why."""


class Found(NamedTuple):
    """Where a path leads, by descriptors (O_PATH)."""

    descriptor: int
    directory: int
    """that holds it, after all links"""
    name: str
    """its name there"""


class Executable(NamedTuple):
    """What `core.process.run_program` runs."""

    descriptor: int
    """of the file, or of the directory that holds it"""
    entry: str = ""
    """its name in that directory"""


@contextmanager
def opened_program(path: str) -> Iterator[Executable]:
    """A program that may be run, whatever becomes of its path; raises Forbidden.

    A script is run by its name in the directory that was checked, which no other user can
    write: there it finds what lies beside it.
    """
    with ExitStack() as held:
        program = _checked(held, path)
        if _interpreter(program.descriptor):
            yield Executable(program.directory, program.name)
        else:
            yield Executable(program.descriptor)


def program_fault(path: str) -> str:
    """Why a program must not be run with this process's rights; empty when it may."""
    try:
        with opened_program(path):
            return ""
    except Forbidden as err:
        return str(err)


def _checked(held: ExitStack, path: str, depth: int = 0) -> Found:
    if not path.startswith("/") or "\0" in path:
        raise Forbidden(f"{quoted(path)} is not an absolute path")
    program = lead(held, open_entry(held, "/"), path)
    place = program.descriptor
    if not stat.S_ISREG(os.fstat(place).st_mode):
        raise Forbidden(f"{path_of(place)} is not a regular file")
    _check_rights(place)
    check_executable(place)
    check_interpreter(held, place, depth)
    return program


def check_executable(program: int) -> None:
    """Refuse a file that cannot be run; raises Forbidden."""
    # Checked by descriptor, not only by mode: the mount may be noexec.
    if not os.access(f"/proc/self/fd/{program}", os.X_OK):
        raise Forbidden(f"{path_of(program)} is not executable")


def check_interpreter(held: ExitStack, program: int, depth: int = 0) -> None:
    """Refuse a script whose interpreter others than root can replace; raises Forbidden."""
    interpreter = _interpreter(program)
    if not interpreter:
        return
    if depth >= _MOST_INTERPRETERS:
        raise Forbidden(f"{path_of(program)} has too many interpreters of interpreters")
    try:
        _checked(held, interpreter, depth + 1)
    except Forbidden as err:
        raise Forbidden(f"the interpreter of {path_of(program)}: {err}") from None


def _interpreter(program: int) -> str:
    """The path behind ``#!``; empty where the file is no script."""
    try:
        readable = os.open(f"/proc/self/fd/{program}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Then no interpreter could read it either.
        return ""
    with open(readable, "rb", buffering=0) as file:
        head = file.read(_HEAD)
    words = head.removeprefix(b"#!").partition(b"\n")[0].split(None, 1)
    return os.fsdecode(words[0]) if head.startswith(b"#!") and words else ""


def lead(held: ExitStack, place: int, path: str) -> Found:
    """The file that a path names, seen from a directory; raises Forbidden.

    Links are followed, and every directory in which something is looked up is checked.  The
    descriptors are closed with ``held``.
    """
    todo, links = _steps(path), 0
    found = Found(place, place, ".")
    while todo:
        step = todo.pop()
        if step == "/":
            root = open_entry(held, "/")
            found = Found(root, root, ".")
            continue
        directory = found.descriptor
        # In one that others can write, they could put one thing for another.
        if not stat.S_ISDIR(os.fstat(directory).st_mode):
            raise Forbidden(f"{path_of(directory)} is not a directory")
        _check_rights(directory)
        entry = open_entry(held, step, directory)
        if not stat.S_ISLNK(os.fstat(entry).st_mode):
            found = Found(entry, directory, step)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise Forbidden(f"{path_of(entry)} leads over too many symbolic links")
        todo += _steps(os.readlink("", dir_fd=entry))
    return found


def _steps(path: str) -> list[str]:
    """A path's parts, the first one last."""
    start = ["/"] if path.startswith("/") else []
    return [*start, *(part for part in path.split("/") if part not in ("", "."))][::-1]


def open_entry(held: ExitStack, name: str, place: int | None = None) -> int:
    """A descriptor of one entry of a directory, of a link itself; raises Forbidden."""
    try:
        descriptor = os.open(name, _LOOK, dir_fd=place)
    except OSError as err:
        where = name if place is None else os.path.join(path_of(place), name)
        raise Forbidden(f"{where} cannot be opened: {err.strerror}") from None
    held.callback(os.close, descriptor)
    return descriptor


def path_of(descriptor: int) -> str:
    """Where the kernel finds an open file, for a sentence."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _check_rights(place: int) -> None:
    status, user = os.fstat(place), os.geteuid()
    if status.st_uid not in (0, user):
        raise Forbidden(f"{path_of(place)} belongs to the user {status.st_uid}, not to root")
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & 0o022 and not (user and sticky):
        raise Forbidden(f"{path_of(place)} can be written to by others than root")
