"""SMART and NVMe, judged on answers in the format of smartctl 7.3."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from collected import DATA, Damaged, collect, faults, fine, recorded, unknown
from json_damage import damaged, paths, shuffled, without
from recorded import RecordedMachine

from ganeti_steward.core.finding import Finding, NotApplicable, Said, Unknown
from ganeti_steward.core.program import Ended
from ganeti_steward.diagnose import isolated
from ganeti_steward.diagnose.collectors.settings import BadSettings
from ganeti_steward.diagnose.collectors.smart import Collector
from ganeti_steward.diagnose.hysteresis import Holding, State, settle

SCAN = "smartctl --scan-open -j"
QUESTION = "smartctl -j -n standby,3 -i -H -A -l error -l selftest -l ssd -d megaraid,4 /dev/bus/0"
HDD, SSD, SAS, NVME = "ZQ1A0HX7", "S4XPNE0R700411", "WFK4T0QZ0000E9352JQC", "S63DNG0T518834"


def document(case: str, disk: str) -> Any:
    return json.loads((DATA / "smart" / case / f"{disk}.json").read_text())


def asking(tmp_path: Path, answer: Any, **ended: Any) -> RecordedMachine:
    """A machine with one disk and no other word on its serial number than smartctl's."""
    scan = {
        "smartctl": {"exit_status": 0},
        "devices": [{"name": "/dev/bus/0", "type": "megaraid,4"}],
    }
    ended = {"output": json.dumps(answer)} | ended
    if "status" not in ended:
        ended["status"] = answer["smartctl"]["exit_status"]
    commands = {SCAN: {"output": json.dumps(scan)}, QUESTION: ended}
    return RecordedMachine(tmp_path, commands=commands, files={"/sys/block/dm-0/size": "8\n"})


def sorted_by_source(said: Sequence[Said]) -> list[Said]:
    return sorted(said, key=str)


def row(answer: Any, number: int) -> Any:
    return next(one for one in answer["ata_smart_attributes"]["table"] if one["id"] == number)


def test_healthy() -> None:
    said = collect("smart", recorded("smart", "healthy"))
    assert sorted(fine(said)) == sorted(f"smart:{serial}" for serial in (HDD, SSD, SAS, NVME))
    assert len(said) == 4


def test_broken() -> None:
    said = collect("smart", recorded("smart", "broken"), repair="replace-disk")
    assert {source: sorted(found) for source, found in faults(said).items()} == {
        f"smart:{HDD}": [
            "attribute 5 failing",
            "failing",
            "more than 10 pending sectors",
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
    assert {(one.status, one.command) for one in said if isinstance(one, Finding)} == {
        ("live-repair", "replace-disk")
    }


def test_behind_a_raid_controller() -> None:
    """The volume has no SMART; a verdict made of the attributes is one."""
    said = collect("smart", recorded("smart", "megaraid"))
    assert faults(said) == {"smart:X9K0A0P2FJ7D": ["more than 100 grown defects"]}
    assert sorted(fine(said)) == ["smart:ENB7N8823I1107W4K", "smart:X9K0A0NXFJ7D"]
    (volume,) = [one for one in said if isinstance(one, NotApplicable)]
    assert volume.source == "smart:00e1b2c3d4a5968727d8c4a1f0e0a0b0"


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


def test_a_sleeping_disk_is_not_woken() -> None:
    machine = recorded("smart", "asleep")
    said = collect("smart", machine)
    assert unknown(said) == {f"smart:{HDD}": "/dev/sda (sat): it sleeps and was not woken"}
    assert fine(said) == [f"smart:{SSD}"]
    questions = [line for line in machine.asked if " -d " in line]
    assert len(questions) == 2
    assert all(" -n standby,3 " in line for line in questions)


def test_virtual_disks() -> None:
    (said,) = collect("smart", recorded("smart", "virtual"))
    assert said == NotApplicable("smart", "there is no disk that could tell SMART data")


def test_usb() -> None:
    said = collect("smart", recorded("smart", "usb"))
    assert fine(said) == [f"smart:{HDD}"]
    # One smartctl reads nothing from, and one it does not even list.
    assert [one for one in said if not isinstance(one, Finding)] == [
        NotApplicable("smart:sdb", "tells no SMART data")
    ]


def test_dead_disks_are_not_fine() -> None:
    """What does not open keeps its name; what smartctl does not find is told."""
    said = collect("smart", recorded("smart", "dead"))
    assert fine(said) == [f"smart:{SAS}"]
    assert unknown(said) == {
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


def test_counters_do_not_creep(tmp_path: Path) -> None:
    answer = document("broken", "sda")
    found = set()
    for count in (101, 102, 5000, 65535):
        row(answer, 5)["raw"] = {"value": count, "string": str(count)}
        answer["temperature"]["current"] += 1
        answer["power_on_time"]["hours"] += 24
        answer["ata_smart_error_log"]["summary"]["count"] += 3
        found.add(str(sorted_by_source(collect("smart", asking(tmp_path, answer)))))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("number", "count", "settings", "expected"),
    [
        (5, 100, {}, []),
        (5, 101, {}, ["more than 100 reallocated sectors"]),
        (5, 101, {"reallocated_above": 101}, []),
        (5, 1, {"reallocated_above": 0}, ["more than 0 reallocated sectors"]),
        (5, 101, {"reallocated_status": "Ok"}, []),
        (197, 10, {}, []),
        (197, 11, {}, ["more than 10 pending sectors"]),
        (198, 11, {}, ["more than 10 uncorrectable sectors"]),
        (198, 11, {"uncorrectable_status": "Ok"}, []),
        # Counted, but not in sectors.
        (199, 100000, {}, []),
    ],
)
def test_thresholds_of_sectors(
    tmp_path: Path, number: int, count: int, settings: dict[str, Any], expected: list[str]
) -> None:
    answer = document("healthy", "sda")
    row(answer, number)["raw"] = {"value": count, "string": str(count)}
    said = collect("smart", asking(tmp_path, answer), **settings)
    assert faults(said).get(f"smart:{HDD}", []) == expected


def test_the_count_without_what_the_disk_keeps_beside_it(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    row(answer, 5)["raw"] = {"value": 7 + (3 << 32), "string": "7 (0 3)"}
    assert fine(collect("smart", asking(tmp_path, answer))) == [f"smart:{HDD}"]


@pytest.mark.parametrize(
    ("prefailure", "when", "settings", "expected"),
    [
        (True, "now", {}, ["attribute 5 failing"]),
        (True, "past", {}, []),
        (False, "now", {}, []),
        (True, "past", {"past_status": "evacuate"}, ["attribute 190 failed", "attribute 5 failed"]),
        (False, "now", {"past_status": "evacuate"}, ["attribute 190 failed", "attribute 5 failed"]),
    ],
)
def test_attributes_below_their_threshold(
    tmp_path: Path, prefailure: bool, when: str, settings: dict[str, Any], expected: list[str]
) -> None:
    answer = document("healthy", "sda")
    row(answer, 5)["when_failed"] = when
    row(answer, 5)["flags"]["prefailure"] = prefailure
    said = collect("smart", asking(tmp_path, answer), **settings)
    assert sorted(faults(said).get(f"smart:{HDD}", [])) == expected


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
    said = collect("smart", asking(tmp_path, answer), **settings)
    assert sorted(*(faults(said).values() or [[]])) == expected
    assert not unknown(said)


@pytest.mark.parametrize("status", [1, 2, 3, 2 | 64, 1 | 8])
def test_not_asked_at_all(tmp_path: Path, status: int) -> None:
    """Whatever else is in an answer of which smartctl says that there was none."""
    answer = document("broken", "sda")
    answer["smartctl"]["exit_status"] = status
    (said,) = collect("smart", asking(tmp_path, answer))
    assert isinstance(said, Unknown)


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
    (said,) = collect("smart", asking(tmp_path, document(case, "sda"), **ended))
    assert isinstance(said, Unknown)
    assert said.source == "smart"


@pytest.mark.parametrize(
    ("wear", "left", "settings", "expected"),
    [
        (None, 97, {}, False),
        (None, 2, {}, False),
        (None, 1, {}, True),
        # What is standard comes before what a maker thinks.
        (98, 1, {}, False),
        (99, 100, {}, True),
        (51, 100, {"wear_above": 50}, True),
        (255, 1, {"wear_status": "Ok"}, False),
    ],
)
def test_wear(
    tmp_path: Path, wear: int | None, left: int, settings: dict[str, Any], expected: bool
) -> None:
    answer = document("healthy", "sdb")
    row(answer, 177)["value"] = left
    if wear is None:
        del answer["ata_device_statistics"]
    else:
        answer["ata_device_statistics"]["pages"][0]["table"][0]["value"] = wear
    said = collect("smart", asking(tmp_path, answer), **settings)
    assert bool(faults(said)) == expected
    assert not unknown(said)


def test_wear_that_is_not_kept_up_does_not_count(tmp_path: Path) -> None:
    answer = document("healthy", "sdb")
    entry = answer["ata_device_statistics"]["pages"][0]["table"][0]
    entry["value"], entry["flags"]["valid"] = 200, False
    assert fine(collect("smart", asking(tmp_path, answer)))


def test_a_number_with_another_name_is_no_wear(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    row(answer, 10).update(id=177, name="Unknown_Attribute", value=1)
    assert fine(collect("smart", asking(tmp_path, answer)))


def test_names_of_a_disk_nobody_knows_are_no_wear() -> None:
    """smartctl names 177 and 233 so for every SSD; here they mean other things."""
    machine = recorded("smart", "unlisted")
    assert fine(collect("smart", machine)) == ["smart:OR24A1100734"]


def test_whether_the_disk_is_known_is_not_told(tmp_path: Path) -> None:
    answer = without(document("unlisted", "sda"), ("in_smartctl_database",))
    said = collect("smart", asking(tmp_path, answer))
    assert "in_smartctl_database is missing" in unknown(said)["smart:OR24A1100734"]


@pytest.mark.parametrize("disk", ["sdb", "sdc"])
def test_wear_as_later_versions_tell_it(tmp_path: Path, disk: str) -> None:
    answer = document("healthy", disk)
    answer["endurance_used"] = {"current_percent": 120}
    said = collect("smart", asking(tmp_path, answer))
    assert list(faults(said).values()) == [["worn more than 98 %"]]


@pytest.mark.parametrize(
    ("warning", "expected"),
    [
        (1, ["spare blocks below their threshold"]),
        # Its temperature is no defect; the verdict is "failed" all the same.
        (2, []),
        (4, ["reliability degraded"]),
        (8, ["read-only"]),
        (16, ["volatile memory backup failed"]),
        (32, ["persistent memory region unreliable"]),
        (64, ["a warning that is not known"]),
        (2 | 8, ["read-only"]),
    ],
)
def test_warnings_of_nvme(tmp_path: Path, warning: int, expected: list[str]) -> None:
    answer = document("healthy", "nvme0")
    answer["nvme_smart_health_information_log"]["critical_warning"] = warning
    answer["smart_status"] = {"passed": False, "nvme": {"value": warning}}
    answer["smartctl"]["exit_status"] = 8
    said = collect("smart", asking(tmp_path, answer))
    assert sorted(*(faults(said).values() or [[]])) == expected
    assert not unknown(said)
    hot = collect("smart", asking(tmp_path, answer), temperature_status="live-repair")
    assert ("temperature" in str(hot)) == bool(warning & 2)


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("available_spare", 10, []),
        ("available_spare", 9, ["spare blocks below their threshold"]),
        ("percentage_used", 98, []),
        ("percentage_used", 99, ["worn more than 98 %"]),
        ("media_errors", 100, []),
        ("media_errors", 101, ["more than 100 media errors"]),
        ("num_err_log_entries", 100000, []),
    ],
)
def test_thresholds_of_nvme(tmp_path: Path, member: str, value: int, expected: list[str]) -> None:
    answer = document("healthy", "nvme0")
    answer["nvme_smart_health_information_log"][member] = value
    assert faults(collect("smart", asking(tmp_path, answer))).get(f"smart:{NVME}", []) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [(None, ["failing"]), ((0x5D, 0x10), ["failing"]), ((0x0B, 2), ["failing"]), ((0x0B, 1), [])]
    + [((0x0B, limit), []) for limit in (0x0A, 0x0B, 0x0C, 0x0D)],
)
def test_exceptions_of_scsi(
    tmp_path: Path, code: tuple[int, int] | None, expected: list[str]
) -> None:
    answer = document("healthy", "sdc")
    answer["smart_status"]["passed"] = False
    if code is not None:
        answer["smart_status"]["scsi"] = {"asc": code[0], "ascq": code[1], "ie_string": "?"}
    answer["smartctl"]["exit_status"] = 8
    assert faults(collect("smart", asking(tmp_path, answer))).get(f"smart:{SAS}", []) == expected


def test_a_solid_state_sas_disk_keeps_no_list(tmp_path: Path) -> None:
    answer = document("healthy", "sdc")
    del answer["scsi_grown_defect_list"]
    answer["scsi_percentage_used_endurance_indicator"] = 3
    assert fine(collect("smart", asking(tmp_path, answer)))
    answer["scsi_percentage_used_endurance_indicator"] = 100
    said = collect("smart", asking(tmp_path, answer))
    assert faults(said) == {f"smart:{SAS}": ["worn more than 98 %"]}


def test_a_table_without_attributes_is_none(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    answer["ata_smart_attributes"]["table"] = []
    assert set(unknown(collect("smart", asking(tmp_path, answer)))) == {f"smart:{HDD}"}


@pytest.mark.parametrize("page", ["", "\x00\x80", "\x00\x83\x00\x04ABCD", "\x00\x80\x00\x00ABCD"])
def test_a_page_that_is_no_serial_number(page: str) -> None:
    """Then the disk goes by what smartctl says."""
    files = {"/sys/block/sda/device/vpd_pg80": page}
    assert f"smart:{HDD}" in fine(collect("smart", recorded("smart", "healthy", files=files)))


def test_smart_is_switched_off(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    answer["smart_support"]["enabled"] = False
    assert set(unknown(collect("smart", asking(tmp_path, answer)))) == {f"smart:{HDD}"}


def test_before_version_7_3_support_is_not_told(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    del answer["smart_support"]
    assert fine(collect("smart", asking(tmp_path, answer)))


def test_ignored(tmp_path: Path) -> None:
    said = collect("smart", recorded("smart", "broken"), ignore=[HDD, "S*"])
    assert {one.source for one in said} == {f"smart:{SAS}"}
    # One whose number only smartctl knows.
    said = collect("smart", asking(tmp_path, document("broken", "sda")), ignore=["ZQ*"])
    assert said == [NotApplicable("smart", "no disk is judged, as configured")]


def test_what_was_found_of_a_disk_ends_when_it_is_ignored() -> None:
    machine = recorded("smart", "broken")
    before = settle(State(), collect("smart", machine), Holding())
    assert HDD in str(before.findings)
    now = settle(before.state, collect("smart", machine, ignore=[HDD]), Holding())
    assert HDD not in str(now.findings)
    assert SAS in str(now.findings)


def test_a_strange_serial_number(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    answer["serial_number"] = " A B\n\u00fc\x00 "
    assert fine(collect("smart", asking(tmp_path, answer))) == ["smart:A_B_"]


def test_smartctl_is_not_installed(tmp_path: Path) -> None:
    assert collect("smart", RecordedMachine(tmp_path)) == [
        NotApplicable("smart", "smartctl is not installed")
    ]


@pytest.mark.parametrize(
    "said",
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
def test_a_failing_scan_is_not_fine(said: dict[str, Any]) -> None:
    machine = recorded("smart", "virtual", commands={SCAN: {"status": 0} | said})
    (one,) = collect("smart", machine)
    assert isinstance(one, Unknown)
    assert one.source == "smart"


def test_a_scan_that_overlooks_all_disks() -> None:
    """An empty list alone would look as if there were only virtual disks."""
    for case in ("healthy", "dead"):
        machine = recorded("smart", case)
        commands = {SCAN: {"output": '{"smartctl": {"exit_status": 0}}'}}
        (said,) = collect("smart", recorded("smart", case, commands=commands))
        assert isinstance(said, Unknown), machine
        assert {"nvme0n1", "sda"} <= set(said.reason.replace(",", "").split())


class Hanging(RecordedMachine):
    """One of its disks does not answer until it is let go."""

    def __init__(self, disk: str) -> None:
        super().__init__(DATA / "smart" / "healthy")
        self._disk, self.let_go, self.held_up = disk, threading.Event(), False

    def run(self, *command: str) -> Ended:
        if command[-1] != f"/dev/{self._disk}":
            return super().run(*command)
        self.held_up = not self.let_go.wait(30)
        return Ended(-9, b"", b"", "killed after 60 s")


@pytest.mark.parametrize("disk", ["sda", "sdb", "sdc", "nvme0"])
def test_a_disk_that_hangs_does_not_hide_the_others(disk: str) -> None:
    machine = Hanging(disk)
    said = iter(Collector({}).steward_diagnose(machine))
    others = [next(said) for _ in range(3)]
    machine.let_go.set()
    assert len(fine(others)) == 3
    assert [type(one) for one in said] == [Unknown]
    assert not machine.held_up


def test_who_listens_no_more_is_not_held_up() -> None:
    machine = Hanging("sda")
    said = Collector({}).steward_diagnose(machine)
    next(said)
    said.close()
    assert not machine.held_up
    machine.let_go.set()


def test_what_is_left_when_its_time_is_over() -> None:
    """Stopped from outside: the others were told, and the disk that hangs is not fine."""
    collector, machine = Collector({}), Hanging("sda")
    said = isolated.run("smart", 2, lambda: collector.steward_diagnose(machine))
    assert sorted(fine(said)) == sorted(f"smart:{serial}" for serial in (SSD, SAS, NVME))
    assert set(unknown(said)) == {"smart"}


ESSENTIAL = {
    "sda": [
        ("smartctl", "exit_status"),
        ("device", "protocol"),
        ("serial_number",),
        ("smart_support", "available"),
        ("smart_support", "enabled"),
        ("smart_status", "passed"),
        ("ata_smart_attributes", "table"),
        *(("ata_smart_attributes", "table", 0, *path) for path in [("id",), ("when_failed",)]),
        ("ata_smart_attributes", "table", 0, "name"),
        ("ata_smart_attributes", "table", 0, "raw", "string"),
    ],
    "sdb": [("smart_status", "passed"), ("ata_device_statistics", "pages", 0, "number")],
    "sdc": [("smartctl", "exit_status"), ("device", "protocol"), ("smart_status", "passed")],
    "nvme0": [
        ("smartctl", "exit_status"),
        ("device", "protocol"),
        ("serial_number",),
        ("smart_status", "passed"),
        *(
            ("nvme_smart_health_information_log", member)
            for member in ("critical_warning", "available_spare", "available_spare_threshold")
        ),
        ("nvme_smart_health_information_log", "percentage_used"),
        ("nvme_smart_health_information_log", "media_errors"),
    ],
}


#: What may be left out as a whole, but not be nonsense.
LEFT_OUT = {("smart_support",), ("ata_smart_attributes", "table", 0)}
LEFT_OUT |= {("ata_device_statistics",), ("ata_device_statistics", "pages")}
LEFT_OUT |= {("ata_device_statistics", "pages", 0)}


def shortened(case: str, disk: str) -> Any:
    """An answer without most of what nobody reads."""
    answer = document(case, disk)
    for member in ("interface_speed", "user_capacity", "form_factor", "ata_version", "wwn"):
        answer.pop(member, None)
    del answer["smartctl"]["argv"]
    if "ata_smart_attributes" in answer:
        table = answer["ata_smart_attributes"]["table"]
        kept = [one for one in table if one["id"] in (5, 177, 197, 198)]
        answer["ata_smart_attributes"]["table"] = kept
    return answer


@pytest.mark.parametrize("disk", ESSENTIAL)
def test_every_damage_to_a_healthy_answer(tmp_path: Path, disk: str) -> None:
    answer = shortened("healthy", disk)
    assert set(ESSENTIAL[disk]) <= set(paths(answer))
    status = answer["smartctl"]["exit_status"]
    for path, changed in damaged(answer):
        said = collect("smart", asking(tmp_path, changed, status=status))
        assert not faults(said), path
        if any(path == essential[: len(path)] for essential in ESSENTIAL[disk]):
            if path in LEFT_OUT and changed == without(answer, path):
                continue
            assert not fine(said), path
            assert unknown(said), path


@pytest.mark.parametrize("disk", ESSENTIAL)
def test_every_damage_to_a_broken_answer(tmp_path: Path, disk: str) -> None:
    answer = shortened("broken", disk)
    status = answer["smartctl"]["exit_status"]
    for path, changed in damaged(answer):
        said = collect("smart", asking(tmp_path, changed, status=status))
        assert faults(said) or unknown(said), path
        assert not fine(said), path


@pytest.mark.parametrize("disk", ["sda", "sdb", "sdc", "nvme0"])
def test_optional_members_are_no_nonsense(tmp_path: Path, disk: str) -> None:
    """What may be left out is still not taken for fine when it is something else."""
    optional = {
        "smart_support": {"available": None},
        "endurance_used": {"current_percent": "3"},
    }
    if disk in ("sda", "sdb"):
        optional["ata_device_statistics"] = {"pages": [{}]}
    if disk == "sdc":
        optional |= {"scsi_error_counter_log": {}, "scsi_grown_defect_list": {"?": None}}
    if disk == "nvme0":
        del optional["endurance_used"]
    for member, nonsense in optional.items():
        for value in (None, [], "", nonsense):
            answer = copy.deepcopy(document("healthy", disk))
            answer[member] = value
            said = collect("smart", asking(tmp_path, answer))
            assert unknown(said), (member, value)
            assert not fine(said)


class Strict(RecordedMachine):
    """Questions nobody recorded are not taken, as smartctl does it."""

    def run(self, *command: str) -> Ended:
        if " ".join(command) in self.recorded["commands"]:
            return super().run(*command)
        return Ended(1, b"{}", b"")


@pytest.mark.parametrize("case", ["healthy", "broken", "megaraid", "asleep", "usb", "dead"])
def test_damage(case: str) -> None:
    for seed in range(100):
        collect("smart", Damaged(Strict(DATA / "smart" / case), Random(seed)))


def test_order_means_nothing() -> None:
    machine = recorded("smart", "broken")
    expected = sorted_by_source(collect("smart", machine))
    for seed in range(20):
        chance = Random(seed)
        commands = {}
        for line, said in machine.recorded["commands"].items():
            answer = json.loads((machine.directory / said["output_file"]).read_text())
            output = json.dumps(shuffled(answer, chance, lists=True))
            commands[line] = {"status": said.get("status", 0), "output": output}
        said = collect("smart", recorded("smart", "broken", commands=commands))
        assert sorted_by_source(said) == expected


def test_a_status_for_each_kind(tmp_path: Path) -> None:
    said = collect(
        "smart",
        recorded("smart", "broken"),
        failing_status="evacuate",
        pending_status="evacuate-failover",
        errors_status="Ok",
        media_errors_status="Ok",
    )
    found = {
        (one.source, *one.details["faults"]): one.status for one in said if isinstance(one, Finding)
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
