"""Whether a node has to be rebooted, by recorded files, and on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.run.reboot import reboot
from ganeti_steward.diagnose.testing import RecordedMachine

RUNS = "6.1.0-25-amd64"
FILES = {"/proc/sys/kernel/osrelease": f"{RUNS}\n", "/proc/stat": "cpu 1 2\nbtime 1767787200\n"}
SAME = {"/vmlinuz": f"boot/vmlinuz-{RUNS}"}
NEWER = {"/vmlinuz": "boot/vmlinuz-6.1.0-28-amd64"}
KERNEL = f"kernel 6.1.0-28-amd64 is installed, {RUNS} runs"
REQUIRED = {"/run/reboot-required": "*** System restart required ***\n"}
#: As apt's hooks append it: a package may be there several times.
PACKAGES = {"/run/reboot-required.pkgs": "linux-image-amd64\nlibc6\nlibc6\n"}


def found(folder: Path, files: dict[str, str], links: dict[str, str], **more: Any) -> Any:
    return reboot(RecordedMachine(folder, files=FILES | files, links=links, **more))


@pytest.mark.parametrize(
    ("files", "links", "required"),
    [
        ({}, SAME, []),
        ({}, {}, []),
        ({}, {"/vmlinuz": "boot/bzImage"}, []),
        ({}, NEWER, [KERNEL]),
        (REQUIRED, SAME, ["/run/reboot-required exists"]),
        (REQUIRED | PACKAGES, SAME, ["packages: linux-image-amd64, libc6"]),
        (REQUIRED | PACKAGES, NEWER, ["packages: linux-image-amd64, libc6", KERNEL]),
        (PACKAGES, SAME, []),
        (
            REQUIRED | {"/run/reboot-required.pkgs": "\n".join("abcdefg")},
            SAME,
            ["packages: a, b, c, d, e and 2 more"],
        ),
    ],
)
def test_why(
    tmp_path: Path, files: dict[str, str], links: dict[str, str], required: list[str]
) -> None:
    assert found(tmp_path, files, links) == {"required": required, "booted": 1767787200}


@pytest.mark.parametrize("path", ["/run/reboot-required", "/proc/sys/kernel/osrelease"])
def test_what_cannot_be_read_is_not_known(tmp_path: Path, path: str) -> None:
    assert found(tmp_path, {}, NEWER, refused={path: "EIO"})["required"] is None


@pytest.mark.parametrize("stat", ["", "btime soon\n", "btime\n", "btime 1\nbtime 2\n"])
def test_a_start_that_is_not_known(tmp_path: Path, stat: str) -> None:
    assert found(tmp_path, {"/proc/stat": stat}, SAME) == {"required": [], "booted": None}


def test_of_this_machine() -> None:
    seen = reboot(LocalMachine(0, ""))
    assert seen["required"] is not None
    assert 0 < seen["booted"] <= time.time()
