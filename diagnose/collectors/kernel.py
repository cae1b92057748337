"""The kernel's log of the last days: failing hardware, damaged filesystems, hangs."""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.config import kinds
from ganeti_steward.core.json_reader import printable, quoted
from ganeti_steward.core.model.finding import (
    LIVE_REPAIR,
    OK,
    SUSPECT,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
)
from ganeti_steward.diagnose.collectors.shared.reading import text_of
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    check_results,
    matches,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    Configured,
    Count,
    Figure,
    Repair,
    Status,
)
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "kernel"

_UPTIME: Final = re.compile(r"([0-9]{1,12}\.[0-9]+) [0-9.]+")

#: ``priority,sequence,microseconds,flags[,...];text``, then lines of details.
_RECORD: Final = re.compile(
    r"([0-9]{1,9}),[0-9]{1,20},([0-9]{1,20}),[^;\n]*;([^\n]*)(?:\n.*)?", re.DOTALL
)

#: Priorities of the kernel's own warnings and worse; programs, which may write to the log too, have
#: 8 and more.
_WARNING: Final = 4
#: The kernel reports some fatal errors as mere information.
_INFORMATION: Final = 6

#: A device or a filesystem's device in a message.
_DEVICE: Final = r"(?P<device>[A-Za-z0-9_!:.-]+)"

#: Of these one message alone means little.
_COUNTED: Final = ("io", "ata")
#: The family of errors that were corrected: only their rate means something.
_CORRECTED: Final = "corrected"


class MessageKind(NamedTuple):
    """A kind of message that means something."""

    family: str
    """kinds that have one status: that of the key ``FAMILY_status``"""
    about: str
    """what is broken, where the message names no device"""
    fault: str
    pattern: re.Pattern[str]
    priority: int = _WARNING
    """up to which a message counts"""


#: Patterns by family, by what is broken where they name no device, and by fault.  Where a message
#: starts is part of its pattern: further on, names of processes and of files may stand, which are
#: anybody's.  Each word of a pattern is in a message of Debian's kernels 6.1 or 6.12: the messages
#: are in ``tests/data/diagnose/kernel/messages.toml``.
_PATTERNS: Final[Mapping[tuple[str, str, str], tuple[str, ...]]] = {
    ("machine_check", "cpu", "uncorrected machine check"): (
        # Bit 61 of the bank's status is set for an error that was not corrected.
        r"mce: \[Hardware Error\]: CPU [0-9]+: Machine Check.* Bank [0-9]+: "
        r"[2367abef][0-9a-f]{15}$",
        r"\[Hardware Error\]: (?:Uncorrected, software \w+ error|System Fatal error)\.",
    ),
    (_CORRECTED, "cpu", "many corrected machine checks"): (
        r"mce: \[Hardware Error\]: CPU [0-9]+: Machine Check: 0 Bank [0-9]+: [89cd][0-9a-f]{15}$",
        r"\[Hardware Error\]: Corrected error, no action required\.",
    ),
    # With a number before it.  What has none is about the crash before this boot.
    (_CORRECTED, "firmware", "many corrected errors reported by the firmware"): (
        r"\{[0-9]+\}\[Hardware Error\]: event severity: corrected$",
    ),
    ("memory", "memory", "uncorrected memory error"): (
        r"EDAC MC[0-9]+: [0-9]+ UE ",
        r"Memory failure: 0x[0-9a-f]+: ",
        r"mce: Uncorrected hardware memory error in ",
    ),
    ("pci", "pci", "fatal PCI Express error"): (
        # The device with the error; its port has the message that is below.
        r"\S+ DEVICE: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\),",
    ),
    ("nvme", "nvme", "controller failed"): (
        r"nvme DEVICE: controller is down; will reset",
        r"nvme DEVICE: Removing after probe failure",
        r"nvme DEVICE: Disabling device after reset failure",
        r"nvme DEVICE: Device not ready; aborting ",
        r"nvme DEVICE: I/O .* timeout, disable controller",
    ),
    ("nvme", "nvme", "controller reset"): (
        r"nvme DEVICE: I/O .* timeout, reset controller",
        r"nvme DEVICE: frozen state error detected, reset controller",
    ),
    ("io", "nvme", "commands timed out"): (
        r"nvme DEVICE: I/O .* timeout, (?:aborting|completion polled)",
    ),
    ("io", "disk", "I/O errors"): (
        r"(?:I/O|critical medium|timeout|protection|device offline) error, dev DEVICE,",
    ),
    ("filesystem", "filesystem", "filesystem errors"): (
        r"EXT4-fs error \(device DEVICE\)",
        r"EXT4-fs \(DEVICE\): Remounting filesystem read-only",
        r"XFS \(DEVICE\): (?:Metadata (?:corruption|CRC error) detected|Corruption detected"
        r"|.*Shutting down filesystem|Filesystem has been shut down|log I/O error)",
        r"BTRFS(?:: error| error| critical) \(device DEVICE(?: state \w+)?\)",
    ),
    ("hung", "tasks", "hung tasks"): (r"INFO: task .* blocked for more than [0-9]+ seconds",),
    ("lockup", "cpu", "soft lockup"): (r"watchdog: BUG: soft lockup - CPU#[0-9]+ stuck for ",),
    ("lockup", "cpu", "hard lockup"): (
        r"(?:NMI )?watchdog: Watchdog detected hard LOCKUP on cpu ",
    ),
    ("rcu", "cpu", "RCU stall"): (
        r"rcu: INFO: rcu_\w+ (?:self-detected stall|detected (?:expedited )?stalls) on CPU",
    ),
    ("oops", "kernel", "kernel oops"): (
        r"BUG: (?:kernel NULL pointer dereference|unable to handle page fault)",
        r"Oops: ",
        # Before 6.12 these stand alone.
        r"(?:general protection fault|divide error|invalid opcode|stack segment)"
        r"(?:, [\w -]+)?: [0-9a-f]{4} \[#",
        # Other processors than those of x86.
        r"Unable to handle kernel ",
        r"Internal error: Oops",
        r"kernel BUG at ",
    ),
    ("netdev", "network", "transmit queue timed out"): (
        # Behind the driver and, if the interface is named, its device.
        r"(?:\S+ ){0,2}DEVICE: (?:NETDEV WATCHDOG: |Detected (?:Hardware|Tx) Unit Hang"
        r"|TX timeout (?:detected|on queue: )|Detected Tx timeout: |transmit timed out, resetting"
        r"|initiating reset due to tx timeout)",
    ),
    ("netdev", "network", "adapter failed"): (
        r"\S+ (?:\S+ )?DEVICE: (?:tx_timeout recovery unsuccessful"
        r"|Detected firmware fatal condition|encountered fatal error, adapter stopped)",
        r"mlx5_core DEVICE: \w+:[0-9]+:\(pid [0-9]+\): "
        r"(?:Fatal error [0-9]+ detected|device's health compromised)",
    ),
    ("hba", "hba", "controller failed"): (
        r"megaraid_sas DEVICE: (?:FW in FAULT state|Controller in crit error"
        r"|Hardware critical error|Reset not supported, killing adapter)",
        r"(?P<device>mpt[23]sas_cm[0-9]+): "
        r"(?:fault_state\(|coredump_state\(|SAS host is non-operational)",
        r"hpsa DEVICE: Controller lockup detected: ",
        r"smartpqi DEVICE: controller offline",
        r"aacraid: Host (?:adapter is dead|adapter BLINK LED|bus reset request)",
        r"qla2xxx \[DEVICE\]-\w+:[0-9]+: ISP System Error",
    ),
    ("hba", "hba", "controller reset"): (
        r"megaraid_sas DEVICE: (?:resetting fusion adapter|pending commands remain after waiting)",
    ),
    ("ata", "ata", "ATA link frozen"): (
        r"(?P<device>ata[0-9]+(?:\.[0-9]+)?): exception Emask .* frozen",
    ),
    ("drbd", "drbd", "I/O errors of local disks"): (
        r"(?:block|drbd \S+) drbd[0-9]+: (?:local [A-Z]+ IO error|Local IO failed in )",
    ),
}

#: The same for what the kernel also logs with a lower priority than warnings.
_INFORMING: Final[Mapping[tuple[str, str, str], tuple[str, ...]]] = {
    # Also of the crash before this boot (BERT), which has this priority.
    ("machine_check", "cpu", "uncorrected error reported by the firmware"): (
        r"(?:\{[0-9]+\})?\[Hardware Error\]: event severity: (?:fatal|recoverable)$",
    ),
    ("pci", "pci", "fatal PCI Express error"): (
        r"\S+ DEVICE: AER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\) error message received",
    ),
}

KINDS: Final = tuple(
    MessageKind(*names, re.compile(pattern.replace("DEVICE", _DEVICE)), priority)
    for table, priority in ((_PATTERNS, _WARNING), (_INFORMING, _INFORMATION))
    for names, patterns in table.items()
    for pattern in patterns
)


def _kind_of_rule(rule: str) -> MessageKind:
    """The kind in a rule ``SOURCE=FAULT=PATTERN``; raises ValueError."""
    about, first, rest = rule.partition("=")
    fault, second, pattern = rest.partition("=")
    if not (first and second and about and fault and pattern and rule.isprintable()):
        raise ValueError("is not of the form SOURCE=FAULT=PATTERN")
    try:
        # What such a warning is about is taken as it was written.
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            compiled = re.compile(pattern.replace("DEVICE", _DEVICE, 1))
    except (re.error, OverflowError, RecursionError) as err:
        raise ValueError(f"has no regular expression behind the second =: {err}") from None
    return MessageKind("rule", about, fault, compiled)


def _rules_fault(value: Any) -> str:
    if fault := kinds.TEXTS.fault(value):
        return fault
    for rule in value:
        try:
            _kind_of_rule(rule)
        except ValueError as err:
            return f"{quoted(rule)} {err}"
    return ""


#: The kind of the key ``rules``.
RULES: Final = kinds.ValueKind(_rules_fault, "list of `SOURCE=FAULT=PATTERN`")


class Settings(NamedTuple):
    """[collector.kernel]: the checks of the log of the kernel."""

    window: Annotated[Figure, "Hours after which a message is ignored; 0 for never."] = 48.0
    io_errors: Annotated[
        Count,
        "I/O errors or time-outs of one device or ATA link that make a fault; above half of that "
        "the result is neither a fault nor Ok.",
    ] = 5
    corrected_above: Annotated[
        Count,
        "Messages about corrected errors of firmware or processors that are accepted; above half "
        "of that the result is neither a fault nor Ok.",
    ] = 50
    corrected_within: Annotated[
        float, kinds.number(0.1, 8760), "Hours in which these messages are counted."
    ] = 24.0
    ignore: Annotated[tuple[str, ...], "Devices whose messages are ignored (shell patterns)."] = (
        *("fd*", "sr*", "loop*", "nbd*", "ram*", "zram*"),
        # Of these the disks are elsewhere, or devices of instances.
        *("rbd*", "drbd*", "tap*", "vif*", "gnt.*"),
    )
    rules: Annotated[
        tuple[str, ...],
        RULES,
        'More faults: "SOURCE=FAULT=PATTERN", where PATTERN is a regular expression for the '
        "beginning of the message. DEVICE in it matches a device name, which then replaces "
        "SOURCE.",
    ] = ()
    rule_status: Annotated[Status, "A message matches one of `rules`."] = LIVE_REPAIR
    machine_check_status: Annotated[Status, "Uncorrected machine check."] = LIVE_REPAIR
    corrected_status: Annotated[
        Status,
        "More than corrected-above messages about corrected errors within corrected-within hours.",
    ] = SUSPECT
    memory_status: Annotated[Status, "Uncorrected memory error."] = LIVE_REPAIR
    pci_status: Annotated[Status, "Fatal PCI Express error."] = LIVE_REPAIR
    nvme_status: Annotated[Status, "Failure or reset of an NVMe controller."] = LIVE_REPAIR
    io_status: Annotated[Status, "Many I/O errors or time-outs of a device."] = LIVE_REPAIR
    ata_status: Annotated[Status, "An ATA link was frozen many times."] = LIVE_REPAIR
    drbd_status: Annotated[Status, "I/O errors of a local disk of DRBD."] = LIVE_REPAIR
    hba_status: Annotated[Status, "Failure or reset of a disk controller."] = LIVE_REPAIR
    netdev_status: Annotated[
        Status,
        "An interface did not send for some seconds, or its adapter failed.",
    ] = LIVE_REPAIR
    oops_status: Annotated[Status, "Error in the kernel itself."] = LIVE_REPAIR
    rcu_status: Annotated[Status, "RCU stall."] = LIVE_REPAIR
    filesystem_status: Annotated[Status, "Errors of a filesystem."] = LIVE_REPAIR
    hung_status: Annotated[Status, "Hung task."] = OK
    lockup_status: Annotated[Status, "Soft or hard lockup."] = OK
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Reads the kernel's log, as far back as it goes and as the window allows."""

    CONFIG = Settings

    def configure(self, settings: Settings) -> None:
        """``settings``: the section of the configuration."""
        super().configure(settings)
        self._kinds = (*KINDS, *map(_kind_of_rule, settings.rules))

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What the kernel logged lately."""
        try:
            records = machine.kernel_log()
        except FileNotFoundError:
            yield NotApplicable(NAME, "there is no log of the kernel here")
            return
        unknowns = set() if records else {"the log of the kernel is empty"}
        signs = Counter(self._signs(records, machine, unknowns))
        broken = self._examined(signs)
        for about, examined in sorted(broken.items()):
            yield from check_results(f"{NAME}:{printable(about)}", *examined, self._settings.repair)
        if unknowns:
            yield Unknown(NAME, "; ".join(unknowns))
        elif not any(examined.faults for examined in broken.values()):
            yield Finding(NAME, OK)

    def _since(self, machine: Machine) -> tuple[float, float]:
        """Microseconds since the start from which on messages count; raises OSError, ValueError.

        The second is of those about corrected errors.
        """
        settings = self._settings
        hours = [settings.window, settings.corrected_within]
        if settings.corrected_status == OK:
            hours[1] = hours[0]
        if not any(hours):
            return 0, 0
        uptime = _UPTIME.fullmatch(text_of(machine, "/proc/uptime"))
        if not uptime:
            raise ValueError("/proc/uptime is not understood")
        first, second = ((float(uptime[1]) - one * 3600) * 1e6 if one else 0 for one in hours)
        return first, second

    def _signs(
        self, records: Iterable[str], machine: Machine, unknowns: set[str]
    ) -> Iterator[tuple[str, str, str]]:
        """Family, what is broken and fault, of each message that means something.

        Raises OSError, ValueError.
        """
        since, corrected_since = self._since(machine)
        for record in records:
            fields = _RECORD.fullmatch(record)
            if not fields:
                unknowns.add("a record of the kernel's log is not understood")
            elif int(fields[1]) <= _INFORMATION and int(fields[2]) >= min(since, corrected_since):
                sign = self._sign(int(fields[1]), fields[3])
                after = corrected_since if sign and sign[0] == _CORRECTED else since
                if sign and int(fields[2]) >= after:
                    yield sign

    def _sign(self, priority: int, text: str) -> tuple[str, str, str] | None:
        """What one message means by the first kind that fits; None for nothing."""
        for kind in self._kinds:
            if priority <= kind.priority and (match := kind.pattern.match(text)):
                device = match.groupdict().get("device")
                if device and matches(device, self._settings.ignore):
                    return None
                return kind.family, device or kind.about, kind.fault
        return None

    def _examined(self, signs: Mapping[tuple[str, str, str], int]) -> dict[str, Examined]:
        """Faults and unknowns by what is broken, without those that need no action."""
        settings = self._settings
        broken: dict[str, Examined] = defaultdict(lambda: Examined([], []))
        for (family, about, fault), count in signs.items():
            status = getattr(settings, f"{family}_status")
            if status == OK:
                continue
            limit = 1
            if family in _COUNTED:
                limit = settings.io_errors
            elif family == _CORRECTED:
                limit = settings.corrected_above + 1
            if count >= limit:
                broken[about].faults.append(Fault(status, fault))
            # As messages leave the window and others come, their number swings about the limit.
            elif count > limit / 2:
                broken[about].unknowns.append(f"some messages: {fault}")
        return broken


#: What is loaded: a class is made into an object.
plugin: Final = Collector
