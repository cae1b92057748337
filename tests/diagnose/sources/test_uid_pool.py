"""Ids of Ganeti's pool, taken beside Ganeti's own code."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from programs import is_running
from uid_pools import FIRST, order, process_with
from whitelists import needs_root

from ganeti_steward.diagnose.sources import uid_pool
from ganeti_steward.diagnose.sources.uid_pool import (
    Pool,
    UidPoolError,
    borrowed_uid,
    is_used,
    take_uid,
)


def no_processes(uid: int) -> bool:
    return False


def test_taking(locks: str) -> None:
    """Each once; the files stay when only the locks are dropped, and mean nothing."""
    ranges = [(FIRST, FIRST + 2), (FIRST + 1, FIRST + 1)]
    taken = [take_uid(ranges, locks, order(), no_processes) for _ in range(3)]
    assert sorted(one.uid for one in taken) == [FIRST, FIRST + 1, FIRST + 2]
    assert sorted(os.listdir(locks)) == [str(FIRST + number) for number in range(3)]
    with pytest.raises(UidPoolError, match=r"^uid pool: no user id is free$"):
        take_uid(ranges, locks, order(), no_processes)
    taken[0].unlock()
    again = take_uid(ranges, locks, order(), no_processes)
    assert again.uid == taken[0].uid
    for one in (again, *taken[1:]):
        one.release()
    assert os.listdir(locks) == []


def test_those_without_a_file_come_first(locks: str) -> None:
    """Each kind in the given order."""
    os.mkdir(locks)
    for number in range(5):
        Path(locks, str(FIRST + number)).touch()
    Path(locks, "no number").touch()
    for seed in range(5):
        found = []
        taken = []
        for _ in range(8):
            taken.append(take_uid([(FIRST, FIRST + 7)], locks, order(seed), no_processes))
            found.append(taken[-1].uid - FIRST)
        assert set(found[:3]) == {5, 6, 7}
        for one in taken:
            one.unlock()
        for number in (5, 6, 7):
            Path(locks, str(FIRST + number)).unlink()


def test_the_order_is_the_given_one(locks: str) -> None:
    found = set()
    for seed in range(30):
        one = take_uid([(FIRST, FIRST + 7)], locks, order(seed), no_processes)
        found.add(one.uid)
        one.release()
        again = take_uid([(FIRST, FIRST + 7)], locks, order(seed), no_processes)
        assert again.uid == one.uid
        again.release()
    assert len(found) > 4


def test_a_pool_of_billions(locks: str) -> None:
    one = take_uid([(0, 2**32 - 1), (5, 2**32 - 1)], locks, order(), no_processes)
    assert 0 < one.uid < 2**32 - 1
    one.release()


@pytest.mark.parametrize("uid", [0, 2**32 - 1])
def test_ids_that_would_leave_a_program_root(locks: str, uid: int) -> None:
    with pytest.raises(UidPoolError, match="no user id is free"):
        take_uid([(uid, uid)], locks, order(), no_processes)


def test_an_empty_pool(locks: str) -> None:
    with pytest.raises(UidPoolError, match=r"^uid pool: the cluster has none$"):
        take_uid([], locks, order(), no_processes)


def test_locks_that_cannot_be_made(tmp_path: Path) -> None:
    for place in (tmp_path / "nosuch" / "uid-pool", tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(UidPoolError, match="cannot be used"):
            take_uid([(FIRST, FIRST)], str(place), order(), no_processes)


def test_a_file_that_vanishes_before_its_lock(locks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who had the id gave it back in between: a lock on that file has no effect."""
    original = fcntl.flock

    def first_removed(descriptor: int, operation: int) -> None:
        if os.path.exists(f"{locks}/{FIRST}"):
            os.unlink(f"{locks}/{FIRST}")
        original(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", first_removed)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UidPoolError, match="no user id is free"):
        take_uid([(FIRST, FIRST)], locks, order(), no_processes)
    assert os.listdir("/proc/self/fd") == before


def test_giving_back_what_is_gone(locks: str) -> None:
    one = take_uid([(FIRST, FIRST)], locks, order(), no_processes)
    os.unlink(one.path)
    with pytest.raises(UidPoolError, match="cannot be removed: No such file or directory"):
        one.release()
    # All the same it is not locked any more.
    take_uid([(FIRST, FIRST)], locks, order(), no_processes).release()


def _takes(locks: str, tries: int, results: Any) -> None:
    shuffled = random.Random(os.getpid())
    for _ in range(tries):
        try:
            one = take_uid([(FIRST, FIRST + 3)], locks, shuffled, no_processes)
        except UidPoolError:
            continue
        mark = f"{locks}.used.{one.uid}"
        try:
            # Fails if another process has the same id at this moment.
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            os.unlink(mark)
        except FileExistsError:
            results.put("twice")
        if shuffled.random() < 0.5:
            one.release()
        else:
            one.unlock()
    results.put("done")


def test_many_at_once(locks: str) -> None:
    """No two ever have the same id, whether files stay or go."""
    context = get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_takes, args=(locks, 300, results)) for _ in range(4)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert found == ["done"] * 4


@needs_root
@pytest.mark.parametrize("ids", [(FIRST, 0, 0), (0, FIRST, 0), (0, 0, FIRST), (FIRST,) * 3])
def test_ids_of_processes(locks: str, ids: tuple[int, int, int]) -> None:
    assert not is_used(FIRST)
    with process_with(*ids):
        assert is_used(FIRST)
        with pytest.raises(UidPoolError, match="no user id is free"):
            take_uid([(FIRST, FIRST)], locks, order())
    # It is not locked, but looks used.
    assert os.listdir(locks) == [str(FIRST)]
    take_uid([(FIRST, FIRST)], locks, order()).release()


class Hidden:
    """A process whose owner cannot be found."""

    info: Final = {"uids": None, "status": "sleeping"}

    def uids(self) -> tuple[int, ...]:
        raise psutil.AccessDenied(1)

    def kill(self) -> None:
        raise AssertionError("it may be anybody's")


def test_processes_that_cannot_be_looked_at(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have the id; none is ended for that."""
    monkeypatch.setattr(psutil, "process_iter", lambda names: iter(()))
    with borrowed_uid(pool, order()):
        monkeypatch.setattr(psutil, "process_iter", lambda names: iter([Hidden()]))
    assert os.listdir(pool.locks) == [str(FIRST)]
    with pytest.raises(UidPoolError, match="no user id is free"), borrowed_uid(pool, order()):
        pass


@needs_root
def test_borrowing(pool: Pool) -> None:
    """Given back at the end, whatever comes; what was left running is ended."""
    with borrowed_uid(pool, order()) as uid:
        assert uid == FIRST
        with pytest.raises(UidPoolError, match="no user id is free"), borrowed_uid(pool, order()):
            pass
    assert os.listdir(pool.locks) == []
    with pytest.raises(ZeroDivisionError), borrowed_uid(pool, order()):
        raise ZeroDivisionError
    assert os.listdir(pool.locks) == []
    with process_with(0, 0, FIRST + 1) as another:
        with borrowed_uid(pool, order()) as uid:
            left = subprocess.Popen(["/bin/sleep", "3600"], user=uid, start_new_session=True)
        assert left.wait() == -9
        assert is_running(another)
    assert os.listdir(pool.locks) == []


def test_a_check_of_processes_that_fails(locks: str) -> None:
    """The id is not held for ever then."""

    def fail(uid: int) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_uid([(FIRST, FIRST)], locks, order(), fail)
    take_uid([(FIRST, FIRST)], locks, order(), no_processes).release()


@needs_root
def test_what_cannot_be_ended_keeps_its_id(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock goes, the mark stays, and Ganeti sees the process."""
    monkeypatch.setattr(uid_pool, "_end_processes", lambda uid: False)
    with borrowed_uid(pool, order()):
        pass
    assert os.listdir(pool.locks) == [str(FIRST)]
    take_uid([(FIRST, FIRST)], pool.locks, order()).release()
