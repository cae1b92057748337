"""Mounted filesystems as ``/proc/self/mountinfo`` lists them, and what ``/etc/fstab`` requires."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

#: Blanks, tabs, newlines, backslashes and # are written as three octal digits.
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")

_DEVICE: Final = re.compile(r"[0-9]+:[0-9]+")

#: Fields before the optional ones, and after the single dash behind those.
_BEFORE, _AFTER = 6, 3


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


def read_mounts(text: str) -> list[Mount]:
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
    point, options = unescaped(fields[4]), frozenset(fields[5].split(","))
    if not point.startswith("/") or not options & {"ro", "rw"}:
        raise ValueError("a line of mountinfo is not understood")
    kind, filesystem_options = fields[dash + 1], frozenset(fields[dash + 3].split(","))
    return Mount(fields[2], fields[3], point, options, kind, filesystem_options)


def unescaped(field: str) -> str:
    """A field as it was before mount table escapes."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), field)


def by_filesystem(mounts: Iterable[Mount]) -> dict[str, list[Mount]]:
    """The mounts of each filesystem: those of all of it first, then by their paths' length."""
    grouped: dict[str, list[Mount]] = {}
    for mount in sorted(mounts, key=_place):
        grouped.setdefault(mount.device, []).append(mount)
    return grouped


def _place(mount: Mount) -> tuple[bool, int, str]:
    return mount.root != "/", len(mount.point), mount.point


def writable_in_fstab(text: str) -> Iterator[str]:
    """The mount points fstab does not want read-only."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3 or fields[0].startswith("#"):
            continue
        options = fields[3].split(",") if len(fields) > 3 else []
        if "ro" not in options:
            yield unescaped(fields[1])
