"""A place where a process that writes sleeps and cannot be killed, as on a dead disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Final

import pytest

#: For tests with a real filesystem that is frozen.
needs_freezing: Final = pytest.mark.skipif(
    os.geteuid() != 0
    or not os.path.exists("/dev/loop-control")
    or not all(map(which, ("mkfs.ext4", "fsfreeze", "losetup"))),
    reason="a filesystem has to be mounted and frozen",
)


@contextmanager
def frozen_filesystem(directory: Path) -> Iterator[Path]:
    """Where it is mounted; a process that writes there waits, uninterruptibly, until the end."""
    image, place = directory / "image", directory / "frozen"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(8 * 2**20)
    _do("mkfs.ext4", "-q", str(image))
    _do("mount", "-o", "loop", str(image), str(place))
    try:
        _do("fsfreeze", "--freeze", str(place))
        try:
            yield place
        finally:
            _do("fsfreeze", "--unfreeze", str(place))
    finally:
        # What was waiting is about to end, and holds the filesystem till then.
        _do("umount", "--lazy", str(place))


def state(pid: int) -> str:
    """A process's state as the kernel names it; ``D`` is the one that cannot be killed."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
