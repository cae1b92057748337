"""A lock that one process at a time can hold, for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.safe_files import UnsafeFile, open_own

_FLAGS: Final = os.O_RDWR | os.O_CREAT
#: Kind, origin, start, length and process; with the padding of a machine of 64 bits.
_FLOCK: Final = "hhqqi0q"


@contextmanager
def lock_file(path: str) -> Iterator[None]:
    """Hold the lock of a file, which then contains the number of this process.

    The kernel releases it when the process ends in whatever way; the file stays.  Raises
    StewardError when another process has it or the file cannot be written.
    """
    try:
        descriptor = open_own(path, _FLAGS)
    except UnsafeFile as err:
        raise StewardError(f"the lock file {err}") from None
    except OSError as err:
        raise StewardError(f"the lock file {path} cannot be opened: {reason_of(err)}") from None
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Only the owner of the first one takes it: what `is_locked` can look at without a lock.
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _record(fcntl.F_WRLCK))
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
        number = f" as process {holder}" if holder else ""
        raise StewardError(f"it is already running{number}: {path} is locked") from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d\n" % os.getpid())


def is_locked(path: str) -> bool | None:
    """Whether a process holds the lock of a file; None where that cannot be found out.

    It takes no lock itself, not for a moment: a process that begins just then gets it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _record(fcntl.F_WRLCK))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    kind: int = struct.unpack_from("h", found)[0]
    return kind != fcntl.F_UNLCK


def _record(kind: int) -> bytes:
    """The system's description of a lock of a whole file (struct flock)."""
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
