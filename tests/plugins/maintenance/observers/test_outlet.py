"""What only reports the daemon's work never stops it, and its failure is seen."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from errno import ENOSPC

import pytest

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.service import rate_limited_log
from ganeti_steward.plugins.maintenance.edges.outlet import Outlet

LOG = "ganeti_steward.plugins.maintenance.edges.outlet"
#: 2026-01-01 00:00 UTC, ns.
BEGAN = 1767225600 * 10**9


def failing(err: BaseException) -> Callable[[], str]:
    def work() -> str:
        raise err

    return work


def full() -> OSError:
    return OSError(ENOSPC, os.strerror(ENOSPC), "/var/file")


def test_what_works_is_no_problem() -> None:
    outlet = Outlet("the file cannot be written")
    assert outlet(lambda: "done", "not done") == "done"
    assert outlet.problems == ()


def test_a_failure_is_logged_once_and_shown_until_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = iter(range(BEGAN, BEGAN + 100 * 10**9, 10**9))
    outlet = Outlet("the file cannot be written", lambda: next(now))
    with caplog.at_level(logging.INFO, LOG):
        for _ in range(5):
            assert outlet(failing(full()), "not done") == "not done"
        (problem,) = outlet.problems
        assert outlet(lambda: "done", "not done") == "done"
    assert (problem.subject, problem.brake) == ("cluster", "reporting")
    assert problem.sentence == (
        "the file cannot be written: No space left on device (failed 5 times since 2026-01-01 "
        "00:00:00 UTC; the next report tries it again)"
    )
    assert outlet.problems == ()
    assert caplog.messages == [
        "the file cannot be written: No space left on device",
        "this works again after 5 failures: the file cannot be written",
    ]
    assert [bool(one.exc_info) for one in caplog.records] == [False, False]


def test_another_failure_is_logged_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limited_log, "PAUSE", 0.0)
    outlet = Outlet("it fails")
    for err in (full(), full(), BrokenPipeError(32, "Broken pipe"), full()):
        outlet(failing(err), "")
    assert [text.partition(": ")[2] for text in caplog.messages] == [
        "No space left on device",
        "Broken pipe",
        "No space left on device",
    ]


def test_a_log_is_not_filled_by_what_fails_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    outlet = Outlet("it fails")
    with caplog.at_level(logging.INFO, LOG):
        for _ in range(100):
            outlet(failing(full()), "")
            outlet(lambda: "", "")
    assert len(caplog.messages) == 2


def test_a_fault_of_the_program_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    Outlet("it fails")(failing(KeyError("x")), "")
    assert caplog.messages == ["it fails: KeyError: 'x'"]
    assert "test_outlet.py" in caplog.text


def test_a_plugin_has_the_traceback_of_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    err = PluginError("site", "failed")
    err.__cause__ = ValueError("inside")
    Outlet("it fails")(failing(err), "")
    assert caplog.messages == ["it fails: plugin site: failed"]
    assert "ValueError: inside" in caplog.text


def test_a_signal_passes() -> None:
    """What ends the daemon is no failure of what it reports to."""
    with pytest.raises(KeyboardInterrupt):
        Outlet("it fails")(failing(KeyboardInterrupt()), "")
