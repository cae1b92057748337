"""How often a node diagnoses itself, as its agent or cron is configured."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT

from ganeti_steward.core.node_agent.period import Period, diagnosis_period

COMMAND = "root /opt/ganeti-steward/bin/gnt-steward diagnose > /dev/null 2>&1"


@pytest.mark.parametrize(
    ("times", "minutes"),
    [
        ("*/5 * * * *", 5),
        ("* * * * *", 1),
        ("*/7 * * * *", 7),
        ("7 * * * *", 60),
        ("7/20 * * * *", 20),
        ("0,15,20 * * * *", 40),
        ("0 */6 * * *", 360),
        ("30 3 * * *", 24 * 60),
        ("*/10 8-18 * * *", 13 * 60 + 10),
    ],
)
def test_the_longest_time_between_two_runs_of_cron(
    times: str, minutes: int, tmp_path: Path
) -> None:
    table = tmp_path / "gnt-steward-diagnose"
    table.write_text(f"# {times} {COMMAND}\nPATH=/bin\n{times} {COMMAND}\n")
    assert diagnosis_period(0, tmp_path) == Period(minutes * 60, f"cron ({table})")


@pytest.mark.parametrize("times", ["@hourly", "*/5 * * * 1", "x * * * *", "", "5-3 * * * *"])
def test_times_that_are_not_known(times: str, tmp_path: Path) -> None:
    (tmp_path / "diagnose").write_text(f"{times} {COMMAND}\n")
    assert diagnosis_period(0, tmp_path) is None


def test_what_cron_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "diagnose.dpkg-old").write_text(f"*/5 * * * * {COMMAND}\n")
    (tmp_path / "other").write_text("*/5 * * * * root gnt-steward balance\n")
    assert diagnosis_period(0, tmp_path) is None
    assert diagnosis_period(0, tmp_path / "missing") is None


def test_the_agent_comes_first(tmp_path: Path) -> None:
    assert diagnosis_period(300, tmp_path) == Period(300, "agent.interval")


def test_the_table_of_this_project(tmp_path: Path) -> None:
    table = tmp_path / "gnt-steward-diagnose"
    table.write_bytes((ROOT / "contrib/diagnose.cron").read_bytes())
    assert diagnosis_period(0, tmp_path) == Period(300, f"cron ({table})")
