"""The directories of commands that may be run as root, without a gap between check and use.

The checks are those Ganeti makes of its restricted commands (diagnose 4): directory and file
belong to root and root's group, no mode bit is outside 0755, the name is a plain word, the
file is regular and executable.  Ganeti looks at paths, one after the other.  Here every
directory from ``/`` on is opened relative to the one before and looked at by descriptor, and
so is the file; that very descriptor is what runs.  What happens to the path in between does
not count.

A user who can write to a directory on the way can replace the file.  So each has
to be root's and closed to the writing of others; the sticky bit of ``/tmp`` does not help, for
what is missing there today can be made by anybody.  Symbolic links are followed as Ganeti
does, but one step at a time and under the same rules: a link may lead outside the whitelist,
yet only to where only root can change or replace the target or anything on the way to
it.  Then it is root who chose what runs, just as with a copy of the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.core.process import Ended, run_program
from ganeti_steward.core.process_group import Ladder

#: Commands that find out what is wrong with a node, and those that repair it (diagnose 3).
DIAGNOSE_DIRECTORY: Final = "/etc/ganeti/node-diagnose-commands"
REPAIR_DIRECTORY: Final = "/etc/ganeti/node-repair-commands"

#: Symbolic links on the way to one file; the kernel follows as many.
_MOST_LINKS: Final = 40

#: The mode bits a command and its directory may have.
_MOST_MODE: Final = 0o755

#: Only to look at: nothing is read, a fifo does not block, a device does not wake up.
_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Forbidden(StewardError):
    """A command that must not be run, and why."""


def run(
    name: str,
    directory: str,
    limit: float,
    *,
    output_limit: int,
    ladder: Ladder,
    given: bytes = b"",
    user: int | None = None,
) -> Ended:
    """Run a command of a whitelist: no arguments, empty environment, in ``/``.

    The other arguments are those of `run_program`.  Raises Forbidden, and OSError when it
    cannot be started.
    """
    with opened(name, directory) as command:
        return run_program(
            [os.path.join(directory, name)],
            limit,
            output_limit=output_limit,
            executable=command,
            given=given,
            environment={},
            user=user,
            ladder=ladder,
        )


@contextmanager
def opened(name: str, directory: str) -> Iterator[int]:
    """A descriptor of a command that may be run, whatever becomes of its name; raises Forbidden."""
    if not is_name(name):
        raise Forbidden(f"{quoted(name)} is no name of a command (letters, digits, _ and - only)")
    with ExitStack() as held:
        place = _directory(held, directory)
        command = _lead(held, place, name)
        _check_file(command)
        yield command


def listing(directory: str) -> list[str]:
    """All that lies in a whitelist, sorted, checked or not; raises Forbidden, OSError."""
    with ExitStack() as held:
        place = _directory(held, directory)
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        held.callback(os.close, readable)
        return sorted(os.listdir(readable))


def _directory(held: ExitStack, path: str) -> int:
    """A descriptor of a whitelist directory that passes all checks; raises Forbidden."""
    place = _lead(held, _open(held, "/"), path)
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        raise Forbidden(f"{_path(place)} is no directory")
    _check_owner_and_mode(place)
    return place


def _lead(held: ExitStack, place: int, path: str) -> int:
    """A descriptor of what a path leads to from a place; raises Forbidden.

    Links are followed, and every directory in which something is looked up is checked.
    """
    todo, links = _steps(path), 0
    while todo:
        step = todo.pop()
        if step == "/":
            place = _open(held, "/")
            continue
        _check_way(place)
        found = _open(held, step, place)
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            place = found
            continue
        links += 1
        if links > _MOST_LINKS:
            raise Forbidden(f"{_path(found)} leads over too many symbolic links")
        todo += _steps(os.readlink("", dir_fd=found))
    return place


def _steps(path: str) -> list[str]:
    """A path's parts, the first one last."""
    start = ["/"] if path.startswith("/") else []
    return [*start, *(part for part in path.split("/") if part not in ("", "."))][::-1]


def _open(held: ExitStack, name: str, place: int | None = None) -> int:
    """A descriptor of one entry of a directory, of a link itself; raises Forbidden."""
    try:
        found = os.open(name, _LOOK, dir_fd=place)
    except OSError as err:
        where = name if place is None else os.path.join(_path(place), name)
        raise Forbidden(f"{where} cannot be opened: {err.strerror}") from None
    held.callback(os.close, found)
    return found


def _path(descriptor: int) -> str:
    """Where the kernel finds an open file, for a sentence."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _check_way(place: int) -> None:
    """Refuse a directory in which others than root can put one thing for another."""
    found = os.fstat(place)
    if not stat.S_ISDIR(found.st_mode):
        raise Forbidden(f"{_path(place)} is no directory")
    if found.st_uid != 0:
        raise Forbidden(f"{_path(place)} belongs to the user {found.st_uid}, not to root")
    if found.st_mode & 0o022:
        raise Forbidden(f"{_path(place)} can be written to by others than root")


def _check_owner_and_mode(place: int) -> None:
    """What Ganeti wants of the whitelist and of each command in it."""
    found = os.fstat(place)
    if (found.st_uid, found.st_gid) != (0, 0):
        owner = f"{found.st_uid}:{found.st_gid}"
        raise Forbidden(f"{_path(place)} belongs to {owner} (user:group), not to 0:0")
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~_MOST_MODE:
        raise Forbidden(f"{_path(place)} has the mode {mode:04o}, which is more than 0755")


def _check_file(command: int) -> None:
    if not stat.S_ISREG(os.fstat(command).st_mode):
        raise Forbidden(f"{_path(command)} is no regular file")
    _check_owner_and_mode(command)
    # Checked by descriptor, not only by mode: the mount may be noexec.
    if not os.access(f"/proc/self/fd/{command}", os.X_OK):
        raise Forbidden(f"{_path(command)} is not executable")
