"""Local filesystems that fell read-only, recorded errors or are full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.mounts import (
    Mount,
    by_filesystem,
    read_mounts,
    writable_in_fstab,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    above,
    check_results,
    located_reason,
    matches,
    number_of,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Figure, Repair, Status

NAME: Final = "filesystems"

#: Filesystems on disks of this node.  Not those of a network, where looking can hang, and not
#: those that can only be read.
_KINDS: Final = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "nilfs2", "reiserfs", "bcachefs"),
        *("zfs", "vfat", "exfat", "ntfs3"),
    )
)

#: How the kernel marks a filesystem that takes no more writing; ext4 has words of its own
#: for what it did after an error, and leaves ``rw`` where it was.
_NOT_WRITABLE: Final = frozenset(("ro", "emergency_ro", "shutdown"))


class Settings(NamedTuple):
    """[collector.filesystems]: the checks of filesystems."""

    blocks_full: Annotated[
        Figure, "Percent of the blocks in use, or reserved for root, at which a filesystem is full."
    ] = 98.0
    inodes_full: Annotated[
        Figure, "Percent of the inodes in use at which a filesystem is full."
    ] = 98.0
    margin: Annotated[
        Figure,
        "Percent; a filesystem below these limits by less than that leaves the last finding as it "
        "is.",
    ] = 1.0
    ignore: Annotated[tuple[str, ...], "Mount points that are not checked, as shell patterns."] = ()
    read_only_status: Annotated[
        Status, "The status when a filesystem takes no writes although it should."
    ] = LIVE_REPAIR
    errors_status: Annotated[Status, "The status when a filesystem has recorded errors."] = (
        LIVE_REPAIR
    )
    full_status: Annotated[Status, "The status when a filesystem is full."] = LIVE_REPAIR
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at each local filesystem once, however often it is mounted."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the local filesystems."""
        try:
            text = machine.read("/proc/self/mountinfo").decode(errors="surrogateescape")
            found = by_filesystem(read_mounts(text))
        except (OSError, ValueError) as err:
            yield Unknown(NAME, located_reason(err))
            return
        local = [
            mounts
            for mounts in found.values()
            if mounts[0].kind in _KINDS and not matches(mounts[0].point, self._settings.ignore)
        ]
        if not local:
            yield NotApplicable(NAME, "no local filesystem is mounted")
            return
        for mounts in sorted(local, key=lambda mounts: mounts[0].point):
            yield from self._check(machine, mounts)

    def _check(self, machine: Machine, mounts: Sequence[Mount]) -> Iterator[CheckResult]:
        point = mounts[0].point
        source = f"{NAME}:{printable(point)}"
        faults: list[Fault] = []
        unknowns: list[str] = []
        try:
            if _recorded_errors(machine, mounts[0]):
                faults.append(Fault(self._settings.errors_status, "errors recorded"))
        except (OSError, ValueError) as err:
            unknowns.append(located_reason(err))
        try:
            if any(mount.filesystem_options & _NOT_WRITABLE for mount in mounts):
                if _meant_writable(machine, mounts):
                    faults.append(Fault(self._settings.read_only_status, "read-only"))
            else:
                # What cannot be written to is in no need of room.
                full = self._full(machine, point)
                faults, unknowns = faults + full.faults, unknowns + full.unknowns
        except OSError as err:
            unknowns.append(located_reason(err))
        yield from check_results(source, faults, unknowns, self._settings.repair)

    def _full(self, machine: Machine, point: str) -> Examined:
        """Faults of a full filesystem, unknown where it is too close to decide; raises OSError."""
        found = Examined([], [])
        settings = self._settings
        space = machine.space(point)
        amounts = (
            ("blocks", space.size, space.available, settings.blocks_full),
            ("inodes", space.files, space.files_free, settings.inodes_full),
        )
        for what, all_of_them, free, limit in amounts:
            # No inodes at all: vfat, btrfs and others make them as they are needed.
            if all_of_them <= 0 and what == "inodes":
                continue
            if not 0 <= free <= all_of_them or all_of_them == 0:
                found.unknowns.append(f"the number of {what} is not plausible")
                continue
            full = above(100 - 100 * free / all_of_them, limit, settings.margin)
            if full:
                found.faults.append(Fault(settings.full_status, f"full: {what}"))
            elif full is None:
                found.unknowns.append(f"too near to the limit of {what} to decide")
        return found


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _meant_writable(machine: Machine, mounts: Sequence[Mount]) -> bool:
    """Whether the filesystem is meant to be writable; raises OSError.

    A mount that is still ``rw`` did.  So did fstab, when not even the mount is: then the root
    filesystem was never made writable, or mount(8) gave in to a read-only disk.
    """
    if any("rw" in mount.options for mount in mounts):
        return True
    try:
        text = machine.read("/etc/fstab").decode(errors="surrogateescape")
    except FileNotFoundError:
        return False
    return bool({mount.point for mount in mounts} & set(writable_in_fstab(text)))


def _recorded_errors(machine: Machine, mount: Mount) -> bool:
    """Whether ext4 has noted errors since it was last checked; raises OSError, ValueError."""
    if mount.kind not in ("ext2", "ext3", "ext4"):
        return False
    try:
        disk = machine.target(f"/sys/dev/block/{mount.device}").rsplit("/", 1)[-1]
        return number_of(machine, f"/sys/fs/ext4/{disk}/errors_count") > 0
    except FileNotFoundError:
        # Older kernels, and ext2's own driver, do not count.
        return False
