"""Open files of directories that other users may write, without being led elsewhere or blocked.

Ganeti's daemons run as users of their own, who may write to ``/var/log/ganeti``.  What lies there
under the name of a file of root's may be a link to another file, or a FIFO without a reader.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from typing import Final

from ganeti_steward.core.errors import StewardError

_READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: The mode of directories above those that are made.
_ABOVE: Final = 0o755

#: Bytes that are read at a time: a file of a device may never end.
_PART: Final = 2**20


class UnsafeFile(StewardError):
    """A file that another user may have put there, and why."""

    def __init__(self, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def open_own(path: str, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a file that belongs to this user and has no other name.

    Links are not followed, and nothing blocks.  Raises UnsafeFile where it is another file, and
    OSError.
    """
    descriptor = _open(path, flags | _FLAGS, mode)
    try:
        status = os.fstat(descriptor)
        # Only root can make a device, so it is what the configuration means.
        if stat.S_ISREG(status.st_mode):
            _check_owner(path, status)
        elif not stat.S_ISCHR(status.st_mode):
            raise UnsafeFile(path, "it is not a regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: str, flags: int, mode: int) -> int:
    try:
        return os.open(path, flags, mode)
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise UnsafeFile(path, "it is a symbolic link, which is not followed") from None
        if err.errno == errno.ENXIO:
            raise UnsafeFile(path, "it is not a regular file") from None
        raise


def _check_owner(path: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise UnsafeFile(path, f"it belongs to the user {status.st_uid}, not to {os.geteuid()}")
    if status.st_nlink > 1:
        raise UnsafeFile(path, f"the file has {status.st_nlink} names (hard links)")


def make_directory(path: str, mode: int = 0o700) -> None:
    """Make a directory with this mode, and those above it with 0755, whatever the umask is.

    One that is there stays as it is.  Raises OSError.
    """
    above = os.path.dirname(path.rstrip("/"))
    if above and not os.path.isdir(above):
        make_directory(above, _ABOVE)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        os.chmod(path, mode)


def read_own(path: str, longest: int) -> bytes:
    """The content of such a file, of at most ``longest`` bytes; raises UnsafeFile, OSError."""
    return read_limited(open_own(path, os.O_RDONLY), path, longest)


def check_trusted(path: str, status: os.stat_result) -> None:
    """Check that no user but root can have written what root uses; raises UnsafeFile.

    A program that does not run as root uses what its user names.
    """
    if os.geteuid() != 0:
        return
    if status.st_uid != 0:
        raise UnsafeFile(path, f"it belongs to the user {status.st_uid}, not to root")
    others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0)
    if status.st_mode & others and stat.S_ISREG(status.st_mode):
        mode = stat.S_IMODE(status.st_mode)
        raise UnsafeFile(path, f"others than root can write to it (mode {mode:04o})")


def read_trusted(path: str, longest: int) -> bytes:
    """The content of such a file, links followed; raises UnsafeFile, OSError.

    ``longest``: bytes it may have.
    """
    descriptor = os.open(path, _READING)
    try:
        status = os.fstat(descriptor)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISCHR(status.st_mode)):
            raise UnsafeFile(path, "it is not a regular file")
        check_trusted(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    return read_limited(descriptor, path, longest)


def read_regular(path: str, longest: int) -> bytes:
    """The content of a regular file of whomever, links followed; raises UnsafeFile, OSError.

    ``longest``: bytes it may have.
    """
    descriptor = os.open(path, _READING)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsafeFile(path, "it is not a regular file")
    return read_limited(descriptor, path, longest)


def read_in_time(path: str, longest: int, seconds: float) -> bytes:
    """The content of any file, links followed, within ``seconds``; raises UnsafeFile, OSError.

    What is written into a FIFO is waited for, but not for ever.  ``longest``: bytes it may have.
    """
    descriptor = os.open(path, _READING)
    until = time.monotonic() + seconds

    def wait() -> None:
        if not select.select([descriptor], [], [], max(until - time.monotonic(), 0))[0]:
            raise UnsafeFile(path, f"nothing more came within {seconds:g} s")

    is_fifo = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    return read_limited(descriptor, path, longest, wait if is_fifo else None)


def read_limited(
    descriptor: int, path: str, longest: int, wait: Callable[[], None] | None = None
) -> bytes:
    """All that a descriptor gives, which is closed then; raises UnsafeFile when it is too long.

    ``wait``: called before each reading.
    """
    content = bytearray()
    with open(descriptor, "rb", buffering=0) as file:
        if os.fstat(descriptor).st_size > longest:
            raise UnsafeFile(path, f"it is longer than {longest} bytes")
        while True:
            if wait is not None:
                wait()
            part = file.read(_PART)
            if not part:
                return bytes(content)
            content += part
            if len(content) > longest:
                raise UnsafeFile(path, f"it is longer than {longest} bytes")
