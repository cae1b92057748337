"""Disks and partitions that belong to something larger, as udev found when they appeared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.diagnose.collectors.shared.reading import (
    leaving_out_what_is_gone,
    listed_if_there,
    text_of,
)
from ganeti_steward.diagnose.model.machine import Machine

RAID_MEMBER: Final = "linux_raid_member"
LVM_MEMBER: Final = "LVM2_member"

_BLOCK: Final = "/sys/class/block"
_PROPERTY: Final = re.compile(r"^E:(ID_FS_TYPE|ID_FS_UUID)=(.*)$", re.MULTILINE)

#: A node's own disks, md arrays and their partitions; others hold the disks of instances.
_OWN: Final = re.compile(r"(?:sd|vd|xvd|hd)[a-z]+[0-9]*|(?:nvme|mmcblk)[0-9].*|md.*")


class Member(NamedTuple):
    """A block device with a signature of something larger."""

    name: str
    uuid: str
    """that of the md array, as hexadecimal digits; of LVM that of the physical volume"""
    used: bool
    """whether another block device is made of it now"""
    own: bool
    """whether it is one of the node, not the disk of an instance"""


def read_members(machine: Machine, kind: str) -> Iterator[Member]:
    """All of one kind that udev knows; raises OSError, MissingData.

    What goes away meanwhile is left out.
    """
    for name in listed_if_there(machine, _BLOCK):
        with leaving_out_what_is_gone():
            number = text_of(machine, f"{_BLOCK}/{name}/dev")
            properties = dict(_PROPERTY.findall(text_of(machine, f"/run/udev/data/b{number}")))
            if properties.get("ID_FS_TYPE") == kind:
                uuid = re.sub("[^0-9a-zA-Z]", "", properties.get("ID_FS_UUID", ""))
                own = _OWN.fullmatch(name) is not None
                yield Member(name, uuid.lower(), _is_used(machine, name), own)


def _is_used(machine: Machine, name: str) -> bool:
    """Raises OSError."""
    with suppress(FileNotFoundError):
        return bool(machine.listing(f"{_BLOCK}/{name}/holders"))
    return False
