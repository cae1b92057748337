"""Sources that fail, crash, hang, or cannot be killed."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from isolating import FINE, KILLED, LIMIT, SHORT, _ends, _loop, _raise, said, unknown
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until
from unkillable import frozen_filesystem, needs_freezing, state
from whitelists import safe_directory

from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.process import run_program
from ganeti_steward.diagnose.sources import isolated
from ganeti_steward.diagnose.sources.isolated import run


@pytest.mark.parametrize(
    ("err", "reason"),
    [
        (ValueError("a\nb"), "failed: ValueError: a b"),
        (OSError(5, "I/O error", "/dev/sda"), "failed: OSError: [Errno 5] I/O error: '/dev/sda'"),
        (AssertionError(), "failed: AssertionError: no message"),
        (SystemExit(0), "failed: SystemExit: 0"),
        (KeyboardInterrupt(), "failed: KeyboardInterrupt: no message"),
        (GeneratorExit(), "failed: GeneratorExit: no message"),
        (MemoryError(), "failed: MemoryError: no message"),
        (ValueError("\udc80"), "failed: ValueError: \\udc80"),
        (ValueError("x" * 10**6), "failed: ValueError: " + "x" * 480),
    ],
)
def test_exceptions(err: BaseException, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    assert said(_raise(err)) == [unknown(reason)]
    # Where it was raised is in the log, and only there.
    assert any("Traceback" in record.getMessage() for record in caplog.records)


def test_endless_recursion() -> None:
    def source() -> Any:
        return source()

    (found,) = said(source)
    assert isinstance(found, Unknown)
    assert found.reason.startswith("failed: RecursionError: maximum recursion depth exceeded")


def _crash() -> None:
    """What a fault in a C library is."""
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(1)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (_raise(ValueError("no")), "failed: ValueError: no"),
        (lambda: os._exit(0), "ended with exit status 0 before it was done"),
        (lambda: os._exit(7), "ended with exit status 7 before it was done"),
        (_crash, "was ended by SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by SIGKILL"),
        (os.abort, "was ended by SIGABRT"),
        (lambda: os.kill(os.getpid(), 40), "was ended by the signal 40"),
        (lambda: os.kill(os.getpid(), signal.SIGINT), "was ended by SIGINT"),
    ],
    ids=["raises", "exit 0", "exit 7", "crash", "kill", "abort", "realtime", "interrupt"],
)
def test_what_was_said_before_stays_said(how: Callable[[], object], reason: str) -> None:
    assert said(_ends(how)) == [FINE, unknown(reason)]


def _swallow() -> None:
    """It takes every exception for one of its own."""
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            continue


def _deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(3600)


def _blocked() -> None:
    """In C code that heeds no signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


@pytest.mark.parametrize(
    "how",
    [
        _loop,
        _swallow,
        _deaf,
        _blocked,
        lambda: time.sleep(3600),
        lambda: os.kill(os.getpid(), signal.SIGSTOP),
        lambda: sum(iter(int, 1)),
        lambda: threading.Event().wait(),
    ],
    ids=["loop", "swallows", "deaf", "blocked", "sleeps", "stops", "c loop", "waits"],
)
def test_hangs(how: Callable[[], object]) -> None:
    assert said(_ends(how), SHORT) == [FINE, KILLED]


def test_a_thread_that_stays() -> None:
    """It is not waited for, as a normal end of Python would."""

    def source() -> list[CheckResult]:
        threading.Thread(target=time.sleep, args=(3600,)).start()
        return [FINE]

    assert said(source) == [FINE]


@needs_freezing
def test_cannot_be_killed(tmp_path: Path) -> None:
    """A real process in uninterruptible sleep is abandoned."""

    def source() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        (around / "frozen" / "x").write_text("")

    with safe_directory() as around:
        with frozen_filesystem(around):
            found = said(source, SHORT)
            pid = int((tmp_path / "pid").read_text())
            assert state(pid) == "D"
        wait_until(lambda: not is_running(pid), "its end")
    assert found == [KILLED]
    # The next one reaps it.
    assert said(lambda: [FINE]) == [FINE]
    assert not Path(f"/proc/{pid}").exists()


def test_its_programs_are_ended_too(tmp_path: Path) -> None:
    path = program(tmp_path, "hangs", HANGING)
    with ended_at_last(path):
        found = said(lambda: run_program([path], LIMIT, ladder=[(signal.SIGKILL, 0.1)]), SHORT)
        assert found == [KILLED]
        pids = [int(line) for line in notes(path).split()]
        wait_until(lambda: not any(map(is_running, pids)), "the end of the program")


def test_cannot_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "fork", refuse)
    assert said(lambda: [FINE]) == [unknown("cannot be run: Resource temporarily unavailable")]
    assert os.listdir("/proc/self/fd") == before


def test_time_around_the_limit() -> None:
    """A source that keeps the limit itself has some more for what is around."""

    def source() -> list[CheckResult]:
        time.sleep(SHORT)
        return [FINE]

    assert run("smart", SHORT / 5, source, around=60) == [FINE]
    assert run("smart", SHORT / 5, source) == [unknown("killed after 0.1 s")]


def test_an_ending_in_words() -> None:
    assert isolated.ending(3) == "ended with exit status 3"
    assert isolated.ending(-9) == "was ended by SIGKILL"
