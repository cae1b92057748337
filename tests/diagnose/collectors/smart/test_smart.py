"""SMART and NVMe, judged on answers in the format of smartctl 7.3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, unknown
from smart_answers import (
    HDD,
    NVME,
    SAS,
    SSD,
    asking,
    document,
    sorted_by_source,
)

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, update
from ganeti_steward.diagnose.testing import RecordedMachine


def test_healthy() -> None:
    results = collect("smart", recorded("smart", "healthy"))
    assert sorted(fine(results)) == sorted(f"smart:{serial}" for serial in (HDD, SSD, SAS, NVME))
    assert len(results) == 4


def test_broken() -> None:
    results = collect("smart", recorded("smart", "broken"), repair="replace-disk")
    assert {source: sorted(found) for source, found in faults(results).items()} == {
        f"smart:{HDD}": [
            "attribute 5 failing",
            "failing",
            "more than 10 pending sectors",
            "more than 10 reported errors",
            "more than 10 uncorrectable sectors",
            "more than 100 reallocated sectors",
            "self-test failed",
        ],
        f"smart:{SSD}": ["more than 100 reallocated sectors", "worn more than 98 %"],
        f"smart:{SAS}": [
            "failing",
            "more than 10 read errors",
            "more than 10 verify errors",
            "more than 100 grown defects",
        ],
        f"smart:{NVME}": [
            "more than 100 media errors",
            "read-only",
            "reliability degraded",
            "spare blocks below their threshold",
            "worn more than 98 %",
        ],
    }
    assert {(one.status, one.command) for one in results if isinstance(one, Finding)} == {
        ("live-repair", "replace-disk")
    }


def test_findings_name_the_physical_volumes_of_the_disk() -> None:
    files: dict[str, str] = {}
    for number, (name, kind) in enumerate(
        [
            ("sda", "ext4"),
            ("sda1", "LVM2_member"),
            ("sda2", "linux_raid_member"),
            ("sdaa1", "LVM2_member"),
            ("nvme0n1p3", "LVM2_member"),
            ("nvme10n1", "LVM2_member"),
        ]
    ):
        files[f"/sys/class/block/{name}/dev"] = f"8:{number}\n"
        files[f"/run/udev/data/b8:{number}"] = f"E:ID_FS_TYPE={kind}\n"
    machine = recorded("smart", "broken", files=files)
    found = {
        one.source: one.details.get("physical_volumes")
        for one in collect("smart", machine, name_volumes=True)
        if isinstance(one, Finding)
    }
    assert found == {
        f"smart:{HDD}": ["/dev/sda1"],
        f"smart:{SSD}": None,
        f"smart:{SAS}": None,
        f"smart:{NVME}": ["/dev/nvme0n1p3"],
    }


def test_a_sleeping_disk_is_not_woken() -> None:
    machine = recorded("smart", "asleep")
    results = collect("smart", machine)
    assert unknown(results) == {f"smart:{HDD}": "/dev/sda (sat): it sleeps and was not woken"}
    assert fine(results) == [f"smart:{SSD}"]
    questions = [line for line in machine.requests if " -d " in line]
    assert len(questions) == 2
    assert all(" -n standby,3 " in line for line in questions)


def test_dead_disks_are_not_fine() -> None:
    """A disk that does not open keeps its name; one that smartctl does not find is reported."""
    results = collect("smart", recorded("smart", "dead"))
    assert fine(results) == [f"smart:{SAS}"]
    assert unknown(results) == {
        "smart": "smartctl does not find sdb",
        f"smart:{HDD}": "/dev/sda (scsi): it cannot be opened",
        f"smart:{NVME}": "/dev/nvme0 (nvme): it cannot be opened",
    }


def test_a_disk_keeps_its_name_when_letters_change() -> None:
    machine = recorded("smart", "broken")
    names = {"/dev/sda": "/dev/sdb", "/dev/sdb": "/dev/sda"}
    commands = dict(machine.recorded["commands"])
    lines = {old: next(one for one in commands if one.endswith(old)) for old in names}
    for old, new in names.items():
        commands[lines[old]] = machine.recorded["commands"][lines[new]]
    files = machine.recorded["files"]
    numbers = [f"/sys/block/{name}/device/vpd_pg80" for name in ("sda", "sdb")]
    swapped = dict(zip(numbers, [files[numbers[1]], files[numbers[0]]], strict=True))
    other = recorded("smart", "broken", commands=commands, files=swapped)
    assert sorted_by_source(collect("smart", other)) == sorted_by_source(collect("smart", machine))


@pytest.mark.parametrize(
    ("disk", "status", "settings", "expected"),
    [
        ("sda", 0, {}, []),
        ("sda", 4, {}, []),
        ("sda", 8, {}, ["failing"]),
        ("sda", 16, {}, ["an attribute failing"]),
        ("sda", 32, {}, []),
        ("sda", 64, {}, []),
        ("sda", 64, {"error_log_status": "live-repair"}, ["errors logged"]),
        ("sda", 128, {}, ["self-test failed"]),
        ("sda", 128, {"self_test_status": "Ok"}, []),
        ("sda", 8 | 16, {"failing_status": "Ok"}, []),
        ("sdc", 8, {}, ["failing"]),
        ("sdc", 128, {}, ["self-test failed"]),
        ("nvme0", 8, {}, ["failing"]),
        ("nvme0", 64, {"error_log_status": "evacuate"}, ["errors logged"]),
    ],
)
def test_the_bits_of_the_exit_status(
    tmp_path: Path, disk: str, status: int, settings: dict[str, Any], expected: list[str]
) -> None:
    answer = document("healthy", disk)
    answer["smartctl"]["exit_status"] = status
    results = collect("smart", asking(tmp_path, answer), **settings)
    assert sorted(*(faults(results).values() or [[]])) == expected
    assert not unknown(results)


@pytest.mark.parametrize("status", [1, 2, 3, 2 | 64, 1 | 8])
def test_smartctl_is_not_called(tmp_path: Path, status: int) -> None:
    """Whatever else is in an answer of which smartctl says that there was none."""
    answer = document("broken", "sda")
    answer["smartctl"]["exit_status"] = status
    (result,) = collect("smart", asking(tmp_path, answer))
    assert isinstance(result, Unknown)


@pytest.mark.parametrize(
    "ended",
    [
        {"status": -9},
        {"fault": "killed after 60 s"},
        {"output": ""},
        {"output": "{"},
        {"output": "[]"},
        {"output": "[" * 100000},
        {"status": 32},
    ],
    ids=lambda ended: str(ended)[:40],
)
@pytest.mark.parametrize("case", ["healthy", "broken"])
def test_a_failing_program_is_not_fine(tmp_path: Path, ended: dict[str, Any], case: str) -> None:
    (result,) = collect("smart", asking(tmp_path, document(case, "sda"), **ended))
    assert isinstance(result, Unknown)
    assert result.source == "smart"


@pytest.mark.parametrize("page", ["", "\x00\x80", "\x00\x83\x00\x04ABCD", "\x00\x80\x00\x00ABCD"])
def test_a_page_that_is_no_serial_number(page: str) -> None:
    """Then the disk has the name that smartctl reports."""
    files = {"/sys/block/sda/device/vpd_pg80": page}
    assert f"smart:{HDD}" in fine(collect("smart", recorded("smart", "healthy", files=files)))


def test_smart_is_switched_off(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    answer["smart_support"]["enabled"] = False
    assert set(unknown(collect("smart", asking(tmp_path, answer)))) == {f"smart:{HDD}"}


def test_before_version_7_3_support_is_not_reported(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    del answer["smart_support"]
    assert fine(collect("smart", asking(tmp_path, answer)))


def test_ignored(tmp_path: Path) -> None:
    results = collect("smart", recorded("smart", "broken"), ignore=[HDD, "S*"])
    assert {one.source for one in results} == {f"smart:{SAS}"}
    # One whose number only smartctl knows.
    results = collect("smart", asking(tmp_path, document("broken", "sda")), ignore=["ZQ*"])
    assert results == [NotApplicable("smart", "every disk is ignored, as configured")]


def test_what_was_found_of_a_disk_ends_when_it_is_ignored() -> None:
    machine = recorded("smart", "broken")
    before = update(RunState(), collect("smart", machine), RunCounts())
    assert HDD in str(before.findings)
    now = update(before.state, collect("smart", machine, ignore=[HDD]), RunCounts())
    assert HDD not in str(now.findings)
    assert SAS in str(now.findings)


def test_a_strange_serial_number(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    answer["serial_number"] = " A B\n\u00fc\x00 "
    assert fine(collect("smart", asking(tmp_path, answer))) == ["smart:A_B_"]


def test_a_status_for_each_kind(tmp_path: Path) -> None:
    results = collect(
        "smart",
        recorded("smart", "broken"),
        failing_status="evacuate",
        pending_status="evacuate-failover",
        errors_status="Ok",
        reported_status="Ok",
        media_errors_status="Ok",
    )
    found = {
        (one.source, *one.details["faults"]): one.status
        for one in results
        if isinstance(one, Finding)
    }
    assert found[f"smart:{HDD}", "failing"] == "evacuate"
    assert found[f"smart:{HDD}", "more than 10 pending sectors"] == "evacuate-failover"
    assert found[f"smart:{NVME}", "read-only"] == "evacuate"
    assert found[f"smart:{SAS}", "more than 100 grown defects"] == "live-repair"
    assert not [key for key in found if "errors" in key[1]]


def test_bad_settings(tmp_path: Path) -> None:
    with pytest.raises(BadSettings) as raised:
        collect("smart", RecordedMachine(tmp_path), wear_above=-1, no_such=1, ignore="x")
    assert len(raised.value.faults) == 3
