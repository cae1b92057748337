"""What the workers of these tests run; imported there, so by functions only."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ganeti_steward.core.model.finding import CheckResult, Finding
from ganeti_steward.core.process.program import run_program

FINE = Finding("smart", "Ok")


def returns(value: Any) -> Any:
    return value


def raises(err: BaseException) -> NoReturn:
    raise err


def ends(how: Callable[[], object]) -> Iterator[CheckResult]:
    """One result, what is to happen, and one more."""
    yield FINE
    how()
    yield Finding("smart:sda", "evacuate")


def process_ids() -> list[CheckResult]:
    print("out")
    os.write(1, b"out")
    given = sys.stdin.read()
    return [Finding("smart", "Ok", "", [os.getpid(), os.getsid(0), os.getpgid(0), given])]


def prints() -> list[CheckResult]:
    print("out")
    print("err", file=sys.stderr)
    os.write(1, b"out")
    subprocess.run(["/bin/echo", "out"], check=True)
    return [FINE]


def complains() -> list[CheckResult]:
    print("one\033", file=sys.stderr)
    os.write(2, b"two\n")
    logging.getLogger("ganeti_steward.plugin").warning("three")
    return [FINE]


def deep_details() -> list[CheckResult]:
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    return [Finding("smart", "Ok", "", deep)]


def endless_results() -> Iterator[CheckResult]:
    yield FINE
    number = 0
    while True:
        number += 1
        yield Finding(f"smart:{number}", "Ok", "", "x" * 1000)


def forks() -> Iterator[CheckResult]:
    yield FINE
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    yield Finding("smart:sda", "Ok", "", "child" if not pid else "source")


def writes(data: bytes) -> list[CheckResult]:
    """Into every descriptor except the standard ones."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2:
            with contextlib.suppress(OSError):
                os.write(descriptor, data)
    return [FINE]


def open_files() -> list[CheckResult]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        # One of them was only open for the listing.
        with contextlib.suppress(OSError):
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [Finding("smart", "Ok", "", names)]


def recurses() -> Any:
    return recurses()


def crash() -> None:
    """What a fault in a C library is."""
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(1)


def kill_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def loop() -> None:
    while True:
        pass


def swallow() -> None:
    """It takes every exception for one of its own."""
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            continue


def ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(3600)


def block() -> None:
    """In C code that heeds no signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


def loop_in_c() -> None:
    sum(iter(int, 1))


def wait() -> None:
    threading.Event().wait()


def leaves_a_thread() -> list[CheckResult]:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return [FINE]


def writes_a_file(noted: str, path: str) -> None:
    with open(noted, "w") as file:
        file.write(str(os.getpid()))
    with open(path, "w"):
        pass


def runs(path: str, limit: float) -> None:
    run_program([path], limit, ladder=[(signal.SIGKILL, 0.1)])


def sleeps(seconds: float) -> list[CheckResult]:
    time.sleep(seconds)
    return [FINE]
