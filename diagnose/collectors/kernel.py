"""The kernel's log of the last days: failing hardware, damaged filesystems, hangs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.config.kinds import TEXTS, Kind
from ganeti_steward.core.json_reader import printable, quoted
from ganeti_steward.core.model.finding import (
    LIVE_REPAIR,
    OK,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
)
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.kernel_messages import (
    KINDS,
    RULE,
    Sign,
    kind_of_rule,
    read_record,
    sign_in,
)
from ganeti_steward.diagnose.collectors.shared.kernel_messages import Kind as MessageKind
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


#: Of these one message alone means little.
_COUNTED: Final = ("io", "ata")


def _rules_fault(value: Any) -> str:
    if fault := TEXTS.fault(value):
        return fault
    for rule in value:
        try:
            kind_of_rule(rule)
        except ValueError as err:
            return f"{quoted(rule)} {err}"
    return ""


#: The kind of the key ``rules``.
RULES: Final = Kind(_rules_fault, "list of `SOURCE=FAULT=PATTERN`")


class Settings(NamedTuple):
    """[collector.kernel]: the checks of the log of the kernel."""

    window: Annotated[
        Figure, "Hours after which a message does not count any more; 0 for never."
    ] = 48.0
    io_errors: Annotated[
        Count,
        "Messages about I/O errors of one device, or an ATA link, that make a fault; more than "
        "half as many are neither a fault nor Ok.",
    ] = 5
    ignore: Annotated[
        tuple[str, ...], "Devices whose messages do not count, as shell patterns."
    ] = (
        *("fd*", "sr*", "loop*", "nbd*", "ram*", "zram*"),
        # Of these the disks are elsewhere, or devices of instances.
        *("rbd*", "drbd*", "tap*", "vif*", "gnt.*"),
    )
    rules: Annotated[
        tuple[str, ...],
        RULES,
        'More messages that are faults: "SOURCE=FAULT=PATTERN", the pattern a regular expression '
        "that fits the beginning of the message. DEVICE in it stands for the name of a device, "
        "which then takes the place of SOURCE.",
    ] = ()
    rule_status: Annotated[Status, "The status after a message of rules."] = LIVE_REPAIR
    machine_check_status: Annotated[Status, "The status after an uncorrected machine check."] = (
        LIVE_REPAIR
    )
    memory_status: Annotated[Status, "The status after an uncorrected memory error."] = LIVE_REPAIR
    pci_status: Annotated[Status, "The status after a fatal PCI Express error."] = LIVE_REPAIR
    nvme_status: Annotated[Status, "The status after the failure of an NVMe controller."] = (
        LIVE_REPAIR
    )
    io_status: Annotated[Status, "The status after many I/O errors of a device."] = LIVE_REPAIR
    ata_status: Annotated[Status, "The status after an ATA link was frozen many times."] = (
        LIVE_REPAIR
    )
    drbd_status: Annotated[Status, "The status after I/O errors of a local disk of DRBD."] = (
        LIVE_REPAIR
    )
    hba_status: Annotated[Status, "The status after the failure of a disk controller."] = (
        LIVE_REPAIR
    )
    netdev_status: Annotated[
        Status, "The status after an interface did not send for some seconds."
    ] = LIVE_REPAIR
    oops_status: Annotated[Status, "The status after an error of the kernel itself."] = LIVE_REPAIR
    rcu_status: Annotated[Status, "The status after an RCU stall."] = LIVE_REPAIR
    filesystem_status: Annotated[Status, "The status after errors of a filesystem."] = LIVE_REPAIR
    hung_status: Annotated[Status, "The status after a hung task."] = OK
    lockup_status: Annotated[Status, "The status after a soft or hard lockup."] = OK
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Reads the kernel's log, as far back as it goes and as the window allows."""

    CONFIG = Settings

    def configure(self, settings: Settings) -> None:
        """``settings``: the section of the configuration."""
        super().configure(settings)
        self._kinds = (*KINDS, *map(kind_of_rule, settings.rules))

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
            signs, unknowns = _signs(records, self._since(machine), self._kinds)
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
            "ata": settings.ata_status,
            "drbd": settings.drbd_status,
            "hba": settings.hba_status,
            "netdev": settings.netdev_status,
            "oops": settings.oops_status,
            "rcu": settings.rcu_status,
            RULE: settings.rule_status,
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
            if sign.family not in _COUNTED or count >= settings.io_errors:
                found.setdefault(sign.about, ([], []))[0].append(Fault(status, sign.fault))
            # As messages leave the window and others come, their number swings about the limit.
            elif count > settings.io_errors / 2:
                found.setdefault(sign.about, ([], []))[1].append(f"some messages: {sign.fault}")
        return found


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _signs(
    records: Sequence[str], since: float, kinds: Sequence[MessageKind]
) -> tuple[Counter[Sign], list[str]]:
    """What the messages mean, each with the number of messages, and unknowns."""
    signs: Counter[Sign] = Counter()
    unknowns: list[str] = [] if records else ["the log of the kernel is empty"]
    for record in records:
        try:
            message = read_record(record)
        except ValueError as err:
            unknowns = [str(err)]
            continue
        sign = sign_in(message.text, kinds) if message and message.microseconds >= since else None
        if sign:
            signs[sign] += 1
    return signs, unknowns
