"""A lock that one process at a time can hold, for as long as it lives."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.safe_files import UnsafeFile, open_own

_FLAGS: Final = os.O_RDWR | os.O_CREAT


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
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
        number = f" as process {holder}" if holder else ""
        raise StewardError(f"it is already running{number}: {path} is locked") from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d\n" % os.getpid())


def is_locked(path: str) -> bool | None:
    """Whether a process holds the lock of a file; None where that cannot be found out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # Shared, and released at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False
