"""Local filesystems: read-only, damaged, full; judged on recorded mount tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine

ROOT = "28 1 253:0 / / {} - ext4 /dev/mapper/vg0-root {}\n"


def mounted(tmp_path: Path, mountinfo: str, fstab: str = "", **changed: Any) -> RecordedMachine:
    files = {"/proc/self/mountinfo": mountinfo}
    if fstab:
        files["/etc/fstab"] = fstab
    space = {"/": {"size": 100, "available": 50, "files": 100, "files_free": 50}}
    return RecordedMachine(tmp_path, **{"files": files, "space": space} | changed)


def test_healthy() -> None:
    machine = recorded("filesystems", "healthy")
    results = collect("filesystems", machine)
    assert results == [
        Finding("filesystems:/", "Ok"),
        Finding("filesystems:/boot", "Ok"),
        Finding("filesystems:/boot/efi", "Ok"),
        Finding("filesystems:/srv/archive", "Ok"),
        Finding("filesystems:/srv/install images", "Ok"),
        Finding("filesystems:/var", "Ok"),
    ]


def test_broken() -> None:
    results = collect("filesystems", recorded("filesystems", "broken"))
    assert faults(results) == {
        "filesystems:/": ["full: blocks"],
        # fstab lists a filesystem that can be written to.
        "filesystems:/boot": ["read-only"],
        "filesystems:/var": ["errors recorded", "read-only"],
        # What ext4 says since it no longer sets "ro" by itself.
        "filesystems:/var/log": ["errors recorded", "read-only"],
        "filesystems:/srv/spool": ["full: inodes"],
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"Ok", "live-repair"}
    # 97.5 % is between: neither found nor cleared. And where statvfs fails, nothing is fine.
    assert set(unknown(results)) == {"filesystems:/srv/scratch", "filesystems:/srv/lost"}
    assert fine(results) == ["filesystems:/srv/install images"]


@pytest.mark.parametrize(
    ("available", "expected"), [(3, "Ok"), (2.5, "unknown"), (2, "live-repair"), (0, "live-repair")]
)
def test_the_margin(tmp_path: Path, available: float, expected: str) -> None:
    space = {"size": 1000, "available": int(available * 10), "files": 0, "files_free": 0}
    machine = mounted(tmp_path, ROOT.format("rw", "rw"), space={"/": space})
    (one,) = collect("filesystems", machine)
    assert (one.status if isinstance(one, Finding) else "unknown") == expected


def test_the_finding_does_not_creep(tmp_path: Path) -> None:
    found = set()
    for available in range(20):
        space = {"size": 1000, "available": available, "files": 0, "files_free": 0}
        machine = mounted(tmp_path, ROOT.format("rw", "rw"), space={"/": space})
        found.add(str(collect("filesystems", machine)))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("options", "fstab", "expected"),
    [
        (("rw", "rw"), "", []),
        (("rw", "ro"), "", ["read-only"]),
        (("ro", "ro"), "", []),
        (("ro", "ro"), "/dev/x / ext4 errors=remount-ro 0 1\n", ["read-only"]),
        (("ro", "ro"), "/dev/x / ext4 ro,noatime 0 1\n", []),
        (("ro", "ro"), "/dev/x / ext4\n", ["read-only"]),
        (("ro", "ro"), "/dev/x /\n", []),
        (("ro", "ro"), "#/dev/x / ext4 rw 0 1\n", []),
        # Only this mount is read-only; the filesystem is not.
        (("ro", "rw"), "/dev/x / ext4 rw 0 1\n", []),
        (("rw", "rw,shutdown"), "", ["read-only"]),
    ],
)
def test_read_only(
    tmp_path: Path, options: tuple[str, str], fstab: str, expected: list[str]
) -> None:
    results = collect("filesystems", mounted(tmp_path, ROOT.format(*options), fstab))
    assert faults(results).get("filesystems:/", []) == expected
    assert unknown(results) == {}


def test_an_unreadable_fstab_is_no_answer(tmp_path: Path) -> None:
    machine = mounted(tmp_path, ROOT.format("ro", "ro"), refused={"/etc/fstab": "EIO"})
    results = collect("filesystems", machine)
    assert results == [Unknown("filesystems:/", "/etc/fstab: Input/output error")]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    line = "28 1 253:0 / /a\\012b\udcff rw - ext4 /dev/mapper/vg0-root rw\n"
    space = {"size": 100, "available": 50, "files": 100, "files_free": 50}
    machine = mounted(tmp_path, line, space={"/a\nb\udcff": space})
    assert collect("filesystems", machine) == [Finding("filesystems:/a\\nb\\udcff", "Ok")]


def test_a_covered_mount_is_not_judged(tmp_path: Path) -> None:
    covered = "40 28 8:1 / /srv rw - ext4 /dev/sda1 ro\n41 28 8:2 / /srv rw - ext4 /dev/sdb1 rw\n"
    space = {"size": 100, "available": 50, "files": 100, "files_free": 50}
    machine = mounted(tmp_path, covered, space={"/srv": space})
    assert collect("filesystems", machine) == [Finding("filesystems:/srv", "Ok")]


def test_an_unknown_result_does_not_hide_a_fault(tmp_path: Path) -> None:
    space = {"size": 1000, "available": 0, "files": 1000, "files_free": 25}
    results = collect("filesystems", mounted(tmp_path, ROOT.format("rw", "rw"), space={"/": space}))
    assert faults(results) == {"filesystems:/": ["full: blocks"]}
    assert set(unknown(results)) == {"filesystems:/"}


@pytest.mark.parametrize(
    ("changed", "plausible"),
    [
        ({"size": 0, "available": 0}, False),
        ({"available": 1001}, False),
        ({"available": -1}, False),
        ({"files_free": 1001}, False),
        ({"available": 1000, "files_free": 1000}, True),
        ({"files": 0, "files_free": 0}, True),
    ],
)
def test_figures_that_cannot_be_true(
    tmp_path: Path, changed: dict[str, int], plausible: bool
) -> None:
    space = {"size": 1000, "available": 500, "files": 1000, "files_free": 500}
    machine = mounted(tmp_path, ROOT.format("rw", "rw"), space={"/": space | changed})
    results = collect("filesystems", machine)
    assert (fine(results), len(unknown(results))) == (
        (["filesystems:/"], 0) if plausible else ([], 1)
    )


def test_settings() -> None:
    results = collect(
        "filesystems",
        recorded("filesystems", "broken"),
        ignore=["/var*"],
        full_status="Ok",
        read_only_status="evacuate",
        repair="look",
    )
    assert faults(results) == {"filesystems:/boot": ["read-only"]}
    assert Finding("filesystems:/boot", "evacuate", "", {"faults": ["read-only"]}) in results
    results = collect("filesystems", recorded("filesystems", "broken"), repair="look")
    assert Finding("filesystems:/", "live-repair", "look", {"faults": ["full: blocks"]}) in results


def test_no_local_filesystem(tmp_path: Path) -> None:
    machine = mounted(tmp_path, "1 0 0:1 / / rw - tmpfs tmpfs rw\n")
    (one,) = collect("filesystems", machine)
    assert isinstance(one, NotApplicable)


@pytest.mark.parametrize(
    "mountinfo",
    [
        "",
        "nonsense\n",
        "28 1 253:0 / / rw,relatime\n",
        "28 1 253:0 / / rw - ext4 /dev/sda1\n",
        "28 1 253:0 / / nosuid - ext4 /dev/sda1 rw\n",
        "28 1 253:0 / here rw - ext4 /dev/sda1 rw\n",
        "28 1 nothing / / rw - ext4 /dev/sda1 rw\n",
        ROOT.format("rw", "rw") + "cut off",
    ],
)
def test_another_form_is_unknown(tmp_path: Path, mountinfo: str) -> None:
    (one,) = collect("filesystems", mounted(tmp_path, mountinfo))
    assert isinstance(one, Unknown)
    assert one.source == "filesystems"


@pytest.mark.parametrize("count", ["", "many", "-", "1_0", "\u0663"])
def test_a_count_of_another_form_is_unknown(tmp_path: Path, count: str) -> None:
    machine = mounted(tmp_path, ROOT.format("rw", "rw"))
    machine.recorded["links"] = {"/sys/dev/block/253:0": "../../devices/virtual/block/dm-0"}
    machine.recorded["files"]["/sys/fs/ext4/dm-0/errors_count"] = count
    assert set(unknown(collect("filesystems", machine))) == {"filesystems:/"}


def test_the_order_of_mounts_does_not_matter(tmp_path: Path) -> None:
    machine = recorded("filesystems", "broken")
    lines = machine.read("/proc/self/mountinfo").decode().splitlines(keepends=True)
    turned = recorded(
        "filesystems", "broken", files={"/proc/self/mountinfo": "".join(reversed(lines))}
    )
    assert collect("filesystems", turned) == collect("filesystems", machine)


@pytest.mark.parametrize("case", ["healthy", "broken"])
def test_damaged_input(case: str) -> None:
    survives("filesystems", case)
