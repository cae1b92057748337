"""What NVMe and SAS disks say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from collected import collect, faults, fine, unknown
from smart_answers import (
    NVME,
    SAS,
    asking,
    document,
)


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
    results = collect("smart", asking(tmp_path, answer))
    assert sorted(*(faults(results).values() or [[]])) == expected
    assert not unknown(results)
    hot = collect("smart", asking(tmp_path, answer), temperature_status="live-repair")
    assert ("temperature" in str(hot)) == bool(warning & 2)


@pytest.mark.parametrize(
    ("used", "errors", "expected"),
    [
        (99, 0, ["reliability degraded", "worn more than 98 %"]),
        (100, 0, []),
        (130, 0, []),
        (130, 1, ["reliability degraded"]),
    ],
)
def test_wear_that_is_switched_off_warns_of_nothing(
    tmp_path: Path, used: int, errors: int, expected: list[str]
) -> None:
    """The disk sets the bit for errors of its media as well; those are never switched off so."""
    answer = document("healthy", "nvme0")
    log = answer["nvme_smart_health_information_log"]
    log |= {"critical_warning": 4, "percentage_used": used, "media_errors": errors}
    ignored = faults(collect("smart", asking(tmp_path, answer), wear_status="Ok"))
    assert ignored.get(f"smart:{NVME}", []) == [one for one in expected if "worn" not in one]
    counted = faults(collect("smart", asking(tmp_path, answer)))[f"smart:{NVME}"]
    assert sorted(counted) == sorted(
        {*expected, "worn more than 98 %"}
        | ({"reliability degraded by wear"} if not expected else set())
    )


def test_a_byte_of_ones_is_no_wear(tmp_path: Path) -> None:
    answer = document("healthy", "nvme0")
    answer["nvme_smart_health_information_log"]["percentage_used"] = 255
    results = collect("smart", asking(tmp_path, answer))
    assert faults(results) == {}
    assert unknown(results) == {f"smart:{NVME}": "percentage_used is 255"}


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


@pytest.mark.parametrize("value", [101, 255, -1])
@pytest.mark.parametrize("member", ["available_spare", "available_spare_threshold"])
def test_a_share_that_cannot_be_one_is_unknown(tmp_path: Path, member: str, value: int) -> None:
    answer = document("healthy", "nvme0")
    answer["nvme_smart_health_information_log"][member] = value
    results = collect("smart", asking(tmp_path, answer))
    assert faults(results) == {}
    assert unknown(results) == {f"smart:{NVME}": f"{member} is {value} %"}
    # The disk's own warning takes effect all the same.
    answer["nvme_smart_health_information_log"]["critical_warning"] = 1
    assert faults(collect("smart", asking(tmp_path, answer))) == {
        f"smart:{NVME}": ["spare blocks below their threshold"]
    }


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
    results = collect("smart", asking(tmp_path, answer))
    assert faults(results) == {f"smart:{SAS}": ["worn more than 98 %"]}
