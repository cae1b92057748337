"""DRBD: devices of this node that lost their disk.

What a device's peers do is not this node's fault: a peer that is away is no finding here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.disk_replacement import is_replacing
from ganeti_steward.diagnose.collectors.shared.drbd_devices import (
    Device,
    Devices,
    devices_of_8,
    devices_of_9,
)
from ganeti_steward.diagnose.collectors.shared.program_output import MissingData, noting_unknowns
from ganeti_steward.diagnose.collectors.shared.results import Fault, check_results, located_reason
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status

NAME: Final = "drbd"

#: The module's own file; version 9 reports only its version there.
STATUS_FILE: Final = "/proc/drbd"

#: After an I/O error a disk goes through these, and ends without a disk.
_LOST: Final = frozenset(("Failed", "Detaching", "Diskless"))

#: States that a disk may be in or pass through while nothing is wrong with this node.
_FINE: Final = frozenset(("Attaching", "Negotiating", "Outdated", "Consistent", "UpToDate"))

_VERSION: Final = re.compile(r"version: ([0-9]+)\.")


class Settings(NamedTuple):
    """[collector.drbd]: the checks of DRBD devices."""

    disk_lost_status: Annotated[
        Status, "The status when a device has no disk on this node any more."
    ] = LIVE_REPAIR
    inconsistent_status: Annotated[
        Status,
        "The status when the content of a disk is not usable although its peer is connected, and "
        "nothing is being copied.",
    ] = LIVE_REPAIR
    standalone_status: Annotated[
        Status, "The status when a device is not connected to its peer and does not try to connect."
    ] = OK
    suspended_status: Annotated[
        Status, "The status when a device's I/O is suspended, other than by an admin."
    ] = LIVE_REPAIR
    quorum_status: Annotated[Status, "The status when a device of DRBD 9 has no quorum."] = (
        LIVE_REPAIR
    )
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at all devices and reports on all of them together."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the DRBD devices."""
        try:
            text = machine.read(STATUS_FILE).decode(errors="replace")
        except FileNotFoundError:
            yield NotApplicable(NAME, "drbd is not loaded")
            return
        except OSError as err:
            yield Unknown(NAME, located_reason(err))
            return
        faults: list[Fault] = []
        devices, unknowns = _devices(machine, text)
        replacing = any(device.disk in _LOST for device in devices) and is_replacing(machine)
        for device in devices:
            with noting_unknowns(unknowns):
                faults += self._faults(device, replacing=replacing)
        yield from check_results(NAME, faults, unknowns, self._settings.repair)

    def _faults(self, device: Device, *, replacing: bool) -> Iterator[Fault]:
        """What is wrong with one device; raises MissingData.

        Its number is left out: devices become fewer while instances are moved away, and the
        node is as broken as before.
        """
        if device.disk in _LOST:
            if replacing and device.disk != "Failed":
                raise MissingData("a device has no disk while Ganeti replaces disks")
            if not device.diskless_wanted:
                yield Fault(self._settings.disk_lost_status, "local disk lost")
        elif device.disk == "Inconsistent":
            # Without a good peer there is nothing to copy from: no fault of this node.
            if device.helped and not device.copying:
                yield Fault(self._settings.inconsistent_status, "inconsistent, nothing is copied")
        elif device.disk not in _FINE:
            raise MissingData(f"the disk state {device.disk!r} is not known")
        if device.standalone:
            yield Fault(self._settings.standalone_status, "stands alone")
        if device.suspended:
            yield Fault(self._settings.suspended_status, "I/O suspended")
        if not device.quorum:
            yield Fault(self._settings.quorum_status, "no quorum")


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _devices(machine: Machine, text: str) -> Devices:
    """The devices of whichever version is loaded."""
    version = _VERSION.match(text)
    if version is not None and version[1] == "8":
        return devices_of_8(text)
    if version is not None and version[1] == "9":
        return devices_of_9(machine)
    return Devices([], [f"{STATUS_FILE} does not begin with a version that is known"])
