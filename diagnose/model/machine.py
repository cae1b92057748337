"""The node as a collector sees it: files, programs, filesystems, sensors.

A collector reads nothing by itself but through the machine it is given.  So it can be tested on
what was recorded on other hardware, and whatever hangs is stopped in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ganeti_steward.core.process.following import Ended

#: What the collector of LVM keeps for the report of the same run: name -> total and free MiB.
VOLUME_GROUPS: Final = "volume-groups"


class Space(NamedTuple):
    """The size of a mounted filesystem, as statvfs reports it."""

    size: int
    """bytes"""
    available: int
    """bytes that are left for everybody"""
    files: int
    """inodes there can be; 0 where the filesystem does not count them"""
    files_free: int
    """inodes that are left for everybody"""


class Reading(NamedTuple):
    """One temperature or fan."""

    chip: str
    label: str
    """empty where the chip gives none"""
    current: float
    """degrees Celsius, or revolutions per minute"""
    high: float | None = None
    """degrees; what the chip itself calls high, None where it has no limit"""
    critical: float | None = None
    """degrees; what the chip itself calls critical"""


class Machine(Protocol):
    """What a collector may look at.  Paths are absolute."""

    def read(self, path: str) -> bytes:
        """A file's content, 4 MiB of it at most; raises OSError."""

    def listing(self, directory: str) -> Sequence[str]:
        """The names in a directory, sorted; raises OSError."""

    def target(self, link: str) -> str:
        """The target of a symbolic link; raises OSError."""

    def modified(self, path: str) -> float:
        """When a file was last written or touched, seconds since the epoch; raises OSError."""

    def has(self, program: str) -> bool:
        """Whether there is a program of this name."""

    def run(self, *command: str) -> Ended:
        """Run a program without input until it ends or the time is over; raises OSError."""

    def kernel_log(self) -> Sequence[str]:
        """The kernel's messages since boot, as ``priority,sequence,microseconds,...;text``.

        Raises OSError.
        """

    def space(self, mount_point: str) -> Space:
        """A mounted filesystem's room; raises OSError."""

    def recalled(self, name: str) -> bytes:
        """What an earlier run kept under a name; empty when there is nothing; raises OSError."""

    def remember(self, name: str, content: bytes) -> None:
        """Keep something for later runs, where runs keep anything; raises OSError."""

    def temperatures(self) -> Sequence[Reading]:
        """All temperatures the kernel knows."""

    def fans(self) -> Sequence[Reading]:
        """All fans the kernel knows."""
