"""Temperatures and fans."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.finding import Finding, NotApplicable
from ganeti_steward.diagnose.testing import RecordedMachine


def one(tmp_path: Path, current: float, critical: float | None, chip: str = "k10temp") -> Any:
    reading = {"chip": chip, "label": "Tctl", "current": current, "critical": critical}
    return RecordedMachine(tmp_path, temperatures=[reading])


def test_healthy() -> None:
    # Chips with unreliable limits, and a fan that may not exist, are not reported.
    assert collect("sensors", recorded("sensors", "healthy")) == [
        Finding("sensors:coretemp", "Ok"),
        Finding("sensors:drivetemp", "Ok"),
        Finding("sensors:i350bb", "Ok"),
        Finding("sensors:nvme", "Ok"),
    ]


def test_broken() -> None:
    results = collect("sensors", recorded("sensors", "broken"), fans=["nct6779:fan1", "*:fan3"])
    assert faults(results) == {
        "sensors:coretemp": ["too hot"],
        "sensors:drivetemp": ["too hot"],
        "sensors:nct6779": ["fan1 stands still"],
    }
    assert unknown(results) == {
        "sensors:nvme": "too near to the limit to decide",
        "sensors:i350bb": "no temperature is plausible",
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"live-repair"}


def test_which_core_is_hot_does_not_matter() -> None:
    machine = recorded("sensors", "broken")
    readings = machine.recorded["temperatures"]
    results = set()
    for hot in range(3):
        for number in range(3):
            readings[number]["current"] = 95.0 + hot if number == hot else 91.0
        Random(hot).shuffle(readings)
        results.add(str(collect("sensors", machine)))
        readings.sort(key=lambda reading: str(reading["label"]))
        readings.sort(key=lambda reading: reading["chip"] != "coretemp")
    assert len(results) == 1


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (89.9, "Ok"),
        (92.0, "unknown"),
        (93.0, "live-repair"),
        (127.0, "unknown"),
        (150.0, "unknown"),
        (255.0, "unknown"),
        (-40.0, "unknown"),
        (float("nan"), "unknown"),
    ],
)
def test_the_limit(tmp_path: Path, current: float, expected: str) -> None:
    (result,) = collect("sensors", one(tmp_path, current, 93.0), margin=3.0)
    assert (result.status if isinstance(result, Finding) else "unknown") == expected


@pytest.mark.parametrize("critical", [None, 0.0, -1.0, 127.0, 255.0, 65261.85, float("nan")])
def test_no_limit(tmp_path: Path, critical: float | None) -> None:
    (result,) = collect("sensors", one(tmp_path, 99.0, critical))
    assert result == NotApplicable("sensors", "no temperature has a limit")


def test_settings(tmp_path: Path) -> None:
    healthy = recorded("sensors", "healthy")
    results = collect("sensors", healthy, limits=["nct6779:SYS*=35", "acpitz=60"], ignore=["nvme*"])
    assert faults(results) == {"sensors:nct6779": ["too hot"]}
    assert fine(results) == [
        "sensors:acpitz",
        "sensors:coretemp",
        "sensors:drivetemp",
        "sensors:i350bb",
    ]
    results = collect("sensors", healthy, single_limit_chips=["nct*"], ignore=["*:AUXTIN0"])
    assert fine(results) == [
        "sensors:coretemp",
        "sensors:i350bb",
        "sensors:nct6779",
        "sensors:nvme",
    ]
    machine = one(tmp_path, 99.0, 90.0)
    assert collect("sensors", machine, hot_status="evacuate") == [
        Finding("sensors:k10temp", "evacuate", "", {"faults": ["too hot"]})
    ]
    with pytest.raises(StewardError, match=r"collector\.sensors\.limits: 'nvme' is not of the"):
        collect("sensors", healthy, limits=["nvme"])


def test_a_fan_that_is_not_there_is_unknown() -> None:
    results = collect("sensors", recorded("sensors", "healthy"), fans=["nct6779:fan7", "w83795:*"])
    assert unknown(results) == {
        "sensors:nct6779": "there is no fan nct6779:fan7",
        "sensors:w83795": "there is no fan w83795:*",
    }
    machine = recorded("sensors", "healthy")
    machine.recorded["fans"][0]["current"] = float("inf")
    results = collect("sensors", machine, fans=["nct6779:fan1"])
    assert unknown(results) == {"sensors:nct6779": "the speed of fan1 is not plausible"}


def test_nothing_is_measured(tmp_path: Path) -> None:
    (result,) = collect("sensors", RecordedMachine(tmp_path))
    assert result == NotApplicable("sensors", "there are no temperatures")


@pytest.mark.parametrize("case", ["healthy", "broken"])
def test_damaged_input(case: str) -> None:
    survives("sensors", case, fans=["nct6779:*"])
