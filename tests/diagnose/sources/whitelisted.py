"""Commands of a whitelist, run and spoilt."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from programs import program

from ganeti_steward.core.process.following import LADDER, Ended
from ganeti_steward.diagnose.sources.whitelist import run

#: Seconds; far more than any command here takes.
LIMIT = 300.0


#: An unused user and group id.
OTHER_USER = 12345


def run_script(commands: Path, name: str = "raid", given: bytes = b"") -> Ended:
    """What the command does when it is run."""
    return run(name, str(commands), LIMIT, output_limit=2**20, ladder=LADDER, given=given)


def says(directory: Path, name: str, word: str, mode: int = 0o755) -> Path:
    file = Path(program(directory, name, f"echo {word}"))
    file.chmod(mode)
    return file


def _missing(path: Path) -> None:
    path.unlink()


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o755)


def _socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    path.chmod(0o755)


def _device(path: Path) -> None:
    path.unlink()
    os.mknod(path, 0o20755, os.makedev(1, 3))


def _owner(path: Path) -> None:
    os.chown(path, OTHER_USER, 0)


def _group(path: Path) -> None:
    os.chown(path, 0, OTHER_USER)


def _mode(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


BAD_FILES = [
    (_missing, "{} cannot be opened: No such file or directory"),
    (_directory, "{} is not a regular file"),
    (_fifo, "{} is not a regular file"),
    (_socket, "{} is not a regular file"),
    (_device, "{} is not a regular file"),
    (_owner, "{} belongs to 12345:0 (user:group), not to 0:0"),
    (_group, "{} belongs to 0:12345 (user:group), not to 0:0"),
    *[
        (_mode(mode), f"{{}} has the mode {mode:04o}, which is more than 0755")
        for mode in (0o4755, 0o2755, 0o1755, 0o775, 0o757, 0o722, 0o777)
    ],
    *[(_mode(mode), "{} is not executable") for mode in (0o644, 0o600, 0o444, 0o000)],
]


BAD_PARENTS = [
    (_owner, "{} belongs to the user 12345, not to root"),
    *[
        (_mode(mode), "{} can be written to by others than root")
        for mode in (0o775, 0o757, 0o777, 0o1777)
    ],
]
