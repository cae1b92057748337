"""The kernel's log of the last days: machine checks, I/O errors, damaged filesystems, hangs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import (
    LIVE_REPAIR,
    OK,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
)
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.kernel_messages import Sign, read_record, sign_in
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    located_reason,
    matches,
    text_of,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    Configured,
    Count,
    Figure,
    Repair,
    Status,
)

NAME: Final = "kernel"

_UPTIME: Final = re.compile(r"([0-9]{1,12}\.[0-9]+) [0-9.]+")


class Settings(NamedTuple):
    """[collector.kernel]: the checks of the log of the kernel."""

    window: Annotated[
        Figure, "Hours after which a message does not count any more; 0 for never."
    ] = 48.0
    io_errors: Annotated[
        Count,
        "Messages about I/O errors of one device that make a fault; more than half as many are "
        "neither a fault nor Ok.",
    ] = 5
    ignore: Annotated[
        tuple[str, ...], "Devices whose messages do not count, as shell patterns."
    ] = ("fd*", "sr*", "loop*", "nbd*", "ram*", "zram*")
    machine_check_status: Annotated[Status, "The status after an uncorrected machine check."] = (
        LIVE_REPAIR
    )
    memory_status: Annotated[Status, "The status after an uncorrected memory error."] = LIVE_REPAIR
    pci_status: Annotated[Status, "The status after a fatal PCI Express error."] = LIVE_REPAIR
    nvme_status: Annotated[Status, "The status after the failure of an NVMe controller."] = (
        LIVE_REPAIR
    )
    io_status: Annotated[Status, "The status after many I/O errors of a device."] = LIVE_REPAIR
    filesystem_status: Annotated[Status, "The status after errors of a filesystem."] = LIVE_REPAIR
    hung_status: Annotated[Status, "The status after a hung task."] = OK
    lockup_status: Annotated[Status, "The status after a soft or hard lockup."] = OK
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Reads the kernel's log, as far back as it goes and as the window allows."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What the kernel logged lately."""
        try:
            records = machine.kernel_log()
        except FileNotFoundError:
            yield NotApplicable(NAME, "there is no log of the kernel here")
            return
        except OSError as err:
            yield Unknown(NAME, located_reason(err))
            return
        try:
            signs, unknowns = _signs(records, self._since(machine))
        except (OSError, ValueError) as err:
            yield Unknown(NAME, located_reason(err))
            return
        found = self._found(signs)
        for about, (faults, unsure) in sorted(found.items()):
            yield from check_results(
                f"{NAME}:{printable(about)}", faults, unsure, self._settings.repair
            )
        if unknowns:
            yield Unknown(NAME, "; ".join(unknowns))
        elif not any(faults for faults, _ in found.values()):
            yield Finding(NAME, OK)

    def _since(self, machine: Machine) -> float:
        """Microseconds since the start from which on messages count; raises OSError, ValueError."""
        if not self._settings.window:
            return 0
        found = _UPTIME.fullmatch(text_of(machine, "/proc/uptime"))
        if not found:
            raise ValueError("/proc/uptime is not understood")
        return (float(found[1]) - self._settings.window * 3600) * 1e6

    def _found(self, signs: Mapping[Sign, int]) -> dict[str, tuple[list[Fault], list[str]]]:
        """Faults and unknowns by what is broken, without those that need no action."""
        settings = self._settings
        statuses = {
            "machine check": settings.machine_check_status,
            "memory": settings.memory_status,
            "pci": settings.pci_status,
            "nvme": settings.nvme_status,
            "io": settings.io_status,
            "filesystem": settings.filesystem_status,
            "hung": settings.hung_status,
            "lockup": settings.lockup_status,
        }
        found: dict[str, tuple[list[Fault], list[str]]] = {}
        for sign, count in signs.items():
            status = statuses[sign.family]
            ignored = sign.names_device and matches(sign.about, settings.ignore)
            if status == OK or ignored:
                continue
            if sign.family != "io" or count >= settings.io_errors:
                found.setdefault(sign.about, ([], []))[0].append(Fault(status, sign.fault))
            # As messages leave the window and others come, their number swings about the limit.
            elif count > settings.io_errors / 2:
                found.setdefault(sign.about, ([], []))[1].append("some I/O errors")
        return found


def _signs(records: Sequence[str], since: float) -> tuple[Counter[Sign], list[str]]:
    """What the messages mean, each with the number of messages, and unknowns."""
    signs: Counter[Sign] = Counter()
    unknowns: list[str] = [] if records else ["the log of the kernel is empty"]
    for record in records:
        try:
            message = read_record(record)
        except ValueError as err:
            unknowns = [str(err)]
            continue
        sign = sign_in(message.text) if message and message.microseconds >= since else None
        if sign:
            signs[sign] += 1
    return signs, unknowns
