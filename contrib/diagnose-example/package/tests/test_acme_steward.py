"""The plugin on what acmecli showed on real controllers, good and broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganeti_steward.diagnose.api import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine, results_of

RECORDED = Path(__file__).parent / "recorded"
SHOW = "acmecli show --parsable"


def results(case: str, **settings: Any) -> list[Any]:
    """Results for a recorded case; settings with underscores instead of dashes."""
    given = {key.replace("_", "-"): value for key, value in settings.items()}
    return results_of("acme_raid", RecordedMachine(RECORDED / case), given)


def faults(found: list[Any]) -> list[Finding]:
    return [one for one in found if one.status != "Ok"]


def test_healthy() -> None:
    found = results("healthy")
    assert len(found) == 7
    assert faults(found) == []


def test_a_failed_drive() -> None:
    assert faults(results("drive-failed")) == [
        Finding(
            "acme_raid:drive1",
            "live-repair",
            "replace-drive",
            {"name": "Z1D0K3AB", "state": "failed"},
        )
    ]


def test_a_failed_volume() -> None:
    settings = {"volume_status": "evacuate-failover", "repair": "order-drive"}
    assert faults(results("volume-failed", **settings)) == [
        Finding(
            "acme_raid:volume1",
            "evacuate-failover",
            "",
            {"name": "instances", "state": "failed"},
        ),
        Finding(
            "acme_raid:drive1",
            "live-repair",
            "order-drive",
            {"name": "Z1D0K3AB", "state": "failed"},
        ),
        Finding(
            "acme_raid:drive2", "live-repair", "order-drive", {"name": "-", "state": "missing"}
        ),
    ]


def test_what_changes_by_itself_changes_nothing() -> None:
    """Other temperatures and hours, other order: the same findings."""
    lines = (RECORDED / "drive-failed" / "show.txt").read_text().splitlines()
    later = [line.replace(" 31 ", " 44 ").replace("8851", "8852") for line in reversed(lines)]
    machine = RecordedMachine(RECORDED, commands={SHOW: {"output": "\n".join(later)}})
    assert lines != later
    assert sorted(results_of("acme_raid", machine)) == sorted(results("drive-failed"))


def test_no_answer() -> None:
    assert results("no-answer") == [Unknown("acme_raid", "acmecli: exit status 3")]


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("", "acme_raid"),
        ("drive 1 Z1D0K3AB", "acme_raid"),
        ("drive 1 Z1D0K3AB sulking", "acme_raid:drive1"),
        ("drive one Z1D0K3AB online", "acme_raid"),
        ("fan 1 - failed", "acme_raid"),
    ],
)
def test_what_is_not_understood_is_unknown(output: str, source: str) -> None:
    (one,) = results_of("acme_raid", RecordedMachine(RECORDED, commands={SHOW: {"output": output}}))
    assert isinstance(one, Unknown)
    assert one.source == source
    assert "shows" in one.reason or "state" in one.reason


def test_other_hardware() -> None:
    machine = RecordedMachine(RECORDED)
    assert results_of("acme_raid", machine) == [NotApplicable("acme_raid", "there is no acmecli")]


@pytest.mark.parametrize("settings", [{"drive_status": "bad"}, {"colour": "red"}])
def test_settings_that_are_wrong(settings: dict[str, str]) -> None:
    (one,) = results("healthy", **settings)
    assert isinstance(one, Unknown)
    assert next(iter(settings)).replace("_", "-") in one.reason
