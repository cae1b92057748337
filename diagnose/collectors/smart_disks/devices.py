"""Which disks there are to be queried, and the names they keep.

Letters change from boot to boot, so a disk is named by its serial number.  The kernel read it when
it found the disk and knows it still when the disk sleeps or is dead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.block_members import LVM_MEMBER, read_members
from ganeti_steward.diagnose.collectors.shared.program_output import (
    MissingData,
    listed,
    member,
    noting_unknowns,
    optional,
    parsed,
    succeeded,
)

SMARTCTL: Final = "smartctl"

#: Disks smartctl finds by itself, by their names in ``/sys/block``.
_SCSI: Final = re.compile("sd[a-z]+")
_NVME: Final = re.compile("nvme[0-9]+n[0-9]+")

#: What smartctl prints about volumes of MegaRAID and PERC controllers, and its names of disks.
_BEHIND_MEGARAID: Final = "-d megaraid,N"
_MEGARAID: Final = re.compile(r"\bmegaraid,[0-9]+")

#: The page of a disk's vital product data that holds its serial number, and its head.
_SERIAL_PAGE: Final = 0x80
_HEAD: Final = 4


class Device(NamedTuple):
    """One disk, as smartctl has to be called for it."""

    path: str
    """``/dev/sda``; behind a raid controller ``/dev/bus/0``, the same for all its disks"""
    kind: str
    """``sat``, ``nvme``, ``megaraid,8``"""
    serial: str
    """its serial number as the kernel knows it; empty where it does not"""
    open_error: str | None = None
    """why smartctl could not open it, in its words; None where it could"""


def read_devices(machine: Machine) -> tuple[list[Device], list[str]]:
    """The disks smartctl finds, those behind raid controllers too, and what is unknown.

    Raises MissingData.
    """
    answer = parsed(succeeded(machine, SMARTCTL, "--scan-open", "-j"), SMARTCTL)
    member(answer, dict, "smartctl")
    found, unknowns = list[Device](), list[str]()
    # When it finds none, it leaves the list out.
    for row in optional(answer, list, "devices") or []:
        with noting_unknowns(unknowns):
            found.append(_device(machine, row))
    return found, unknowns


def _device(machine: Machine, row: Any) -> Device:
    path, kind = member(row, str, "name"), member(row, str, "type")
    if not path.startswith("/dev/") or not (path + kind).isprintable():
        raise MissingData("smartctl names a disk that is no device")
    return Device(path, kind, _kernel_serial(machine, path), optional(row, str, "open_error"))


def is_volume(device: Device, devices: Sequence[Device]) -> bool:
    """Whether it is a volume of a raid controller whose disks are listed by themselves.

    smartctl refuses to open such a volume, and names the devices to query instead.
    """
    is_named = _BEHIND_MEGARAID in (device.open_error or "")
    return is_named and any(_MEGARAID.search(other.kind) for other in devices)


def unlisted(machine: Machine, devices: Sequence[Device]) -> list[str]:
    """Disks the kernel has and smartctl does not find, as when they are dead; raises MissingData.

    Those on USB are left out: it knows few of their bridges.  NVMe disks and what smartctl
    queries, their controllers, need not have the same numbers.
    """
    paths = {device.path for device in devices}
    names = listed(machine, "/sys/block")
    found = [name for name in names if _SCSI.fullmatch(name) and f"/dev/{name}" not in paths]
    if not any(path.startswith("/dev/nvme") for path in paths):
        found += [name for name in names if _NVME.fullmatch(name)]
    return [name for name in found if not _is_on_usb(machine, name)]


def _is_on_usb(machine: Machine, name: str) -> bool:
    with suppress(OSError):
        return "/usb" in machine.target(f"/sys/block/{name}")
    return False


def physical_volumes(machine: Machine, device: Device) -> tuple[str, ...]:
    """LVM's physical volumes on a disk or its partitions, sorted; raises MissingData.

    Where md or something else is between, the disk is no part of a physical volume.
    """
    path = re.escape(device.path.removeprefix("/dev/"))
    # smartctl queries an NVMe disk by its controller.
    own = re.compile(rf"{path}(n[0-9]+)?(p?[0-9]+)?")
    members = read_members(machine)
    found = (one.name for one in members if one.kind == LVM_MEMBER and own.fullmatch(one.name))
    return tuple(sorted(f"/dev/{name}" for name in found))


def serial_of(answer: Any) -> str:
    """The serial number in smartctl's answer about a disk; raises MissingData."""
    return _one_word(optional(answer, str, "serial_number") or "")


def _kernel_serial(machine: Machine, path: str) -> str:
    name = path.removeprefix("/dev/")
    with suppress(OSError):
        if _SCSI.fullmatch(name):
            page = machine.read(f"/sys/block/{name}/device/vpd_pg80")
            if len(page) > _HEAD and page[1] == _SERIAL_PAGE:
                length = int.from_bytes(page[2:_HEAD], "big")
                return _one_word(page[_HEAD : _HEAD + length].decode(errors="replace"))
        controller = re.match("nvme[0-9]+", name)
        if controller:
            return _one_word(
                machine.read(f"/sys/class/nvme/{controller[0]}/serial").decode(errors="replace")
            )
    return ""


def _one_word(serial: str) -> str:
    """A serial number as a part of a source's name: visible ASCII only."""
    return re.sub("[^!-~]+", "_", serial.strip(" \0\n\t"))
