"""What collectors read on the machine that they run on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from asserting import some

from ganeti_steward.diagnose.run.local_machine import LocalMachine

MACHINE = LocalMachine(float("inf"))
#: Bytes.
LIMIT = 4 * 2**20


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, LIMIT - 1, LIMIT, LIMIT + 9])
def test_a_file(tmp_path: Path, size: int) -> None:
    content = (b"0123456789" * (size // 10 + 1))[:size]
    (tmp_path / "file").write_bytes(content)
    assert MACHINE.read(str(tmp_path / "file")) == content[:LIMIT]


def test_files_of_the_kernel() -> None:
    """Those below /proc/sys refuse to be read with a buffer of 4 MiB."""
    assert MACHINE.read("/proc/sys/kernel/hostname").decode().strip() == socket.gethostname()
    boot = MACHINE.read("/proc/sys/kernel/random/boot_id")
    assert len(boot.strip()) == 36
    for path in some(["/proc/stat", "/proc/uptime", "/proc/self/mountinfo"]):
        assert MACHINE.read(path).endswith(b"\n")


def test_when_a_file_was_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.utime(file, (5, 1_700_000_000.5))
    assert MACHINE.modified(str(file)) == 1_700_000_000.5
    with pytest.raises(FileNotFoundError):
        MACHINE.modified(f"{file}.gone")
