"""Calls to a disk that may not answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from programs import wait_until

from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.service.disk_timeout import DiskTimeout

_T = TypeVar("_T")

LONG = 300.0
SHORT = 0.05


class Disk:
    """Called through `DiskTimeout`; answers nothing while it is dead."""

    def __init__(self) -> None:
        self.alive = threading.Event()
        self.alive.set()
        self.calls = 0
        self.call_disk = DiskTimeout(SHORT)

    def __call__(self, question: Callable[[], _T], /) -> _T:
        def answered() -> _T:
            self.calls += 1
            assert self.alive.wait(LONG)
            return question()

        return self.call_disk(answered)


def test_answers() -> None:
    ask = DiskTimeout(LONG)
    assert [ask(lambda number=number: number * 2) for number in range(3)] == [0, 2, 4]
    with pytest.raises(FileNotFoundError):
        ask(lambda: os.stat("/nonexistent"))
    assert ask(lambda: "still there") == "still there"


def test_no_thread_is_left() -> None:
    """Nor after an error; objects like this one are made again and again in a daemon."""
    before = threading.active_count()
    kept = [DiskTimeout(LONG) for _ in range(10)]
    for call_disk in kept:
        assert call_disk(lambda: 1) == 1
        with pytest.raises(FileNotFoundError):
            call_disk(lambda: os.stat("/nonexistent"))
    wait_until(lambda: threading.active_count() == before, "the end of all threads")


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as if the disk did not answer; the next call may succeed."""
    call_disk = DiskTimeout(LONG)

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        with pytest.raises(OSError, match="can't start new thread"):
            call_disk(lambda: 1)
    assert call_disk(lambda: 2) == 2


def test_a_time_out_of_the_disk_itself_is_an_answer() -> None:
    ask = DiskTimeout(LONG)

    def time_out() -> None:
        raise TimeoutError(110, "by the disk")

    with pytest.raises(TimeoutError, match="by the disk"):
        ask(time_out)
    assert ask(lambda: 1) == 1


def test_no_answer() -> None:
    disk = Disk()
    disk.alive.clear()
    threads = threading.active_count()
    for _ in range(20):
        with pytest.raises(OSError, match="no answer"):
            disk(lambda: 1)
    # It was called once, by one thread: nothing piles up.
    assert (disk.calls, threading.active_count()) == (1, threads + 1)
    disk.alive.set()
    while True:
        try:
            assert disk(lambda: 2) == 2
        except TimeoutError:
            continue
        break


def test_the_key_is_known_while_its_disk_is_dead(tmp_path: Path) -> None:
    path, disk = tmp_path / "hmac.key", Disk()
    path.write_bytes(b"key0123456789abcdef\n")
    file = KeyFile(str(path), disk)
    assert file.key() == b"key0123456789abcdef\n"
    disk.alive.clear()
    path.write_bytes(b"another one 0123456\n")
    assert file.key() == b"key0123456789abcdef\n"
    disk.alive.set()
    while file.key() != b"another one 0123456\n":
        continue


def test_a_key_that_was_never_read(tmp_path: Path) -> None:
    disk = Disk()
    disk.alive.clear()
    with pytest.raises(NoKey, match=r"hmac\.key cannot be read: no answer$"):
        KeyFile(str(tmp_path / "hmac.key"), disk).key()
    disk.alive.set()
