"""Warnings that come once a minute at most."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.diagnose.agent.reports import Reports

if TYPE_CHECKING:
    import pytest


LOG = "ganeti_steward.diagnose.agent.reports"


def test_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    seldom = RateLimitedLog(logging.getLogger("callers"), lambda: now[0])
    for _ in range(481):
        seldom.warning(f"at {now[0]:g}")
        now[0] += 0.25
    assert caplog.messages == ["at 1000", "at 1060", "at 1120"]


def test_a_report_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a dying disk, where every request finds out again."""
    monkeypatch.setattr(logging.getLogger("ganeti_steward"), "propagate", True)
    (tmp_path / "file").touch()
    reports = Reports(f"{tmp_path}/file/report.json", 900, lambda: 0, lambda _: True)
    # The machine that runs this may itself stand still for a minute.
    monkeypatch.setattr(reports, "_unreadable", RateLimitedLog(logging.getLogger(LOG), lambda: 0.0))
    for _ in range(20):
        assert "no report was made yet" in reports.text()
    # Records, each however many handlers take it.
    assert len({id(record) for record in caplog.records}) == 1
