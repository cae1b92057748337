"""Sources that fail, crash, hang, or cannot be killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import isolated_sources as sources
import pytest
from isolating import FINE, KILLED, LIMIT, SHORT, results, results_until, unknown
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until
from unkillable import frozen_filesystem, needs_freezing, state
from whitelists import safe_directory

from ganeti_steward.core.model.finding import Unknown
from ganeti_steward.diagnose.run.gathering import adopting_orphans
from ganeti_steward.diagnose.sources import isolated
from ganeti_steward.diagnose.sources.isolated import Source, run


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
    assert results(sources.raises, err) == [unknown(reason)]
    # Where it was raised is in the log, and only there.
    assert any("Traceback" in record.getMessage() for record in caplog.records)


def test_endless_recursion() -> None:
    (found,) = results(sources.recurses)
    assert isinstance(found, Unknown)
    assert found.reason.startswith("failed: RecursionError: maximum recursion depth exceeded")


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (partial(sources.raises, ValueError("no")), "failed: ValueError: no"),
        (partial(os._exit, 0), "ended with exit status 0 before it was done"),
        (partial(os._exit, 7), "ended with exit status 7 before it was done"),
        (sources.crash, "was ended by SIGSEGV"),
        (partial(sources.kill_itself, signal.SIGKILL), "was ended by SIGKILL"),
        (os.abort, "was ended by SIGABRT"),
        (partial(sources.kill_itself, 40), "was ended by the signal 40"),
        (partial(sources.kill_itself, signal.SIGINT), "was ended by SIGINT"),
    ],
    ids=["raises", "exit 0", "exit 7", "crash", "kill", "abort", "realtime", "interrupt"],
)
def test_results_before_an_end_count(how: Callable[[], object], reason: str) -> None:
    assert results_until(how) == [FINE, unknown(reason)]


@pytest.mark.parametrize(
    "how",
    [
        sources.loop,
        sources.swallow,
        sources.ignore,
        sources.block,
        partial(time.sleep, 3600),
        partial(sources.kill_itself, signal.SIGSTOP),
        sources.loop_in_c,
        sources.wait,
    ],
    ids=["loop", "swallows", "deaf", "blocked", "sleeps", "stops", "c loop", "waits"],
)
def test_hangs(how: Callable[[], object]) -> None:
    assert results_until(how, SHORT) == [FINE, KILLED]


def test_a_thread_that_stays() -> None:
    """It is not waited for, as a normal end of Python would."""

    assert results(sources.leaves_a_thread) == [FINE]


@needs_freezing
def test_cannot_be_killed(tmp_path: Path) -> None:
    """A real process in uninterruptible sleep is abandoned."""

    with safe_directory() as around, adopting_orphans():
        with frozen_filesystem(around):
            noted, path = str(tmp_path / "pid"), str(around / "frozen" / "x")
            found = results(sources.writes_a_file, noted, path, limit=SHORT)
            pid = int((tmp_path / "pid").read_text())
            assert state(pid) == "D"
        wait_until(lambda: not is_running(pid), "its end")
    assert found == [KILLED]
    # Who adopts orphans, as a run does, has reaped it.
    assert results(sources.returns, [FINE]) == [FINE]
    assert not Path(f"/proc/{pid}").exists()


def test_its_programs_are_ended_too(tmp_path: Path) -> None:
    path = program(tmp_path, "hangs", HANGING)
    with ended_at_last(path):
        found = results(sources.runs, path, LIMIT, limit=SHORT)
        assert found == [KILLED]
        pids = [int(line) for line in notes(path).split()]
        wait_until(lambda: not any(map(is_running, pids)), "the end of the program")


def test_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "fork", refuse)
    assert results(sources.returns, [FINE]) == [
        unknown("cannot be run: Resource temporarily unavailable")
    ]
    assert os.listdir("/proc/self/fd") == before


def test_time_around_the_limit() -> None:
    """A source that keeps the limit itself has some more for what is around."""

    source = partial(sources.sleeps, SHORT)
    assert run(Source("smart", source, SHORT / 5, around=60)) == [FINE]
    assert run(Source("smart", source, SHORT / 5)) == [unknown("killed after 0.2 s")]


def test_an_ending_in_words() -> None:
    assert isolated.ending(3) == "ended with exit status 3"
    assert isolated.ending(-9) == "was ended by SIGKILL"
