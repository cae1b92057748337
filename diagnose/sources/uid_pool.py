"""Taking a user id of Ganeti's pool, so that a program has no other user's rights.

Ganeti runs each KVM process under an id of its own and marks ids with lock files.  Ids
are taken here in the same way, with the same files, so that no virtual machine ever gets one
that is in use here, nor the other way round.

A file means that its id is probably used; only its lock and the process table are certain.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.process import forked
from ganeti_steward.core.process.program import NO_GROUP
from ganeti_steward.core.safe_files import UnsafeFile, read_regular

if TYPE_CHECKING:
    import random

    import psutil

#: Lowest and highest id, both included.
Range = tuple[int, int]

#: 0 would be root, and the last one of 32 bits means "leave it as it is" where ids are set.
_NEVER: Final = (0, 2**32 - 1)

#: The highest id Ganeti allows.
_HIGHEST: Final = 2**32 - 1

#: Bytes of Ganeti's file.
_LONGEST: Final = 2**20

#: Ids that are tried at most; pools may have billions.
_MOST_TRIED: Final = 2**14

#: Seconds that killed processes of an id have to be gone, and between two looks.
_GRACE: Final = 2.0
_PAUSE: Final = 0.01

#: Of prctl(2).
_SET_NO_NEW_PRIVS: Final = 38


class Pool(NamedTuple):
    """Where a node keeps its pool; the defaults are those of Ganeti's Debian package."""

    definition: str = "/var/lib/ganeti/ssconf_uid_pool"
    locks: str = "/var/run/ganeti/uid-pool"


class UidPoolError(StewardError):
    """A pool that cannot be used."""


class TakenUid(NamedTuple):
    """An id that is locked, by an open file."""

    uid: int
    """user id"""
    path: str
    """of its lock file"""
    lock: int
    """descriptor of the open, locked file"""

    def unlock(self) -> None:
        """Let processes of the id be the only sign that it is used."""
        os.close(self.lock)

    def release(self) -> None:
        """Give the id back to the pool; raises UidPoolError.

        The file goes before its lock does: a process that opened it in between sees it locked.
        """
        try:
            os.unlink(self.path)
        except OSError as err:
            raise UidPoolError(f"{self.path} cannot be removed: {err.strerror}") from None
        finally:
            self.unlock()


def parse_pool(text: str, separator: str = ",") -> list[Range]:
    """The ranges of a definition as ``1000-5000,8000``, sorted; raises UidPoolError.

    Names every fault.  Ganeti's ssconf file has a line for each range.
    """
    ranges: list[Range] = []
    faults: list[str] = []
    for item in filter(None, text.split(separator)):
        try:
            bounds = [int(bound) for bound in item.split("-")]
        except ValueError:
            faults.append(f"{quoted(item)} is neither a user id nor a range of user ids")
            continue
        fault = _fault(bounds)
        if fault:
            faults.append(f"{quoted(item)} {fault}")
        ranges.append((bounds[0], bounds[-1]))
    if faults:
        raise UidPoolError(f"uid pool: {join_faults(faults)}")
    return sorted(ranges)


def _fault(bounds: list[int]) -> str:
    if len(bounds) > 2:
        return "has more than one dash"
    if bounds[0] > bounds[-1]:
        return "ends below its beginning"
    if bounds[-1] > _HIGHEST:
        return f"is above the highest user id, {_HIGHEST}"
    return ""


def read_pool(pool: Pool) -> list[Range]:
    """This node's ranges, from Ganeti's ssconf; raises UidPoolError."""
    try:
        return parse_pool(read_regular(pool.definition, _LONGEST).decode(), "\n")
    except (OSError, UnsafeFile, UnicodeDecodeError) as err:
        raise UidPoolError(f"uid pool: {pool.definition} cannot be read: {err}") from None


def gain_no_rights() -> None:
    """Let nothing that this process starts become another user by a setuid file.

    It could not be found under its id any more, nor ended.  Raises UidPoolError.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise UidPoolError(f"rights cannot be held back: {os.strerror(ctypes.get_errno())}")


def is_used(uid: int) -> bool:
    """Whether there is a process with this id as its real, effective or saved one."""
    return any(True for _ in _processes(uid))


def _processes(uid: int) -> Iterator[psutil.Process]:
    # Imported only here: most commands run without a pool.
    import psutil

    for process in psutil.process_iter(["uids", "status"]):
        # One that must not be looked at may be anybody's.
        if process.info["uids"] is None or uid in process.info["uids"]:
            yield process


def take_uid(
    ranges: Sequence[Range],
    locks: str,
    order: random.Random,
    used: Callable[[int], bool] = is_used,
) -> TakenUid:
    """An unused id, locked; raises UidPoolError.

    Ids without a file come first, each kind in random order.
    """
    if not ranges:
        raise UidPoolError("uid pool: the cluster has none")
    try:
        with suppress(FileExistsError):
            os.mkdir(locks, 0o755)
        marked = set(os.listdir(locks))
        for uid in sorted(_candidates(ranges, order), key=lambda uid: str(uid) in marked):
            taken = _locked(uid, f"{locks}/{uid}")
            if taken and _is_ours(taken, used):
                return taken
    except OSError as err:
        raise UidPoolError(f"uid pool: {locks} cannot be used: {err.strerror}") from None
    raise UidPoolError("uid pool: no user id is free")


def _is_ours(taken: TakenUid, used: Callable[[int], bool]) -> bool:
    """Whether a locked id has no process; else its lock is dropped."""
    busy = True
    try:
        busy = used(taken.uid)
    finally:
        if busy:
            taken.unlock()
    return not busy


def _candidates(ranges: Sequence[Range], order: random.Random) -> list[int]:
    """Ids in random order, without putting a large pool into a list."""
    ends = list(accumulate(high - low + 1 for low, high in ranges))
    uids = []
    for position in order.sample(range(ends[-1]), min(ends[-1], _MOST_TRIED)):
        number = bisect_right(ends, position)
        uids.append(ranges[number][1] + 1 - (ends[number] - position))
    # Ranges may overlap.
    return [uid for uid in dict.fromkeys(uids) if uid not in _NEVER]


def _locked(uid: int, path: str) -> TakenUid | None:
    """An id whose file could be locked; None when another process has it.  Raises OSError."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o664)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last user may have removed the file since: then the lock is worth nothing.
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return TakenUid(uid, path, lock)
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


@contextmanager
def borrowed_uid(
    pool: Pool, order: random.Random, keep: Callable[[int], None] = lambda uid: None
) -> Iterator[int]:
    """An id for the time of a block; raises UidPoolError.

    What the block left running under the id is killed: while it was locked, no other process could
    begin it.  An id that still has processes then is only unlocked, and keeps its mark, so that
    it is not taken again; ``keep`` gets such an id.
    """
    taken = take_uid(read_pool(pool), pool.locks, order)
    try:
        yield taken.uid
    finally:
        if _end_processes(taken.uid):
            taken.release()
        else:
            keep(taken.uid)
            taken.unlock()


def _end_processes(uid: int) -> bool:
    """Kill what runs under an id; whether all of it is gone."""
    last = time.monotonic() + _GRACE
    killed = False
    while time.monotonic() < last:
        # One of them may have killed the one that is to kill them.
        killed = killed or _kill_all(uid)
        if killed and not _is_running(uid):
            return True
        time.sleep(_PAUSE)
    return False


def _is_running(uid: int) -> bool:
    """Whether a process of an id does anything; what is only not yet reaped does not."""
    import psutil

    return any(process.info["status"] != psutil.STATUS_ZOMBIE for process in _processes(uid))


def _kill_all(uid: int) -> bool:
    """Kill every process of an id at once; whether that was done.

    The kernel signals them all before any of them can fork again, which no walk through the
    process table does.  It does so for a process of the same id only, which is made for that.
    """
    return os.waitpid(forked.fork(lambda: _kill_as(uid)), 0)[1] == 0


def _kill_as(uid: int) -> None:
    os.setgroups(())
    os.setresgid(NO_GROUP, NO_GROUP, NO_GROUP)
    os.setresuid(uid, uid, uid)
    # As another user, as root above all, this would end the machine.
    if uid in _NEVER or os.getresuid() != (uid, uid, uid):
        os._exit(1)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
