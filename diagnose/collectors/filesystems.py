"""Local filesystems that fell read-only, recorded errors or are full."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, SUSPECT, CheckResult, NotApplicable
from ganeti_steward.diagnose.collectors.shared.reading import noting_unknowns, number_of
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    above,
    check_results,
    matches,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Figure, Repair, Status
from ganeti_steward.diagnose.model.machine import Machine, Space

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

#: Blanks, tabs, newlines, backslashes and # are written as three octal digits.
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")

_DEVICE: Final = re.compile(r"[0-9]+:[0-9]+")

#: Fields before the optional ones, and after the single dash behind those.
_BEFORE, _AFTER = 6, 3


class Settings(NamedTuple):
    """[collector.filesystems]: the checks of filesystems."""

    blocks_full: Annotated[
        Figure, "Percent of blocks in use, or reserved for root, at which a filesystem is full."
    ] = 98.0
    inodes_full: Annotated[Figure, "Percent of inodes in use at which a filesystem is full."] = 98.0
    margin: Annotated[
        Figure,
        "Percent by which usage must fall below these limits before a finding changes.",
    ] = 1.0
    ignore: Annotated[tuple[str, ...], "Mount points to skip (shell patterns)."] = ()
    read_only_status: Annotated[
        Status, "A filesystem is read-only although it should be writable."
    ] = LIVE_REPAIR
    errors_status: Annotated[Status, "A filesystem has recorded errors."] = LIVE_REPAIR
    full_status: Annotated[Status, "A filesystem is full."] = LIVE_REPAIR
    logs: Annotated[
        tuple[str, ...], "Mount points of filesystems that have only logs (shell patterns)."
    ] = ("/var/log", "/var/log/*")
    logs_full_status: Annotated[Status, "A filesystem of `logs` is full."] = SUSPECT
    repair: Repair = ""


class Mount(NamedTuple):
    """One line of mountinfo."""

    device: str
    """``major:minor``; the same for all mounts of one filesystem"""
    root: str
    """what of the filesystem is mounted; ``/`` for all of it"""
    point: str
    options: frozenset[str]
    """of this mount"""
    kind: str
    """``ext4``, ``xfs``, ..."""
    filesystem_options: frozenset[str]
    """of the filesystem itself, the same for all its mounts"""


class Collector(Configured[Settings]):
    """Looks at each local filesystem once, however often it is mounted."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the local filesystems."""
        text = machine.read("/proc/self/mountinfo").decode(errors="surrogateescape")
        local = [
            mounts
            for mounts in _by_filesystem(_read_mounts(text))
            if mounts[0].kind in _KINDS and not matches(mounts[0].point, self._settings.ignore)
        ]
        if not local:
            yield NotApplicable(NAME, "no local filesystem is mounted")
        for mounts in sorted(local, key=lambda mounts: mounts[0].point):
            yield from self._check(machine, mounts)

    def _check(self, machine: Machine, mounts: Sequence[Mount]) -> Iterator[CheckResult]:
        point, settings = mounts[0].point, self._settings
        faults: list[Fault] = []
        unknowns: list[str] = []
        with noting_unknowns(unknowns):
            if _recorded_errors(machine, mounts[0]):
                faults.append(Fault(settings.errors_status, "errors recorded"))
        with noting_unknowns(unknowns):
            if any(mount.filesystem_options & _NOT_WRITABLE for mount in mounts):
                if _meant_writable(machine, mounts):
                    faults.append(Fault(settings.read_only_status, "read-only"))
            else:
                # What cannot be written to is in no need of room.
                self._check_room(point, machine.space(point), faults, unknowns)
        yield from check_results(f"{NAME}:{printable(point)}", faults, unknowns, settings.repair)

    def _check_room(
        self, point: str, space: Space, faults: list[Fault], unknowns: list[str]
    ) -> None:
        """Add the faults of a full filesystem; unknown where it is too close to decide."""
        settings = self._settings
        logs = matches(point, settings.logs)
        status = settings.logs_full_status if logs else settings.full_status
        amounts = (
            ("blocks", space.size, space.available, settings.blocks_full),
            ("inodes", space.files, space.files_free, settings.inodes_full),
        )
        for what, size, free, limit in amounts:
            # No inodes at all: vfat, btrfs and others make them as they are needed.
            if size <= 0 and what == "inodes":
                continue
            if not 0 <= free <= size or size == 0:
                unknowns.append(f"the number of {what} is not plausible")
                continue
            full = above(100 - 100 * free / size, limit, settings.margin)
            if full:
                faults.append(Fault(status, f"full: {what}"))
            elif full is None:
                unknowns.append(f"too near to the limit of {what} to decide")


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
    return bool({mount.point for mount in mounts} & set(_writable_in_fstab(text)))


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


def _read_mounts(text: str) -> list[Mount]:
    """All mounts that can be seen; raises ValueError for a line of another form."""
    # The last mount on a directory is the one that answers there.
    seen = {mount.point: mount for mount in map(_mount, text.splitlines())}
    if not seen:
        raise ValueError("nothing is mounted")
    return list(seen.values())


def _mount(line: str) -> Mount:
    # Not split(): only a blank separates, and other white space may be part of a field.
    fields = line.split(" ")
    dash = fields.index("-", _BEFORE) if "-" in fields[_BEFORE:] else len(fields)
    # A filesystem without options of its own leaves the last field empty.
    if len(fields) < dash + _AFTER + 1 or not _DEVICE.fullmatch(fields[2]):
        raise ValueError("a line of mountinfo is not understood")
    point, options = _unescaped(fields[4]), frozenset(fields[5].split(","))
    if not point.startswith("/") or not options & {"ro", "rw"}:
        raise ValueError("a line of mountinfo is not understood")
    kind, filesystem_options = fields[dash + 1], frozenset(fields[dash + 3].split(","))
    return Mount(fields[2], fields[3], point, options, kind, filesystem_options)


def _unescaped(field: str) -> str:
    """A field as it was before mount table escapes."""
    return _ESCAPE.sub(lambda digits: chr(int(digits[1], 8)), field)


def _by_filesystem(mounts: Iterable[Mount]) -> Iterable[Sequence[Mount]]:
    """The mounts of each filesystem: those of all of it first, then by their paths' length."""
    grouped: dict[str, list[Mount]] = {}
    by_place = sorted(mounts, key=lambda mount: (mount.root != "/", len(mount.point), mount.point))
    for mount in by_place:
        grouped.setdefault(mount.device, []).append(mount)
    return grouped.values()


def _writable_in_fstab(text: str) -> Iterator[str]:
    """The mount points fstab does not want read-only."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3 or fields[0].startswith("#"):
            continue
        options = fields[3].split(",") if len(fields) > 3 else []
        if "ro" not in options:
            yield _unescaped(fields[1])
