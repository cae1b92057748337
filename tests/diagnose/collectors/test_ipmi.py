"""The management controller's sensors and event log, as ipmitool prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine

SDR, SEL = "ipmitool -c sdr elist", "ipmitool -c sel list"


def answering(sdr: Any = "CPU Temp,44,degrees C,ok\n", sel: Any = "") -> RecordedMachine:
    """A healthy controller that answers otherwise; a mapping is a command's whole outcome."""
    commands = {
        line: {"output": answer} if isinstance(answer, str) else answer
        for line, answer in ((SDR, sdr), (SEL, sel))
    }
    return recorded("ipmi", "healthy", commands=commands)


def test_healthy() -> None:
    assert collect("ipmi", recorded("ipmi", "healthy")) == [
        Finding("ipmi:sensors", "Ok"),
        Finding("ipmi:events", "Ok"),
    ]


def test_broken() -> None:
    results = collect("ipmi", recorded("ipmi", "broken"))
    assert faults(results) == {
        "ipmi:sensors": [
            "12V: critical",
            "CPU2 Temp: critical",
            "Drive 1: Predictive Failure",
            "FAN2: critical",
            "PS2 Status: Failure detected",
            "PS2 Status: Power Supply AC lost",
        ],
        "ipmi:events": [
            "Memory #0x87: Uncorrectable ECC (@DIMMC1(CPU1))",
            "Power Supply #0xc9: Failure detected",
            "Processor #0x61: IERR",
            "Slot / Connector #0x41: Predictive Failure",
        ],
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"live-repair"}
    assert unknown(results) == {}


def test_a_sensor_that_cannot_be_read_does_not_hide_the_others() -> None:
    results = collect("ipmi", recorded("ipmi", "flaky"))
    assert faults(results)["ipmi:sensors"] == ["Fan3B: critical", "ROMB Battery: Failed"]
    assert unknown(results) == {"ipmi:sensors": "ipmitool ended with status 1"}


def test_a_power_cut_of_the_past_is_no_fault() -> None:
    results = collect("ipmi", recorded("ipmi", "flaky"))
    assert faults(results)["ipmi:events"] == ["Battery #0x11: Failed"]
    sel = "1,10/02/2025,04:19:30,Power Supply #0x61,AC lost or out-of-range,Asserted\n"
    assert faults(collect("ipmi", answering(sel=sel)))


def test_half_an_event_log_is_none() -> None:
    """The end of an event is in a later line."""
    sel = "1,10/02/2025,04:19:30,Power Supply #0x61,Failure detected,Asserted\n"
    results = collect("ipmi", answering(sel={"status": 1, "output": sel}))
    assert set(unknown(results)) == {"ipmi:events"}
    assert not faults(results)


def test_readings_do_not_show() -> None:
    one = collect("ipmi", answering("CPU2 Temp,96,degrees C,ucr\n"))
    other = collect("ipmi", answering("CPU2 Temp,101.500,degrees C,unr\n"))
    assert one == other


def test_settings() -> None:
    broken = recorded("ipmi", "broken")
    results = collect("ipmi", broken, ignore=["PS?*", "Power Supply*"], event_status="Ok")
    assert fine(results) == ["ipmi:events"]
    assert len(faults(results)["ipmi:sensors"]) == 4
    results = collect("ipmi", broken, ignore=["[!M]*"], event_status="evacuate", repair="order")
    assert results == [
        Finding("ipmi:sensors", "Ok"),
        Finding(
            "ipmi:events",
            "evacuate",
            "",
            {"faults": ["Memory #0x87: Uncorrectable ECC (@DIMMC1(CPU1))"]},
        ),
    ]


def test_no_controller_or_no_program(tmp_path: Path) -> None:
    (result,) = collect("ipmi", RecordedMachine(tmp_path, commands={SDR: {}, SEL: {}}))
    assert result == NotApplicable("ipmi", "the kernel has no management controller")
    (result,) = collect("ipmi", recorded("ipmi", "healthy", commands={}))
    assert result == Unknown("ipmi", "there is a management controller, but no ipmitool")
    (result,) = collect("ipmi", recorded("ipmi", "healthy", refused={"/sys/class/ipmi": "EACCES"}))
    assert isinstance(result, Unknown)


@pytest.mark.parametrize(
    "outcome",
    [
        {"status": 1, "errors": "Could not open device at /dev/ipmi0\n"},
        {"status": 1, "output": "CPU Temp,44,degrees C,ok\n"},
        {"status": -9, "fault": "killed after 60 s"},
    ],
)
def test_a_failure_is_unknown(outcome: Any) -> None:
    results = collect("ipmi", answering(sdr=outcome))
    assert set(unknown(results)) == {"ipmi:sensors"}
    assert fine(results) == ["ipmi:events"]
    results = collect("ipmi", answering(sel=outcome))
    assert set(unknown(results)) == {"ipmi:events"}
    assert fine(results) == ["ipmi:sensors"]


@pytest.mark.parametrize(
    "sdr",
    [
        "",
        "nonsense\n",
        "CPU Temp,44,degrees C,ok",
        "CPU Temp,44,degrees C,ok\nCPU Te",
        "CPU Temp,44,degrees C,fine\n",
        "CPU Temp,warm,degrees C,ok\n",
        "PS1 Status,C8h,ok\n",
        "\ufffd\n",
    ],
)
def test_another_form_is_unknown(sdr: str) -> None:
    assert set(unknown(collect("ipmi", answering(sdr)))) == {"ipmi:sensors"}


@pytest.mark.parametrize("sel", ["x\n", "1,03/14/2024,09:12:40,Memory #0x87,Uncorrectable ECC\n"])
def test_an_event_of_another_form_is_unknown(sel: str) -> None:
    assert set(unknown(collect("ipmi", answering(sel=sel)))) == {"ipmi:events"}


def test_a_line_that_is_not_understood_hides_no_fault() -> None:
    results = collect("ipmi", answering("FAN1,0,RPM,lcr\n???\n"))
    assert faults(results) == {"ipmi:sensors": ["FAN1: critical"]}
    assert set(unknown(results)) == {"ipmi:sensors"}


def test_the_order_of_sensors_does_not_matter() -> None:
    machine = recorded("ipmi", "broken")
    lines = (machine.directory / "sdr.csv").read_text().splitlines(keepends=True)
    assert collect("ipmi", answering("".join(reversed(lines))))[:-1] == collect("ipmi", machine)[:6]


@pytest.mark.parametrize("case", ["healthy", "broken", "flaky"])
def test_damaged_input(case: str) -> None:
    survives("ipmi", case)


def test_events_of_many_corrected_errors_and_of_severity() -> None:
    lines = (
        "1,11/02/2024,03:10:00,Memory #0x53,Correctable ECC,Asserted\n"
        "2,11/02/2024,03:12:00,Memory #0x53,Correctable ECC logging limit reached,Asserted\n"
        "3,11/02/2024,04:00:00,Power Supply #0x61,"
        "Transition to Critical from less severe,Asserted\n"
        "4,11/02/2024,04:00:00,Fan #0x31,Transition to Non-critical from OK,Asserted\n"
    )
    limit = "Memory #0x53: Correctable ECC logging limit reached"
    results = collect("ipmi", answering(sel=lines))
    assert faults(results) == {
        "ipmi:events": [limit, "Power Supply #0x61: Transition to Critical from less severe"]
    }
    for state in ("Transition to OK", "Transition to Non-Critical from more severe"):
        over = f"5,11/02/2024,05:00:00,Power Supply #0x61,{state},Asserted\n"
        assert faults(collect("ipmi", answering(sel=lines + over))) == {"ipmi:events": [limit]}
