"""md arrays that should be there: those of ``mdadm.conf``, and those whose members are there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.block_members import RAID_MEMBER, read_members
from ganeti_steward.diagnose.collectors.shared.program_output import MissingData
from ganeti_steward.diagnose.collectors.shared.results import located_reason, text_of

_FILES: Final = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
_ARRAY: Final = re.compile(r"ARRAY\s+(?P<device>/dev/\S+|<ignore>)(?P<rest>.*)", re.IGNORECASE)
_UUID: Final = re.compile(r"\buuid=(\S+)", re.IGNORECASE)


class NotAssembled(NamedTuple):
    """An array that is not there."""

    name: str
    """``md0`` as configured; the UUID of one that is not configured"""
    configured: bool
    has_members: bool
    """whether disks or partitions of it are there"""


def not_assembled(machine: Machine, arrays: Sequence[str]) -> Iterator[NotAssembled]:
    """What should be there apart from the kernel's own ``arrays``; raises MissingData."""
    members = [one for one in read_members(machine) if one.kind == RAID_MEMBER and one.uuid]
    used = {one.uuid for one in members if one.used}
    unused = {one.uuid for one in members if one.own} - used
    configured = dict(_configured(machine))
    for uuid, device in configured.items():
        if not device or uuid in used or _name(machine, device) in arrays:
            continue
        yield NotAssembled(device.rsplit("/", 1)[-1], configured=True, has_members=uuid in unused)
    for uuid in sorted(unused - configured.keys()):
        yield NotAssembled(uuid, configured=False, has_members=True)


def _configured(machine: Machine) -> Iterator[tuple[str, str]]:
    """UUID and device of each array; no device of those to be ignored; raises MissingData."""
    for path in _FILES:
        try:
            text = text_of(machine, path)
        except FileNotFoundError:
            continue
        except OSError as err:
            raise MissingData(located_reason(err)) from err
        # A line that begins with a blank continues the one before.
        for line in re.sub(r"\n[ \t]+", " ", text).splitlines():
            found = _ARRAY.fullmatch(line.partition("#")[0].strip())
            uuid = _UUID.search(found["rest"]) if found else None
            if found and uuid and "container=" not in found["rest"].lower():
                device = "" if found["device"].startswith("<") else found["device"]
                yield re.sub("[^0-9a-zA-Z]", "", uuid[1]).lower(), device


def _name(machine: Machine, device: str) -> str:
    """The kernel's name of an array that is there: ``/dev/md/root`` is a link to it."""
    with suppress(OSError):
        return machine.target(device).rsplit("/", 1)[-1]
    name = device.rsplit("/", 1)[-1]
    return f"md{name}" if name.isdecimal() else name
