"""Which disks smartctl is called for, and those that hang."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from collected import RECORDED, collect, faults, fine, made, recorded, unknown
from smart_answers import (
    HDD,
    NVME,
    QUESTION,
    SAS,
    SCAN,
    SSD,
    document,
)

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.collectors.smart import Collector
from ganeti_steward.diagnose.sources import isolated
from ganeti_steward.diagnose.testing import RecordedMachine


def test_behind_a_raid_controller() -> None:
    """The volume has no SMART; a verdict made of the attributes is one."""
    results = collect("smart", recorded("smart", "megaraid"))
    assert faults(results) == {"smart:X9K0A0P2FJ7D": ["more than 100 grown defects"]}
    assert sorted(fine(results)) == ["smart:ENB7N8823I1107W4K", "smart:X9K0A0NXFJ7D"]
    (volume,) = [one for one in results if isinstance(one, NotApplicable)]
    assert volume.source == "smart:00e1b2c3d4a5968727d8c4a1f0e0a0b0"


def test_no_smartctl_where_disks_are() -> None:
    machine = recorded("smart", "dead", commands={})
    assert collect("smart", machine) == [
        Unknown("smart", "smartctl is not installed, but there are disks: sda, sdb, sdc, nvme0n1")
    ]


def test_a_volume_that_smartctl_refuses_to_open() -> None:
    volume = "smart:00f1b2c3d4a5968727d8c4a1f0e0a0b0"
    machine = recorded("smart", "perc")
    assert collect("smart", machine) == [
        NotApplicable(volume, "is a volume of a raid controller"),
        Finding("smart:71Q0A1C3FVTE", "Ok"),
    ]
    # Where its disks are not listed, nothing is known of them.
    scan = document("perc", "scan")
    del scan["devices"][1:]
    machine.recorded["commands"][SCAN] = {"output": json.dumps(scan)}
    assert set(unknown(collect("smart", machine))) == {volume}


def test_disks_that_the_configuration_names(tmp_path: Path) -> None:
    """Behind a controller whose disks smartctl does not find; it finds their volume."""
    healthy, broken = document("healthy", "sda"), document("broken", "sda")
    healthy["serial_number"] = "S1"
    scan = {"smartctl": {"exit_status": 0}, "devices": [{"name": "/dev/sda", "type": "scsi"}]}
    commands: dict[str, Any] = {SCAN: {"output": json.dumps(scan)}}
    for kind, answer in (("cciss,0", healthy), ("cciss,1", broken)):
        line = QUESTION.replace("megaraid,4 /dev/bus/0", f"{kind} /dev/sda")
        status = answer["smartctl"]["exit_status"]
        commands[line] = {"output": json.dumps(answer), "status": status}
    machine = RecordedMachine(tmp_path, commands=commands, files={"/sys/block/sda/size": "8\n"})
    named = ["/dev/sda:cciss,0", "/dev/sda:cciss,1"]
    results = collect("smart", machine, devices=named)
    assert fine(results) == ["smart:S1"]
    assert faults(results).keys() == {f"smart:{HDD}"}
    assert unknown(results) == {}
    # One that does not answer is known by its path only.
    commands[QUESTION.replace("megaraid,4 /dev/bus/0", "cciss,2 /dev/sda")] = {"status": 2}
    results = collect("smart", machine, devices=[*named, "/dev/sda:cciss,2"])
    assert "/dev/sda (cciss,2)" in unknown(results)["smart"]
    # The disks are checked where nothing can be found.
    commands[SCAN] = {"fault": "killed after 60 s"}
    assert faults(collect("smart", machine, devices=named)).keys() == {f"smart:{HDD}"}


@pytest.mark.parametrize("text", ["sda:cciss,0", "/dev/sda", "/dev/sda:", "/dev/s da:cciss,0"])
def test_a_disk_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match=r"devices: .* is not a disk behind a controller"):
        made(Collector(), "smart", {"devices": [text]})


def test_virtual_disks() -> None:
    (result,) = collect("smart", recorded("smart", "virtual"))
    assert result == NotApplicable("smart", "there is no disk with SMART data")


def test_usb() -> None:
    results = collect("smart", recorded("smart", "usb"))
    assert fine(results) == [f"smart:{HDD}"]
    # One smartctl reads nothing from, and one it does not even list.
    assert [one for one in results if not isinstance(one, Finding)] == [
        NotApplicable("smart:sdb", "has no SMART data")
    ]


def test_smartctl_is_not_installed(tmp_path: Path) -> None:
    assert collect("smart", RecordedMachine(tmp_path)) == [
        NotApplicable("smart", "smartctl is not installed")
    ]


@pytest.mark.parametrize(
    "outcome",
    [
        {"status": 1},
        {"fault": "killed after 60 s"},
        {"output": ""},
        {"output": "[]"},
        {"output": "{}"},
        {"output": '{"smartctl": {}, "devices": {}}'},
        {"output": '{"smartctl": {}, "devices": [{"name": "/dev/sda"}]}'},
        {"output": '{"smartctl": {}, "devices": [{"name": "-h", "type": "sat"}]}'},
    ],
    ids=str,
)
def test_a_failing_scan_is_not_fine(outcome: dict[str, Any]) -> None:
    machine = recorded("smart", "virtual", commands={SCAN: {"status": 0} | outcome})
    (one,) = collect("smart", machine)
    assert isinstance(one, Unknown)
    assert one.source == "smart"


def test_a_scan_that_overlooks_all_disks() -> None:
    """An empty list alone would look as if there were only virtual disks."""
    for case in ("healthy", "dead"):
        machine = recorded("smart", case)
        commands = {SCAN: {"output": '{"smartctl": {"exit_status": 0}}'}}
        (result,) = collect("smart", recorded("smart", case, commands=commands))
        assert isinstance(result, Unknown), machine
        assert {"nvme0n1", "sda"} <= set(result.reason.replace(",", "").split())


class Hanging(RecordedMachine):
    """One of its disks does not answer until it is let go."""

    def __init__(self, disk: str) -> None:
        super().__init__(RECORDED / "smart" / "healthy")
        self._disk, self.let_go, self.held_up = disk, threading.Event(), False

    def run(self, *command: str) -> Ended:
        if command[-1] != f"/dev/{self._disk}":
            return super().run(*command)
        self.held_up = not self.let_go.wait(300)
        return Ended(-9, b"", b"", "killed after 60 s")


@pytest.mark.parametrize("disk", ["sda", "sdb", "sdc", "nvme0"])
def test_a_disk_that_hangs_does_not_hide_the_others(disk: str) -> None:
    machine = Hanging(disk)
    results = iter(Collector().steward_diagnose(machine))
    others = [next(results) for _ in range(3)]
    machine.let_go.set()
    assert len(fine(others)) == 3
    assert [type(one) for one in results] == [Unknown]
    assert not machine.held_up


def test_who_listens_no_more_is_not_held_up() -> None:
    machine = Hanging("sda")
    results = Collector().steward_diagnose(machine)
    next(results)
    results.close()
    assert not machine.held_up
    machine.let_go.set()


def results_while_a_disk_hangs() -> Iterable[CheckResult]:
    return Collector().steward_diagnose(Hanging("sda"))


def test_what_is_left_when_its_time_is_over() -> None:
    """Stopped from outside: the others were reported, and the disk that hangs is not fine."""
    results = isolated.run(isolated.Source("smart", results_while_a_disk_hangs, 2))
    assert sorted(fine(results)) == sorted(f"smart:{serial}" for serial in (SSD, SAS, NVME))
    assert set(unknown(results)) == {"smart"}
