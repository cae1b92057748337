"""What a source has of its caller: nothing; and who else writes into its pipe."""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import signal
import socket
import threading
from functools import partial
from pathlib import Path

import isolated_sources as sources
import pytest
from isolating import FINE, KILLED, SHORT, results, results_until, unknown

from ganeti_steward.core.model.finding import Finding, Unknown


def test_a_child_it_lets_run_on() -> None:
    """A fork in the source must not say everything a second time."""

    assert results(sources.forks) == [FINE, Finding("smart:sda", "Ok", "", "source")]


def test_who_writes_into_the_pipe() -> None:
    assert results(sources.writes, b"garbage\n[]\n[{},2]\n") == [
        unknown("wrote into the pipe of its own results"),
        unknown("wrote into the pipe of its own results"),
        unknown("wrote into the pipe of its own results"),
        FINE,
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"[" * 100_000, "wrote into the pipe of its own results"),
        (b'["Finding", "smart"]', "wrote into the pipe of its own results"),
        (b'["Finding", ["smart", "broken"]]', "gives 'smart' the status 'broken' (known: "),
        (b'["Finding", ["md", "evacuate"]]', "reports for 'md', not for itself"),
        (b'["Finding", [["smart"], "Ok"]]', "reports for ['smart'], not for itself"),
        (b'["Finding", ["smart", "live-repair", "../fix"]]', "requests '../fix' for 'smart', "),
        (b'["Unknown", ["smart", 5]]', "gives 5 as a reason about 'smart', not a text"),
        (b'["NotApplicable", ["smart", "\\ud800"]]', "reports about 'smart' what is not good JSON"),
        (b'["OwnName", ["smart", "md"]]', "wrote into the pipe of its own results"),
    ],
)
def test_what_is_written_into_the_pipe_is_not_trusted(line: bytes, fault: str) -> None:
    found, fine = results(sources.writes, line + b"\n")
    assert isinstance(found, Unknown)
    assert (found.source, fine) == ("smart", FINE)
    assert found.reason.startswith(fault)


def test_nothing_of_the_caller_is_held(tmp_path: Path) -> None:
    """No lock, no socket, however long it stays."""
    (tmp_path / "lock").touch()
    with open(tmp_path / "lock") as lock, socket.create_server(("127.0.0.1", 0)) as server:
        fcntl.flock(lock, fcntl.LOCK_EX)

        (found,) = results(sources.open_files)
        assert isinstance(found, Finding)
        # What is listed at all: the pipe of the results is among it.
        assert any(name.startswith("pipe:") for name in found.details)
        held = [name for name in found.details if name.startswith("socket:") or name == lock.name]
        assert held == []
        assert server.getsockname()


def test_the_caller_keeps_its_own(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with open(tmp_path / "file", "w") as file:
        assert results(sources.returns, [FINE]) == [FINE]
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
        assert results_until(sources.loop, SHORT) == [FINE, KILLED]
        for number in numbers[1:]:
            found = results_until(partial(sources.kill_itself, number))
            assert found == [FINE, unknown(f"was ended by {number.name}")]
        assert results(sources.returns, [FINE]) == [FINE]
    finally:
        atexit.unregister(handle)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert not mark.exists()


def test_signals_the_caller_has_blocked() -> None:
    """They are not blocked in the programs a source starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        found = results_until(partial(sources.kill_itself, signal.SIGINT))
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
        for _ in range(5):
            assert results(sources.raises, ValueError("no")) == [unknown("failed: ValueError: no")]
    finally:
        done.set()
        thread.join()
