"""Temperatures, fans and alarms, judged on recorded trees of sysfs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.finding import Finding, NotApplicable
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, update
from ganeti_steward.diagnose.testing import RecordedMachine

HWMON = "/sys/class/hwmon"


def one(tmp_path: Path, current: float, critical: float | None, chip: str = "k10temp") -> Any:
    """A machine with one chip with one temperature, whose high limit is another one."""
    files = {"name": chip, "temp1_label": "Tctl", "temp1_input": f"{current * 1000:.0f}"}
    if critical is not None:
        files |= {"temp1_crit": f"{critical * 1000:.0f}", "temp1_max": "70000"}
    return RecordedMachine(
        tmp_path, files={f"{HWMON}/hwmon0/{name}": f"{text}\n" for name, text in files.items()}
    )


def place(machine: RecordedMachine, device: str) -> str:
    """The directory of the chip of a device."""
    (link,) = [link for link, to in machine.recorded["links"].items() if to.endswith(f"/{device}")]
    return link.removesuffix("/device")


def changed(case: str, device: str, **files: str) -> RecordedMachine:
    """A recorded case with other texts in the files of a device's chip."""
    machine = recorded("sensors", case)
    where = place(machine, device)
    machine.recorded["files"] |= {f"{where}/{name}": f"{text}\n" for name, text in files.items()}
    return machine


HEALTHY = [
    "sensors:coretemp:coretemp.0",
    "sensors:coretemp:coretemp.1",
    "sensors:drivetemp:0:0:0:0",
    "sensors:i350bb:0000:05:00.0",
    "sensors:nvme:nvme0",
    "sensors:nvme:nvme1",
]


def test_healthy() -> None:
    # Chips with unreliable limits and alarms, and a fan that may not exist, are not reported.
    assert collect("sensors", recorded("sensors", "healthy")) == [
        Finding(source, "Ok") for source in HEALTHY
    ]


def test_broken() -> None:
    results = collect("sensors", recorded("sensors", "broken"), fans=["nct6779:fan1", "*:fan3"])
    assert faults(results) == {
        "sensors:coretemp:coretemp.0": ["too hot"],
        "sensors:drivetemp:0:0:0:0": ["too hot"],
        "sensors:nct6779:nct6775.656": ["fan1 stands still"],
    }
    assert unknown(results) == {
        "sensors:nvme:nvme0": "too near to the limit to decide",
        "sensors:i350bb:0000:05:00.0": "no temperature is plausible",
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"live-repair"}


def test_which_core_is_hot_does_not_matter() -> None:
    results = set()
    for hot in (1, 2, 3):
        degrees = {number: 95000 + hot if number == hot else 91000 for number in (1, 2, 3)}
        files = {f"temp{number}_input": str(figure) for number, figure in degrees.items()}
        results.add(str(collect("sensors", changed("broken", "coretemp.0", **files))))
    assert len(results) == 1


def test_what_cannot_be_read_clears_nothing() -> None:
    """A disk that is too hot and then does not answer is not fine."""
    machine = recorded("sensors", "broken")
    hot = collect("sensors", machine)
    where = place(machine, "0:0:0:0")
    source = "sensors:drivetemp:0:0:0:0"
    before = update(RunState(), hot, RunCounts(1, 1))
    assert source in {one.source for one in before.findings}
    for file in ("temp1_input", "temp1_crit", "name"):
        machine = recorded("sensors", "broken", refused={f"{where}/{file}": "EIO"})
        results = collect("sensors", machine)
        assert source not in fine(results)
        after = update(before.state, results, RunCounts(1, 1))
        assert after.findings == before.findings, file
    # Its disk is gone in the middle of the run.
    machine = recorded("sensors", "broken", refused={f"{where}/temp1_input": "ENOENT"})
    assert unknown(collect("sensors", machine))[source] == "temp1_input cannot be read"


def test_two_disks_have_two_sources() -> None:
    machine = changed("healthy", "nvme1", temp1_input="86000")
    results = collect("sensors", machine)
    assert faults(results) == {"sensors:nvme:nvme1": ["too hot"]}
    assert "sensors:nvme:nvme0" in fine(results)
    results = collect("sensors", machine, limits=["nvme:nvme1=100"], ignore=["nvme:nvme0"])
    assert [source for source in fine(results) if "nvme" in source] == ["sensors:nvme:nvme1"]


def test_alarms() -> None:
    """What a chip reports itself, even when the temperature read is below the limit again."""
    for device, file in (("nvme0", "temp1_alarm"), ("coretemp.1", "temp1_crit_alarm")):
        results = collect("sensors", changed("healthy", device, **{file: "1"}))
        ((source, texts),) = faults(results).items()
        assert (source.rpartition(":")[2], texts) == (device, ["too hot"])
    machine = changed("healthy", "nct6775.656", fan1_alarm="1", fan2_alarm="1")
    assert not faults(collect("sensors", machine))
    # A fan that has to turn may report itself that it does not.
    results = collect("sensors", machine, fans=["nct6779:fan1"])
    assert faults(results) == {"sensors:nct6779:nct6775.656": ["fan1: alarm"]}
    results = collect("sensors", machine, alarm_chips=["nct6779:in1"], alarm_status="evacuate")
    assert faults(results) == {"sensors:nct6779:nct6775.656": ["in1: alarm"]}
    assert "evacuate" in {one.status for one in results if isinstance(one, Finding)}
    # Limits that the admin set take the place of the chip's own.
    machine = changed("healthy", "coretemp.1", temp1_crit_alarm="1")
    assert not faults(collect("sensors", machine, limits=["coretemp=105"]))


def test_faults_of_sensors() -> None:
    machine = changed("healthy", "nvme0", temp1_fault="1", temp1_input="99000")
    results = collect("sensors", machine)
    assert faults(results) == {"sensors:nvme:nvme0": ["Composite: fault"]}
    assert unknown(results) == {"sensors:nvme:nvme0": "no temperature is plausible"}
    machine = changed("healthy", "nct6775.656", fan3_fault="1")
    results = collect("sensors", machine, fans=["nct6779:fan3"])
    assert faults(results) == {"sensors:nct6779:nct6775.656": ["fan3: fault"]}
    (name,) = unknown(
        collect(
            "sensors",
            recorded(
                "sensors", "healthy", refused={f"{place(machine, 'nvme0')}/temp1_alarm": "EIO"}
            ),
        )
    ).values()
    assert name == "temp1_alarm cannot be read"


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
    ],
)
def test_the_limit(tmp_path: Path, current: float, expected: str) -> None:
    (result,) = collect("sensors", one(tmp_path, current, 93.0), margin=3.0)
    assert (result.status if isinstance(result, Finding) else "unknown") == expected


@pytest.mark.parametrize("critical", [None, 0.0, -1.0, 127.0, 255.0, 65261.85])
def test_no_limit(tmp_path: Path, critical: float | None) -> None:
    (result,) = collect("sensors", one(tmp_path, 99.0, critical))
    assert result == NotApplicable("sensors", "no sensor has a limit")


def test_settings(tmp_path: Path) -> None:
    healthy = recorded("sensors", "healthy")
    results = collect("sensors", healthy, limits=["nct6779:SYS*=35", "acpitz=60"], ignore=["nvme*"])
    assert faults(results) == {"sensors:nct6779:nct6775.656": ["too hot"]}
    assert fine(results) == ["sensors:acpitz", *HEALTHY[:4]]
    results = collect("sensors", healthy, single_limit_chips=["nct*"], ignore=["*:AUXTIN0"])
    assert fine(results) == [
        *(source for source in HEALTHY if "drivetemp" not in source and "nvme" not in source),
        "sensors:nct6779:nct6775.656",
        *(source for source in HEALTHY if "nvme" in source),
    ]
    machine = one(tmp_path, 99.0, 90.0)
    assert collect("sensors", machine, hot_status="evacuate") == [
        Finding("sensors:k10temp", "evacuate", "", {"faults": ["too hot"]})
    ]
    with pytest.raises(StewardError, match=r"collector\.sensors\.limits: 'nvme' is not of the"):
        collect("sensors", healthy, limits=["nvme"])


def test_an_ignored_chip_is_not_read() -> None:
    """Reading a temperature wakes some disks."""
    machine = recorded("sensors", "healthy")
    collect("sensors", machine, ignore=["drivetemp"])
    where = place(machine, "0:0:0:0")
    assert not {f"{where}/temp1_input", f"{where}/temp1_crit"} & set(machine.requests)


def test_old_drivers(tmp_path: Path) -> None:
    """They have their files with the device."""
    files = {"name": "w83", "temp1_input": "99000", "temp1_crit": "90000", "temp1_max": "80000"}
    machine = RecordedMachine(
        tmp_path,
        files={f"{HWMON}/hwmon0/device/{name}": text for name, text in files.items()},
        links={f"{HWMON}/hwmon0/device": "../../../w83.656"},
    )
    assert faults(collect("sensors", machine)) == {"sensors:w83:w83.656": ["too hot"]}


def test_a_fan_that_is_not_there_is_unknown() -> None:
    results = collect("sensors", recorded("sensors", "healthy"), fans=["nct6779:fan7", "w83795:*"])
    assert unknown(results) == {
        "sensors:nct6779:nct6775.656": "there is no fan nct6779:fan7",
        "sensors:w83795": "there is no fan w83795:*",
    }
    machine = changed("healthy", "nct6775.656", fan1_input="99999")
    results = collect("sensors", machine, fans=["nct6779:fan1"])
    assert unknown(results) == {"sensors:nct6779:nct6775.656": "the speed of fan1 is not plausible"}


def test_nothing_is_measured(tmp_path: Path) -> None:
    (result,) = collect("sensors", RecordedMachine(tmp_path))
    assert result == NotApplicable("sensors", "there are no sensors")


@pytest.mark.parametrize("case", ["healthy", "broken"])
def test_damaged_input(case: str) -> None:
    survives("sensors", case, fans=["nct6779:*"])
