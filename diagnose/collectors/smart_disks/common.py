"""What the checks of ATA, NVMe and SCSI disks share: thresholds, exit status, wear."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import Any, NamedTuple

from ganeti_steward.core.model.finding import LIVE_REPAIR, OK
from ganeti_steward.diagnose.collectors.shared.program_output import member
from ganeti_steward.diagnose.collectors.shared.results import Fault


class Settings(NamedTuple):
    """[collector.smart]; a value equal to an ``above`` threshold is still allowed."""

    failing_status: str = LIVE_REPAIR
    """the disk itself reports that it fails, or soon will"""
    past_status: str = OK
    """it reported so for an attribute in the past, or for one that only counts use"""
    reallocated_above: int = 100
    """sectors an ATA disk replaced by spare ones"""
    reallocated_status: str = LIVE_REPAIR
    pending_above: int = 10
    """sectors an ATA disk could not read and has not replaced yet"""
    pending_status: str = LIVE_REPAIR
    uncorrectable_above: int = 10
    """sectors an ATA disk could not read in its own tests"""
    uncorrectable_status: str = LIVE_REPAIR
    defects_above: int = 100
    """blocks on the grown defect list of a SAS disk"""
    defects_status: str = LIVE_REPAIR
    errors_above: int = 10
    """uncorrected errors of a SAS disk, each for reading, writing and verifying"""
    errors_status: str = LIVE_REPAIR
    media_errors_above: int = 100
    """errors of an NVMe disk where data was lost"""
    media_errors_status: str = LIVE_REPAIR
    wear_above: int = 98
    """percent of the life its maker gave a disk without moving parts"""
    wear_status: str = LIVE_REPAIR
    temperature_status: str = OK
    """the disk reports that it is too hot; the collector ``sensors`` knows more about that"""
    self_test_status: str = LIVE_REPAIR
    """a self-test failed, and no later one succeeded"""
    error_log_status: str = OK
    """the disk's log of errors is not empty; a cable, or a command it does not know, is enough"""
    ignore: tuple[str, ...] = ()
    """serial numbers of disks that are not checked, as patterns"""
    repair: str = ""
    """the repair command requested with live-repair"""


class Exit(IntFlag):
    """What smartctl's exit status is made of."""

    COMMAND_LINE = 1
    OPEN_FAILED = 2
    COMMAND_FAILED = 4
    """a command to the disk failed, or a checksum was wrong"""
    FAILING = 8
    PREFAILURE = 16
    """a prefailure attribute is at its threshold"""
    PAST = 32
    """attributes were in the past, or ones that count use are now"""
    ERROR_LOG = 64
    SELF_TEST = 128


def endurance_used(answer: Any) -> list[int]:
    """The percentage of life used, where smartctl (7.4) works it out itself; raises MissingData."""
    if "endurance_used" not in answer:
        return []
    return [member(answer, int, "endurance_used", "current_percent")]


def wear_faults(used: list[int], settings: Settings) -> Iterator[Fault]:
    """The fault of a disk that is worn out; ``used`` may be empty."""
    if max(used, default=0) > settings.wear_above:
        yield Fault(settings.wear_status, f"worn more than {settings.wear_above} %")
