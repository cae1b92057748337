"""Ids of Ganeti's pool, taken beside Ganeti's own code."""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import ganeti_uids
import psutil
import pytest
from programs import is_running
from whitelists import needs_root

from ganeti_steward.diagnose import uid_pool
from ganeti_steward.diagnose.uid_pool import (
    Pool,
    UidPoolError,
    borrowed_uid,
    is_used,
    parse_pool,
    read_pool,
    take_uid,
)

GANETI: Final = "/usr/share/ganeti/3.0/ganeti/uidpool.py"
with_ganeti = pytest.mark.skipif(not os.path.exists(GANETI), reason="needs the package ganeti")

#: Ids that are nobody's, other ones in each run.
FIRST: Final = 1_800_000_000 + os.getpid() * 8


def no_processes(uid: int) -> bool:
    return False


def order(seed: int = 0) -> random.Random:
    return random.Random(seed)


@pytest.fixture
def locks(tmp_path: Path) -> str:
    return str(tmp_path / "uid-pool")


def ganeti(locks: str, *given: str) -> Any:
    """What Ganeti's code answers."""
    command = ["/usr/bin/python3", ganeti_uids.__file__, locks, *given]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def taken_by_ganeti(locks: str, *uids: int) -> Iterator[Any]:
    """The id Ganeti's code takes and holds, or why it takes none."""
    command = ["/usr/bin/python3", ganeti_uids.__file__, locks, "take", *map(str, uids)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


DEFINITIONS = [
    ("", []),
    ("1000", [(1000, 1000)]),
    ("1000-5000,8000,9000-9010", [(1000, 5000), (8000, 8000), (9000, 9010)]),
    ("9000, 1000-1001", [(1000, 1001), (9000, 9000)]),
    (",5,,6,", [(5, 5), (6, 6)]),
    ("7 - 9", [(7, 9)]),
    ("0-4294967295", [(0, 4294967295)]),
    ("5-6,5-6,5", [(5, 5), (5, 6), (5, 6)]),
]

BAD_DEFINITIONS = [
    ("a", "'a' is no user id and no range of them"),
    ("1-2-3", "'1-2-3' has more than one dash"),
    ("-5", "'-5' is no user id and no range of them"),
    ("5-", "'5-' is no user id and no range of them"),
    ("1, ", "' ' is no user id and no range of them"),
    ("1.5", "'1.5' is no user id and no range of them"),
    ("9-8", "'9-8' ends below its beginning"),
    ("4294967296", "'4294967296' is above the highest user id, 4294967295"),
    (
        "b,3-2,7",
        "'b' is no user id and no range of them; '3-2' ends below its beginning",
    ),
]


@pytest.mark.parametrize(("text", "ranges"), DEFINITIONS)
def test_definitions(text: str, ranges: list[tuple[int, int]]) -> None:
    assert parse_pool(text) == ranges
    assert parse_pool(text.replace(",", "\n"), "\n") == ranges


@pytest.mark.parametrize(("text", "fault"), BAD_DEFINITIONS)
def test_bad_definitions(text: str, fault: str) -> None:
    with pytest.raises(UidPoolError) as caught:
        parse_pool(text)
    assert str(caught.value) == f"uid pool: {fault}"


@with_ganeti
@pytest.mark.parametrize(("text", "ranges"), DEFINITIONS)
def test_definitions_as_ganeti_reads_them(
    locks: str, text: str, ranges: list[tuple[int, int]]
) -> None:
    ((found, written),) = ganeti(locks, "parse", text, ",")
    assert [tuple(pair) for pair in found] == ranges
    # What Ganeti shows of a pool is a definition again.
    assert parse_pool(written) == ranges


@with_ganeti
@pytest.mark.parametrize(("text", "fault"), BAD_DEFINITIONS)
def test_definitions_ganeti_refuses_too(locks: str, text: str, fault: str) -> None:
    (found,) = ganeti(locks, "parse", text, ",")
    assert isinstance(found, str)


def test_ssconf(tmp_path: Path) -> None:
    pool = Pool(str(tmp_path / "ssconf_uid_pool"), "")
    with pytest.raises(UidPoolError, match="ssconf_uid_pool cannot be read"):
        read_pool(pool)
    for text, ranges in [("", []), ("\n", []), ("100-200\n300\n", [(100, 200), (300, 300)])]:
        Path(pool.definition).write_text(text)
        assert read_pool(pool) == ranges
    Path(pool.definition).write_bytes(b"\xff")
    with pytest.raises(UidPoolError, match="cannot be read"):
        read_pool(pool)


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
    """Who had the id gave it back in between: a lock on that file keeps nobody away."""
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
            # Fails where somebody else has the same id at this moment.
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


@contextmanager
def process_with(real: int, effective: int, saved: int) -> Iterator[int]:
    """A sleeping process with these ids; its pid."""
    source = (
        f"import os, time; os.setresuid({real}, {effective}, {saved}); "
        "print('ready', flush=True); time.sleep(3600)"
    )
    command = ["/usr/bin/python3", "-IS", "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


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
    """A process whose owner cannot be told."""

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


@pytest.fixture
def pool(tmp_path: Path, locks: str) -> Pool:
    definition = tmp_path / "ssconf_uid_pool"
    definition.write_text(f"{FIRST}\n")
    return Pool(str(definition), locks)


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


@needs_root
@with_ganeti
def test_ganeti_sees_our_lock(locks: str) -> None:
    one = take_uid([(FIRST, FIRST)], locks, order())
    with taken_by_ganeti(locks, FIRST) as found:
        assert found == "Failed to find an unused user-id"
    with taken_by_ganeti(locks, FIRST, FIRST + 1) as found:
        assert found == FIRST + 1
    one.unlock()
    with taken_by_ganeti(locks, FIRST) as found:
        assert found == FIRST


@needs_root
@with_ganeti
def test_we_see_the_lock_of_ganeti(locks: str) -> None:
    with taken_by_ganeti(locks, FIRST) as found:
        assert found == FIRST
        with pytest.raises(UidPoolError, match="no user id is free"):
            take_uid([(FIRST, FIRST)], locks, order())
        other = take_uid([(FIRST, FIRST + 1)], locks, order())
        assert other.uid == FIRST + 1
        other.release()
    take_uid([(FIRST, FIRST)], locks, order()).release()


@needs_root
@with_ganeti
def test_a_process_of_ours_is_seen_by_ganeti(locks: str) -> None:
    """Also when nothing is locked any more."""
    with process_with(FIRST, FIRST, FIRST), taken_by_ganeti(locks, FIRST) as found:
        assert found == "Failed to find an unused user-id"


@needs_root
@with_ganeti
def test_giving_back_what_the_other_took(locks: str) -> None:
    with taken_by_ganeti(locks, FIRST):
        pass
    assert os.listdir(locks) == [str(FIRST)]
    take_uid([(FIRST, FIRST)], locks, order()).unlock()
    assert ganeti(locks, "release", str(FIRST)) == [None]
    assert os.listdir(locks) == []
    (text,) = ganeti(locks, "release", str(FIRST))
    assert "Failed to remove user-id lockfile" in text


@with_ganeti
def test_the_places_are_those_of_the_package() -> None:
    source = (
        "import sys; sys.path.insert(0, '/usr/share/ganeti/3.0'); "
        "from ganeti import pathutils, ssconf, constants; "
        "print(pathutils.UIDPOOL_LOCKDIR); "
        "print(ssconf.SimpleStore().KeyToFilename(constants.SS_UID_POOL))"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", source], capture_output=True, text=True, check=True
    )
    locks, definition = done.stdout.split()
    assert Pool() == Pool(definition, locks)
