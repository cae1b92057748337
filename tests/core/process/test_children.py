"""Forked children: how they begin, how they are ended, and how that is passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import TIME_LIMIT, wait_until

from ganeti_steward.core.process.following import (
    Ended,
    end_group,
    ending,
    ends_within,
    has_ended,
    packed_ended,
    unpacked_ended,
)
from ganeti_steward.core.process.forked import ENDING, fork, reset_signals


def status_of(child: Callable[[], object]) -> int:
    pid = fork(child)
    assert ends_within(pid, TIME_LIMIT)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_that_returns() -> None:
    assert status_of(lambda: None) == 0


def test_an_error_of_a_child_does_not_go_on_in_it(capfd: pytest.CaptureFixture[str]) -> None:
    """Its stack is the parent's: nothing of that may run there, and nothing is printed."""

    def fails() -> None:
        raise ValueError("no moon today")

    assert status_of(fails) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", ENDING)
def test_no_handler_of_the_parent_runs_in_a_child(number: signal.Signals) -> None:
    before = signal.signal(number, lambda *_: os._exit(9))
    try:

        def child() -> None:
            os.kill(os.getpid(), number)
            reset_signals()
            os._exit(8)

        assert status_of(child) == -number
        assert signal.getsignal(number) is not signal.SIG_DFL
    finally:
        signal.signal(number, before)


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize(
    ("source", "ended_by"),
    [(STUBBORN.replace("SIG_IGN", "SIG_DFL"), signal.SIGTERM), (STUBBORN, signal.SIGKILL)],
)
def test_a_group_is_ended(source: str, ended_by: signal.Signals) -> None:
    """Requested first, then forced where that is ignored."""
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        grace = 0.1 if ended_by == signal.SIGKILL else TIME_LIMIT
        ladder = ((signal.SIGTERM, grace), (signal.SIGKILL, TIME_LIMIT))
        assert end_group(child.pid, ladder) == -ended_by
        # It is reaped; what subprocess knows of it is not used.
        child.returncode = -ended_by
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_an_end_is_seen_without_reaping() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as child:
        wait_until(lambda: has_ended(child.pid), "its end")
        assert has_ended(child.pid)
        assert child.wait(TIME_LIMIT) == 7
        assert has_ended(child.pid)


@given(
    status=st.integers(-64, 255),
    output=st.binary(max_size=30),
    errors=st.binary(max_size=30),
    fault=st.text(max_size=10),
)
def test_an_end_is_passed_on(status: int, output: bytes, errors: bytes, fault: str) -> None:
    ended = Ended(status, output, errors, fault)
    assert unpacked_ended(packed_ended(ended)) == ended


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended with exit status 0"),
        (3, "ended with exit status 3"),
        (-9, "was ended by SIGKILL"),
    ],
)
def test_an_end_in_words(status: int, words: str) -> None:
    assert ending(status) == words
