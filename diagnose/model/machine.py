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
#: What the collector of Ganeti keeps for the report of the same run of a node with KVM.
HYPERVISOR: Final = "hypervisor"


class Space(NamedTuple):
    """A mounted filesystem, as statvfs reports it."""

    size: int
    """bytes"""
    available: int
    """bytes free for ordinary users"""
    files: int
    """number of inodes; 0: the filesystem does not count them"""
    files_free: int
    """inodes free for ordinary users"""


class Reading(NamedTuple):
    """One temperature or fan."""

    chip: str
    label: str
    """empty: the chip gives none"""
    current: float
    """degrees Celsius, or revolutions per minute"""
    high: float | None = None
    """the chip's high limit in degrees"""
    critical: float | None = None
    """the chip's critical limit in degrees"""


class Machine(Protocol):
    """What a collector may read.  Paths are absolute.

    All methods raise OSError, except ``has``, ``temperatures`` and ``fans``.
    """

    def read(self, path: str) -> bytes:
        """A file's content, at most 4 MiB."""

    def listing(self, directory: str) -> Sequence[str]:
        """Sorted names in a directory."""

    def target(self, link: str) -> str:
        """Target of a symbolic link."""

    def modified(self, path: str) -> float:
        """When a file was last changed, seconds since the epoch."""

    def has(self, program: str) -> bool:
        """The program is installed."""

    def run(self, *command: str) -> Ended:
        """Run a program without input until it ends or the time is over."""

    def kernel_log(self) -> Sequence[str]:
        """Kernel messages since boot: ``priority,sequence,microseconds,...;text``."""

    def space(self, mount_point: str) -> Space:
        """Size of a mounted filesystem."""

    def recalled(self, name: str) -> bytes:
        """What an earlier run kept; empty: nothing."""

    def remember(self, name: str, content: bytes) -> None:
        """Keep something for later runs, if runs keep anything."""

    def temperatures(self) -> Sequence[Reading]:
        """All temperatures of the kernel."""

    def fans(self) -> Sequence[Reading]:
        """All fans of the kernel."""
