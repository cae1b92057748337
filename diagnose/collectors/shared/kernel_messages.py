"""Records of the kernel's log, and which of its messages mean that hardware fails."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Final, NamedTuple

#: ``priority,sequence,microseconds,flags[,...];text``, then lines of details.
_RECORD: Final = re.compile(
    r"([0-9]{1,9}),[0-9]{1,20},([0-9]{1,20}),[^;\n]*;([^\n]*)(?:\n.*)?", re.DOTALL
)

#: A priority is eight times the facility and the level; 0 is the kernel's own facility.
_KERNEL: Final = 0
#: Warnings and worse.
_WORST: Final = 4

#: A device or a filesystem's device in a message.
_DEVICE: Final = r"(?P<device>[A-Za-z0-9_!:.-]+)"


#: The family of the kinds that admins add.
RULE: Final = "rule"


class Message(NamedTuple):
    """One message of the kernel's own."""

    microseconds: int
    """since the node was started"""
    text: str


class Kind(NamedTuple):
    """A kind of message that means something."""

    family: str
    """kinds that have one status"""
    about: str
    """what is broken, where the message names no device"""
    fault: str
    pattern: re.Pattern[str]


class Sign(NamedTuple):
    """What one message means."""

    family: str
    about: str
    fault: str
    names_device: bool


def read_record(record: str) -> Message | None:
    """A warning or worse of the kernel; None for others; raises ValueError."""
    found = _RECORD.fullmatch(record)
    if not found:
        raise ValueError("a record of the kernel's log is not understood")
    facility, level = divmod(int(found[1]), 8)
    # Programs may write here too, but not in the kernel's name.
    if facility != _KERNEL or level > _WORST:
        return None
    return Message(int(found[2]), found[3])


def sign_in(text: str, kinds: Iterable[Kind]) -> Sign | None:
    """What a message means by the first kind that fits; None for nothing."""
    for kind in kinds:
        found = kind.pattern.match(text)
        if found:
            device = found.groupdict().get("device")
            return Sign(kind.family, device or kind.about, kind.fault, device is not None)
    return None


def kind_of_rule(rule: str) -> Kind:
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
    return Kind(RULE, about, fault, compiled)


def _kinds(family: str, about: str, faults: Iterable[tuple[str, str]]) -> tuple[Kind, ...]:
    return tuple(
        Kind(family, about, fault, re.compile(pattern.replace("DEVICE", _DEVICE)))
        for fault, pattern in faults
    )


#: Where a message starts is part of its pattern: further on, names of processes and of files
#: may stand, which are anybody's.
KINDS: Final = (
    *_kinds(
        "machine check",
        "cpu",
        [
            # Bit 61 of the bank's status is set for an error that was not corrected.
            (
                "uncorrected machine check",
                r"mce: \[Hardware Error\]: CPU [0-9]+: Machine Check.* Bank [0-9]+: "
                r"[2367abef][0-9a-f]{15}$",
            ),
            (
                "uncorrected machine check",
                r"\[Hardware Error\]: (?:Uncorrected, software \w+ error|System Fatal error)\.",
            ),
            (
                "uncorrected error reported by the firmware",
                r"(?:\{[0-9]+\})?\[Hardware Error\]:\s+event severity: (?:fatal|recoverable)$",
            ),
        ],
    ),
    *_kinds(
        "memory",
        "memory",
        [
            ("uncorrected memory error", r"EDAC \w+: (?:[0-9]+ )?UE "),
            ("uncorrected memory error", r"Memory failure: 0x[0-9a-f]+: "),
            ("uncorrected memory error", r"mce: Uncorrected hardware memory error in "),
        ],
    ),
    *_kinds(
        "pci",
        "pci",
        [
            (
                "fatal PCI Express error",
                r"\S+ DEVICE: AER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\) error",
            )
        ],
    ),
    *_kinds(
        "nvme",
        "nvme",
        [
            ("controller failed", r"nvme DEVICE: controller is down; will reset"),
            ("controller failed", r"nvme DEVICE: Removing after probe failure"),
            ("controller failed", r"nvme DEVICE: Disabling device after reset failure"),
            ("controller failed", r"nvme DEVICE: Device not ready; aborting "),
        ],
    ),
    *_kinds(
        "io",
        "disk",
        [
            (
                "I/O errors",
                r"(?:blk_update_request: |print_req_error: )?"
                r"(?:I/O|critical medium|timeout|protection|device offline) error, dev DEVICE,",
            ),
        ],
    ),
    *_kinds(
        "filesystem",
        "filesystem",
        [
            ("filesystem errors", r"EXT4-fs error \(device DEVICE\)"),
            ("filesystem errors", r"EXT4-fs \(DEVICE\): Remounting filesystem read-only"),
            (
                "filesystem errors",
                r"XFS \(DEVICE\): (?:Metadata corruption detected|Metadata CRC error detected"
                r"|Corruption (?:of in-memory data|detected)|.*[Ss]hutting down filesystem"
                r"|Filesystem has been shut down|log I/O error)",
            ),
            (
                "filesystem errors",
                r"BTRFS(?:: error| error| critical|: critical) \(device DEVICE(?: state \w+)?\)",
            ),
        ],
    ),
    *_kinds(
        "hung",
        "tasks",
        [("hung tasks", r"INFO: task .* blocked (?:in I/O wait )?for more than [0-9]+ seconds")],
    ),
    *_kinds(
        "lockup",
        "cpu",
        [
            ("soft lockup", r"(?:NMI )?(?:watchdog: )?BUG: soft lockup - CPU#[0-9]+ stuck for "),
            ("hard lockup", r"(?:NMI )?watchdog: Watchdog detected hard LOCKUP on cpu "),
        ],
    ),
    *_kinds(
        "rcu",
        "cpu",
        [
            (
                "RCU stall",
                r"(?:rcu: )?INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stalls? on CPU",
            )
        ],
    ),
    *_kinds(
        "oops",
        "kernel",
        [
            ("kernel oops", r"BUG: (?:kernel NULL pointer dereference|unable to handle )"),
            ("kernel oops", r"(?:Internal error: )?Oops: "),
            # Other processors than those of x86.
            ("kernel oops", r"Unable to handle kernel "),
            ("kernel oops", r"(?:kernel BUG at |general protection fault)"),
        ],
    ),
    *_kinds(
        "netdev",
        "network",
        [
            ("transmit queue timed out", r"NETDEV WATCHDOG: DEVICE \("),
            ("transmit queue timed out", r"\S+ \S+ DEVICE: NETDEV WATCHDOG: "),
        ],
    ),
    *_kinds(
        "hba",
        "hba",
        [
            ("controller failed", r"megaraid_sas DEVICE: (?:Found FW in FAULT state|.*crit error)"),
            ("controller failed", r"(?P<device>mpt[23]sas_cm[0-9]+): fault_state\("),
            ("controller failed", r"hpsa DEVICE: [Cc]ontroller lockup detected"),
            ("controller failed", r"smartpqi DEVICE: controller (?:is )?offline"),
            ("controller failed", r"aacraid: Host (?:adapter|bus) (?:is )?(?:dead|reset request)"),
            ("controller failed", r"qla2xxx \[DEVICE\]-\w+:[0-9]+: ISP System Error"),
        ],
    ),
    *_kinds(
        "ata",
        "ata",
        [("ATA link frozen", r"(?P<device>ata[0-9]+(?:\.[0-9]+)?): exception Emask .* frozen")],
    ),
    *_kinds(
        "drbd",
        "drbd",
        [
            (
                "I/O errors of local disks",
                r"(?:block|drbd \S+) (?:\S+: )?drbd[0-9]+: "
                r"(?:local [A-Z ]+ IO error|Local IO failed in )",
            )
        ],
    ),
)
