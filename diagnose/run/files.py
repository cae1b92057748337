"""The files of the self-diagnosis: a directory of its own, a lock, writing whole files only."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.safe_files import UnsafeFile, make_directory, open_own

#: Names in the directory.
STATE: Final = "state.json"
REPORT: Final = "report.json"
LOCK: Final = "lock"

_PRIVATE: Final = 0o600

#: How a file is called while it is written: the name it will get, and the writer's process id.
_NEW: Final = re.compile(r"\.(.+)\.([0-9]{1,9})\.new")


class Busy(StewardError):
    """Another run is under way."""


def prepare_directory(path: str) -> None:
    """Make the directory if need be; raises StewardError when it cannot be used.

    What lies there decides about moving instances, so no other user may write there.
    """
    try:
        make_directory(path)
        status = os.stat(path)
    except OSError as err:
        raise StewardError(f"directory {path}: {reason_of(err)}") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise StewardError(
            f"directory {path}: must belong to the user who runs this and be closed to the "
            "writing of others"
        )


@contextmanager
def locked(directory: str) -> Iterator[None]:
    """Be the only run; raises Busy at once when there is another one, else StewardError.

    The lock is one of the process (fcntl), not of the open file (flock): a child that cannot
    be killed must not keep it.
    """
    path = os.path.join(directory, LOCK)
    try:
        descriptor = open_own(path, os.O_RDWR | os.O_CREAT, _PRIVATE)
    except UnsafeFile as err:
        raise StewardError(f"lock {err}") from None
    except OSError as err:
        raise StewardError(f"lock {path}: {reason_of(err)}") from None
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: str) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise Busy(f"another run is under way (it holds {path})") from None
    except OSError as err:
        raise StewardError(f"lock {path}: {reason_of(err)}") from None


def remove_leftovers(directory: str, name: str = "") -> None:
    """Remove what `write_file` was writing when its process was killed.

    ``name``: the one file that is meant, which other processes may be writing now.  Without it all
    of the directory, which this process has to have locked.
    """
    with suppress(OSError):
        for entry in os.listdir(directory):
            match = _NEW.fullmatch(entry)
            if match and (not name or (name == match[1] and not _is_writing(int(match[2])))):
                with suppress(OSError):
                    os.unlink(os.path.join(directory, entry))


def _is_writing(pid: int) -> bool:
    return pid != os.getpid() and os.path.exists(f"/proc/{pid}")


def write_file(path: str, content: bytes, mode: int = _PRIVATE) -> None:
    """Put a file in the place of another, so that no reader sees half of it; raises StewardError.

    It is on the disk before it takes the place: after a power cut there is the old one or the
    new one.
    """
    directory, name = os.path.split(path)
    new = os.path.join(directory, f".{name}.{os.getpid()}.new")
    try:
        _check_place(path)
        remove_leftovers(directory or ".", name)
        _write_new(new, content, mode)
        os.rename(new, path)
        _sync_directory(directory or ".")
    except OSError as err:
        with suppress(OSError):
            os.unlink(new)
        raise StewardError(f"{path} cannot be written: {reason_of(err)}") from None


def _check_place(path: str) -> None:
    """Refuse to put a file in the place of a device, a link or a directory."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise StewardError(f"{path} cannot be written: it is no regular file")


def _write_new(path: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
