"""Sources in a process of their own: none hangs, crashes or spoils its caller."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until
from unkillable import frozen_filesystem, needs_freezing, state
from whitelists import safe_directory

from ganeti_steward.core.finding import Finding, NotApplicable, Said, Unknown
from ganeti_steward.core.program import run_program
from ganeti_steward.diagnose import isolated
from ganeti_steward.diagnose.isolated import run

#: Seconds; far more than any source takes that ends by itself.
LIMIT = 300.0

#: Seconds, for those that do not.
SHORT = 0.5

FINE = Finding("smart", "Ok")
KILLED = Unknown("smart", "killed after 0.5 s")


def unknown(reason: str) -> Unknown:
    return Unknown("smart", reason)


def said(source: Callable[[], Any], limit: float = LIMIT) -> list[Said]:
    return run("smart", limit, source)


def test_what_is_said() -> None:
    everything = [
        FINE,
        Finding("smart:sda", "live-repair", "swap", {"b": [1, 2.5, None, True], "a": "\u00e9\n"}),
        Finding("smart:nvme0n1:temperature", "evacuate-failover"),
        Unknown("smart:sdb", "does not answer"),
        NotApplicable("smart", "no disk"),
    ]
    assert said(lambda: everything) == everything
    assert said(lambda: iter(everything)) == everything
    assert said(lambda: ()) == []
    assert said(lambda: None) == []


def test_tuples_become_lists() -> None:
    found = said(lambda: [Finding("smart", "Ok", "", ("a", ("b",)))])
    assert found == [Finding("smart", "Ok", "", ["a", ["b"]])]


def test_the_same_thing_twice() -> None:
    assert said(lambda: [FINE, FINE]) == [FINE]


def test_another_process() -> None:
    """A session of its own, nothing of the caller's standard streams."""

    def source() -> list[Said]:
        print("out")
        os.write(1, b"out")
        given = sys.stdin.read()
        return [Finding("smart", "Ok", "", [os.getpid(), os.getsid(0), os.getpgid(0), given])]

    (found,) = said(source)
    assert isinstance(found, Finding)
    pid, session, group, given = found.details
    assert pid == session == group != os.getpid()
    assert given == ""


def test_nothing_of_it_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    def source() -> list[Said]:
        print("out")
        print("err", file=sys.stderr)
        os.write(1, b"out")
        subprocess.run(["/bin/echo", "out"], check=True)
        return [FINE]

    assert said(source) == [FINE]
    assert capfd.readouterr() == ("", "")


def test_what_it_complains_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def source() -> list[Said]:
        print("one\033", file=sys.stderr)
        os.write(2, b"two\n")
        logging.getLogger("ganeti_steward.plugin").warning("three")
        return [FINE]

    assert said(source) == [FINE]
    assert [record.getMessage() for record in caplog.records] == [
        "smart: one\\x1b",
        "smart: two",
        "smart: three",
    ]


def _raise(err: BaseException) -> Callable[[], Any]:
    def source() -> Any:
        raise err

    return source


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


def _ends(how: Callable[[], object]) -> Callable[[], Iterator[Said]]:
    def source() -> Iterator[Said]:
        yield FINE
        how()
        yield Finding("smart:sda", "evacuate")

    return source


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


def _loop() -> None:
    while True:
        pass


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

    def source() -> list[Said]:
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


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (5, "gave 5, which is nothing a source can say"),
        (None, "gave None, which is nothing a source can say"),
        ("Ok", "gave 'Ok', which is nothing a source can say"),
        (("smart", "Ok"), "gave ('smart', 'Ok'), which is nothing a source can say"),
        (Finding("lvm", "Ok"), "speaks for 'lvm', not for itself"),
        (Finding("smarty", "Ok"), "speaks for 'smarty', not for itself"),
        (Finding("", "Ok"), "speaks for '', not for itself"),
        (Unknown("lvm:smart", "no"), "speaks for 'lvm:smart', not for itself"),
        (NotApplicable("*", "no"), "speaks for '*', not for itself"),
        (Finding(None, "Ok"), "speaks for None, not for itself"),  # type: ignore[arg-type]
        (
            Finding("smart", "ok"),
            "gives 'smart' the status 'ok' (known: Ok, live-repair, evacuate, evacuate-failover)",
        ),
        (
            Finding("smart", 3),  # type: ignore[arg-type]
            "gives 'smart' the status 3 (known: Ok, live-repair, evacuate, evacuate-failover)",
        ),
        (
            Finding("smart", "live-repair", "/bin/sh"),
            "asks for '/bin/sh' for 'smart', which is no name of a command",
        ),
        (
            Finding("smart", "live-repair", None),  # type: ignore[arg-type]
            "asks for None for 'smart', which is no name of a command",
        ),
        (Unknown("smart:a", b"no"), "gives b'no' as a reason about 'smart:a', not a text"),  # type: ignore[arg-type]
        (
            Finding("smart", "Ok", "", {1, 2}),
            "says about 'smart' what is not JSON: TypeError: "
            "Object of type set is not JSON serializable",
        ),
        (
            Finding("smart", "Ok", "", {("a", "b"): 1}),
            "says about 'smart' what is not JSON: TypeError: "
            "keys must be str, int, float, bool or None, not tuple",
        ),
        (
            Finding("smart", "Ok", "", [float("nan")]),
            "says about 'smart' what is not good JSON: NaN is not JSON",
        ),
        (
            Finding("smart", "Ok", "", 2**64),
            "says about 'smart' what is not good JSON: "
            "the number 18446744073709551616 does not fit into 64 bits",
        ),
        (
            Finding("smart", "Ok", "", {1: "a", "1": "b"}),
            "says about 'smart' what is not good JSON: the key '1' is there twice",
        ),
        (
            Finding("smart", "Ok", "", "\ud800"),
            "says about 'smart' what is not good JSON: a text holds half of a surrogate pair",
        ),
    ],
)
def test_what_may_not_be_said(bad: Any, fault: str) -> None:
    """It does not spoil the rest."""
    other = Finding("smart:sda", "evacuate")
    assert said(lambda: [FINE, bad, other]) == [FINE, unknown(fault), other]


def test_details_without_end() -> None:
    ring: list[Any] = []
    ring.append(ring)
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    assert said(lambda: [Finding("smart", "Ok", "", ring)]) == [
        unknown("says about 'smart' what is not JSON: ValueError: Circular reference detected")
    ]
    (found,) = said(lambda: [Finding("smart", "Ok", "", deep)])
    assert isinstance(found, Unknown)
    assert found.reason.startswith("says about 'smart' what is not JSON: RecursionError: ")


def test_no_list() -> None:
    assert said(lambda: 5) == [unknown("failed: TypeError: 'int' object is not iterable")]


def test_huge_output() -> None:
    def source() -> Iterator[Said]:
        yield FINE
        number = 0
        while True:
            number += 1
            yield Finding(f"smart:{number}", "Ok", "", "x" * 1000)

    *known, last = run("smart", LIMIT, source, output_limit=10**5)
    assert last == unknown("killed, it printed more than 100000 bytes")
    assert known[0] == FINE
    assert all(isinstance(one, Finding) for one in known)


def test_a_child_it_lets_run_on() -> None:
    """A fork in the source must not say everything a second time."""

    def source() -> Iterator[Said]:
        yield FINE
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        yield Finding("smart:sda", "Ok", "", "child" if not pid else "source")

    assert said(source) == [FINE, Finding("smart:sda", "Ok", "", "source")]


def test_who_writes_into_the_pipe() -> None:
    def source() -> list[Said]:
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
    def source() -> list[Said]:
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

        def source() -> list[Said]:
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


def test_cannot_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "fork", refuse)
    assert said(lambda: [FINE]) == [unknown("cannot be run: Resource temporarily unavailable")]
    assert os.listdir("/proc/self/fd") == before


def test_time_around_the_limit() -> None:
    """A source that keeps the limit itself has some more for what is around."""

    def source() -> list[Said]:
        time.sleep(SHORT)
        return [FINE]

    assert run("smart", SHORT / 5, source, around=60) == [FINE]
    assert run("smart", SHORT / 5, source) == [unknown("killed after 0.1 s")]


def test_an_ending_in_words() -> None:
    assert isolated.ending(3) == "ended with exit status 3"
    assert isolated.ending(-9) == "was ended by SIGKILL"
