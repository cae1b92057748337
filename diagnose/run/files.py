"""The files of the self-diagnosis: a directory of its own, and a lock."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.safe_files import UnsafeFile, make_directory, open_own

#: Names in the directory.
STATE: Final = "state.json"
REPORT: Final = "report.json"
LOCK: Final = "lock"

_PRIVATE: Final = 0o600


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
