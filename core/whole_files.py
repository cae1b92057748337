"""Replace a file as a whole: the one writer of the files that this program reads back."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Final

from ganeti_steward.core.errors import StewardError, reason_of

_PRIVATE: Final = 0o600

#: How a file is called while it is written: the name it will get, and the writer's process id.
_NEW: Final = re.compile(r"\.(.+)\.([0-9]{1,9})\.new")


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
            raise StewardError(f"{path} cannot be written: it is not a regular file")


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
