"""What a source has of its caller: nothing; and who else writes into its pipe."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolating import FINE, KILLED, SHORT, _ends, _loop, _raise, said, unknown

from ganeti_steward.core.model.finding import CheckResult, Finding


def test_a_child_it_lets_run_on() -> None:
    """A fork in the source must not say everything a second time."""

    def source() -> Iterator[CheckResult]:
        yield FINE
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        yield Finding("smart:sda", "Ok", "", "child" if not pid else "source")

    assert said(source) == [FINE, Finding("smart:sda", "Ok", "", "source")]


def test_who_writes_into_the_pipe() -> None:
    def source() -> list[CheckResult]:
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2:
                try:
                    os.write(descriptor, b"garbage\n[]\n[1,2]\n")
                except OSError:
                    continue
        return [FINE]

    assert said(source) == [
        unknown("disturbed what it said itself"),
        unknown("disturbed what it said itself"),
        unknown("disturbed what it said itself"),
        FINE,
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'["Finding", ["smart", "broken"]]',
        b'["Finding", ["md", "evacuate"]]',
        b'["Finding", [["smart"], "Ok"]]',
        b'["Finding", ["smart", "live-repair", "../fix"]]',
        b'["Unknown", ["smart", 5]]',
        b'["NotApplicable", ["smart", "\\ud800"]]',
    ],
)
def test_what_is_written_into_the_pipe_is_not_trusted(line: bytes) -> None:
    def source() -> list[CheckResult]:
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2:
                with contextlib.suppress(OSError):
                    os.write(descriptor, line + b"\n")
        return [FINE]

    assert said(source) == [unknown("disturbed what it said itself"), FINE]


def test_nothing_of_the_caller_is_held(tmp_path: Path) -> None:
    """No lock, no socket, however long it stays."""
    (tmp_path / "lock").touch()
    with open(tmp_path / "lock") as lock, socket.create_server(("127.0.0.1", 0)) as server:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def source() -> list[CheckResult]:
            names = {os.readlink(f"/proc/self/fd/{one}") for one in _descriptors()}
            return [Finding("smart", "Ok", "", [name for name in sorted(names) if held(name)])]

        def held(name: str) -> bool:
            return name.startswith("socket:") or name == lock.name

        assert said(source) == [Finding("smart", "Ok", "", [])]
        assert server.getsockname()


def _descriptors() -> list[int]:
    """What is open, without what looks at it."""
    return [one for one in map(int, os.listdir("/proc/self/fd")) if _is_open(one)]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_the_caller_keeps_its_own(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with open(tmp_path / "file", "w") as file:
        assert said(lambda: [FINE]) == [FINE]
        file.write("still open")
    assert (tmp_path / "file").read_text() == "still open"
    assert os.listdir("/proc/self/fd") == before


def test_handlers_of_the_caller_are_not_called(tmp_path: Path) -> None:
    """Neither those for signals nor those for the end."""
    mark = tmp_path / "mark"

    def handle(*given: object) -> None:
        mark.write_text(str(os.getpid()))

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM)
    before = {number: signal.signal(number, handle) for number in numbers}
    atexit.register(handle)
    try:
        assert said(_ends(_loop), SHORT) == [FINE, KILLED]
        for number in numbers[1:]:
            found = said(_ends(lambda number=number: os.kill(os.getpid(), number)))
            assert found == [FINE, unknown(f"was ended by {number.name}")]
        assert said(lambda: [FINE]) == [FINE]
    finally:
        atexit.unregister(handle)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert not mark.exists()


def test_signals_the_caller_has_blocked() -> None:
    """They are not blocked in the programs a source starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        found = said(_ends(lambda: os.kill(os.getpid(), signal.SIGINT)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert found == [FINE, unknown("was ended by SIGINT")]


def test_threads_of_the_caller() -> None:
    """What they are doing at that moment is not going on in the child."""
    done = threading.Event()

    def log() -> None:
        while not done.is_set():
            logging.getLogger("ganeti_steward").info("busy")

    thread = threading.Thread(target=log)
    thread.start()
    try:
        for _ in range(20):
            assert said(_raise(ValueError("no"))) == [unknown("failed: ValueError: no")]
    finally:
        done.set()
        thread.join()
