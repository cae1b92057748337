"""The directories of commands that may be run as root, without a gap between check and use.

The checks are those Ganeti makes of its restricted commands: directory and file
belong to root and root's group, no mode bit is outside 0755, the name is a plain word, the
file is regular and executable.  Ganeti looks at paths, one after the other.  Here everything on
the way is opened and looked at by descriptor, as with every program that is run
(`ganeti_steward.core.process.trusted_program`), and the very descriptor of the file is what runs.
What happens to the path in between does not count.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Final

from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.core.process.following import Ended, Ladder
from ganeti_steward.core.process.program import run_program
from ganeti_steward.core.process.trusted_program import (
    Executable,
    Forbidden,
    check_executable,
    check_interpreter,
    lead,
    open_entry,
    path_of,
)

#: Commands that find out what is wrong with a node, and those that repair it.
DIAGNOSE_DIRECTORY: Final = "/etc/ganeti/node-diagnose-commands"
REPAIR_DIRECTORY: Final = "/etc/ganeti/node-repair-commands"
#: Commands that the master runs around the maintenance of other nodes.
HOOK_DIRECTORY: Final = "/etc/ganeti/steward-hooks"

#: The mode bits a command and its directory may have.
_MOST_MODE: Final = 0o755


def run(
    name: str,
    directory: str,
    limit: float,
    *,
    output_limit: int,
    ladder: Ladder,
    given: bytes = b"",
    user: int | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Ended:
    """Run a command of a whitelist: no arguments, by default an empty environment, in ``/``.

    The other arguments are those of `run_program`.  Raises Forbidden, and OSError when it
    cannot be started.
    """
    with opened(name, directory) as command:
        return run_program(
            [os.path.join(directory, name)],
            limit,
            output_limit=output_limit,
            executable=Executable(command),
            given=given,
            environment=environment,
            user=user,
            ladder=ladder,
        )


@contextmanager
def opened(name: str, directory: str) -> Iterator[int]:
    """A descriptor of a command that may be run, whatever becomes of its name; raises Forbidden."""
    if not is_name(name):
        raise Forbidden(f"{quoted(name)} is not a command name (letters, digits, _ and - only)")
    with ExitStack() as held:
        place = _directory(held, directory)
        command = lead(held, place, name).descriptor
        _check_file(held, command)
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
    place = lead(held, open_entry(held, "/"), path).descriptor
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        raise Forbidden(f"{path_of(place)} is not a directory")
    _check_owner_and_mode(place)
    return place


def _check_owner_and_mode(place: int) -> None:
    """What Ganeti wants of the whitelist and of each command in it."""
    status = os.fstat(place)
    if (status.st_uid, status.st_gid) != (0, 0):
        owner = f"{status.st_uid}:{status.st_gid}"
        raise Forbidden(f"{path_of(place)} belongs to {owner} (user:group), not to 0:0")
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~_MOST_MODE:
        raise Forbidden(f"{path_of(place)} has the mode {mode:04o}, which is more than 0755")


def _check_file(held: ExitStack, command: int) -> None:
    if not stat.S_ISREG(os.fstat(command).st_mode):
        raise Forbidden(f"{path_of(command)} is not a regular file")
    _check_owner_and_mode(command)
    check_executable(command)
    check_interpreter(held, command)
