"""What SATA disks say of themselves: sectors, attributes, wear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, unknown
from json_damage import without
from smart_answers import (
    HDD,
    asking,
    document,
    sorted_by_source,
)


def row(answer: Any, number: int) -> Any:
    return next(one for one in answer["ata_smart_attributes"]["table"] if one["id"] == number)


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
        (5, 100, {}, ["more than 0 reallocated sectors"]),
        (5, 101, {}, ["more than 100 reallocated sectors"]),
        (5, 101, {"reallocated_above": 101}, ["more than 0 reallocated sectors"]),
        (5, 1, {"reallocated_above": 0}, ["more than 0 reallocated sectors"]),
        (5, 101, {"reallocated_status": "Ok"}, []),
        (197, 10, {}, ["more than 0 pending sectors"]),
        (197, 10, {"suspect_above": 10}, []),
        (197, 10, {"suspect_status": "Ok"}, []),
        (197, 11, {}, ["more than 10 pending sectors"]),
        (198, 11, {}, ["more than 10 uncorrectable sectors"]),
        (198, 11, {"uncorrectable_status": "Ok"}, []),
        (10, 5, {}, []),
        (10, 6, {}, ["more than 5 failed starts"]),
        (187, 10, {}, ["more than 0 reported errors"]),
        (187, 0, {}, []),
        (187, 11, {}, ["more than 10 reported errors"]),
        (188, 100, {}, []),
        (188, 101, {}, ["more than 100 timeouts"]),
        # Three counts in one: two timeouts, of which one took more than 5 s.
        (188, (1 << 32) + (1 << 16) + 2, {}, []),
        (188, 101, {"timeouts_status": "Ok"}, []),
        # Counted, but not in sectors.
        (199, 100000, {}, []),
    ],
)
def test_thresholds_of_sectors(
    tmp_path: Path, number: int, count: int, settings: dict[str, Any], expected: list[str]
) -> None:
    answer = document("healthy", "sda")
    row(answer, number)["raw"] = {"value": count, "string": str(count)}
    results = collect("smart", asking(tmp_path, answer), **settings)
    assert faults(results).get(f"smart:{HDD}", []) == expected


@pytest.mark.parametrize("number", [5, 10, 187, 197, 198])
@pytest.mark.parametrize(
    ("value", "worst", "count", "is_known"),
    [
        (100, 100, 65535, True),
        (100, 100, 65536, False),
        (200, 200, 1 << 40, False),
        (100, 99, 65536, True),
        (98, 98, 65536, True),
        (1, 1, 70000, True),
    ],
)
def test_several_figures_in_one_are_no_count(
    tmp_path: Path, number: int, value: int, worst: int, count: int, is_known: bool
) -> None:
    """A disk that has counted so many has lowered its own value."""
    answer = document("healthy", "sda")
    row(answer, number).update(value=value, worst=worst)
    row(answer, number)["raw"] = {"value": count, "string": str(count)}
    results = collect("smart", asking(tmp_path, answer))
    assert bool(faults(results)) == is_known
    if not is_known:
        (reason,) = unknown(results).values()
        assert reason == (
            f"the raw value of attribute {number} is {count}, though the disk's own value of it is "
            f"still {value}"
        )


@pytest.mark.parametrize("number", [10, 187])
@pytest.mark.parametrize("text", ["0", "0/60", "", "6 (Average 3)"])
def test_a_value_that_is_printed_as_another_is_unknown(
    tmp_path: Path, number: int, text: str
) -> None:
    answer = document("healthy", "sda")
    row(answer, number)["raw"] = {"value": 60, "string": text}
    results = collect("smart", asking(tmp_path, answer))
    assert faults(results) == {}
    (reason,) = unknown(results).values()
    assert reason == f"the raw value of attribute {number} is printed as another one"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("End-to-End_Error", ["more than 0 end-to-end errors"]),
        # A manufacturer's own use of the number.
        ("Error_Correction_Count", []),
    ],
)
def test_end_to_end_errors(tmp_path: Path, name: str, expected: list[str]) -> None:
    answer = document("healthy", "sda")
    table = answer["ata_smart_attributes"]["table"]
    table.append(row(answer, 187) | {"id": 184, "name": name, "raw": {"value": 1, "string": "1"}})
    results = collect("smart", asking(tmp_path, answer))
    assert faults(results).get(f"smart:{HDD}", []) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Reported_Uncorrect", ["more than 10 reported errors"]),
        ("Uncorrectable_Error_Cnt", ["more than 10 reported errors"]),
        ("Unknown_Attribute", []),
    ],
)
def test_names_of_reported_errors(tmp_path: Path, name: str, expected: list[str]) -> None:
    answer = document("healthy", "sda")
    row(answer, 187).update({"name": name, "raw": {"value": 37, "string": "37"}})
    assert faults(collect("smart", asking(tmp_path, answer))).get(f"smart:{HDD}", []) == expected


def test_the_count_without_what_the_disk_keeps_beside_it(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    row(answer, 5)["raw"] = {"value": 7 + (3 << 32), "string": "7 (0 3)"}
    machine = asking(tmp_path, answer)
    assert fine(collect("smart", machine, suspect_above=7)) == [f"smart:{HDD}"]
    assert faults(collect("smart", machine, suspect_above=6))


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
    results = collect("smart", asking(tmp_path, answer), **settings)
    assert sorted(faults(results).get(f"smart:{HDD}", [])) == expected


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
    results = collect("smart", asking(tmp_path, answer), **settings)
    assert bool(faults(results)) == expected
    assert not unknown(results)


def test_wear_that_is_not_kept_up_does_not_count(tmp_path: Path) -> None:
    answer = document("healthy", "sdb")
    entry = answer["ata_device_statistics"]["pages"][0]["table"][0]
    entry["value"], entry["flags"]["valid"] = 200, False
    assert fine(collect("smart", asking(tmp_path, answer)))


def test_a_number_with_another_name_is_no_wear(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    row(answer, 10).update(id=177, name="Unknown_Attribute", value=1)
    assert fine(collect("smart", asking(tmp_path, answer)))


def test_names_of_an_unknown_disk_are_no_wear() -> None:
    """smartctl names 177 and 233 so for every SSD; here they mean other things."""
    machine = recorded("smart", "unlisted")
    assert fine(collect("smart", machine)) == ["smart:OR24A1100734"]


def test_whether_the_disk_is_known_is_not_reported(tmp_path: Path) -> None:
    answer = without(document("unlisted", "sda"), ("in_smartctl_database",))
    results = collect("smart", asking(tmp_path, answer))
    assert "in_smartctl_database is missing" in unknown(results)["smart:OR24A1100734"]


@pytest.mark.parametrize("disk", ["sdb", "sdc"])
def test_wear_as_later_versions_report_it(tmp_path: Path, disk: str) -> None:
    answer = document("healthy", disk)
    answer["endurance_used"] = {"current_percent": 120}
    results = collect("smart", asking(tmp_path, answer))
    assert list(faults(results).values()) == [["worn more than 98 %"]]


def test_a_table_without_attributes_is_none(tmp_path: Path) -> None:
    answer = document("healthy", "sda")
    answer["ata_smart_attributes"]["table"] = []
    assert set(unknown(collect("smart", asking(tmp_path, answer)))) == {f"smart:{HDD}"}
