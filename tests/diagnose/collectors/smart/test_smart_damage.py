"""Answers of smartctl with members missing, of another kind, or in another order."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asserting import some
from collected import RECORDED, Damaged, collect, faults, fine, recorded, unknown
from json_damage import damaged, paths, shuffled, without
from smart_answers import (
    asking,
    document,
    sorted_by_source,
)

from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.testing import RecordedMachine

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
    """An answer without most of what is not read."""
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
        results = collect("smart", asking(tmp_path, changed, status=status))
        assert not faults(results), path
        if any(path == essential[: len(path)] for essential in ESSENTIAL[disk]):
            if path in LEFT_OUT and changed == without(answer, path):
                continue
            assert not fine(results), path
            assert unknown(results), path


@pytest.mark.parametrize("disk", ESSENTIAL)
def test_every_damage_to_a_broken_answer(tmp_path: Path, disk: str) -> None:
    answer = shortened("broken", disk)
    status = answer["smartctl"]["exit_status"]
    for path, changed in some(damaged(answer)):
        results = collect("smart", asking(tmp_path, changed, status=status))
        assert faults(results) or unknown(results), path
        assert not fine(results), path


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
    for member, nonsense in some(optional.items()):
        for value in (None, [], "", nonsense):
            answer = copy.deepcopy(document("healthy", disk))
            answer[member] = value
            results = collect("smart", asking(tmp_path, answer))
            assert unknown(results), (member, value)
            assert not fine(results)


class Strict(RecordedMachine):
    """Calls that were not recorded are rejected, as by smartctl."""

    def run(self, *command: str) -> Ended:
        if " ".join(command) in self.recorded["commands"]:
            return super().run(*command)
        return Ended(1, b"{}", b"")


@pytest.mark.parametrize("case", ["healthy", "broken", "megaraid", "asleep", "usb", "dead"])
def test_damage(case: str) -> None:
    for seed in range(100):
        collect("smart", Damaged(Strict(RECORDED / "smart" / case), Random(seed)))


def test_order_means_nothing() -> None:
    machine = recorded("smart", "broken")
    expected = sorted_by_source(collect("smart", machine))
    for seed in range(20):
        chance = Random(seed)
        commands = {}
        for line, outcome in machine.recorded["commands"].items():
            answer = json.loads((machine.directory / outcome["output_file"]).read_text())
            output = json.dumps(shuffled(answer, chance, lists=True))
            commands[line] = {"status": outcome.get("status", 0), "output": output}
        results = collect("smart", recorded("smart", "broken", commands=commands))
        assert sorted_by_source(results) == expected
