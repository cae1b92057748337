"""What the checks of ATA, NVMe and SCSI disks share: thresholds, exit status, wear."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import Annotated, Any, NamedTuple

from ganeti_steward.core.model.finding import LIVE_REPAIR, OK
from ganeti_steward.diagnose.collectors.shared.program_output import member
from ganeti_steward.diagnose.collectors.shared.results import Fault
from ganeti_steward.diagnose.collectors.shared.thresholds import Count, Repair, Status


class Settings(NamedTuple):
    """[collector.smart]: the checks of disks with SMART data."""

    failing_status: Annotated[
        Status, "The status when the disk reports that it fails or soon will."
    ] = LIVE_REPAIR
    past_status: Annotated[
        Status,
        "The status when an attribute failed in the past, or one that only counts usage failed.",
    ] = OK
    reallocated_above: Annotated[Count, "Sectors an ATA disk may have replaced by spare ones."] = (
        100
    )
    reallocated_status: Annotated[Status, "The status when a disk exceeds reallocated-above."] = (
        LIVE_REPAIR
    )
    pending_above: Annotated[
        Count, "Sectors an ATA disk may have that it could not read and has not replaced yet."
    ] = 10
    pending_status: Annotated[Status, "The status when a disk exceeds pending-above."] = LIVE_REPAIR
    uncorrectable_above: Annotated[
        Count, "Sectors an ATA disk may have that it could not read in its own tests."
    ] = 10
    uncorrectable_status: Annotated[
        Status, "The status when a disk exceeds uncorrectable-above."
    ] = LIVE_REPAIR
    reported_above: Annotated[
        Count, "Errors an ATA disk may have reported that it could not correct."
    ] = 10
    reported_status: Annotated[Status, "The status when a disk exceeds reported-above."] = (
        LIVE_REPAIR
    )
    timeouts_above: Annotated[
        Count, "Commands an ATA disk may have given up; a bad cable is enough."
    ] = 100
    timeouts_status: Annotated[Status, "The status when a disk exceeds timeouts-above."] = (
        LIVE_REPAIR
    )
    spin_retries_above: Annotated[Count, "Times an ATA disk may have failed to start turning."] = 5
    spin_retries_status: Annotated[Status, "The status when a disk exceeds spin-retries-above."] = (
        LIVE_REPAIR
    )
    end_to_end_above: Annotated[
        Count, "Times data may have been damaged on its way through an ATA disk."
    ] = 0
    end_to_end_status: Annotated[Status, "The status when a disk exceeds end-to-end-above."] = (
        LIVE_REPAIR
    )
    defects_above: Annotated[Count, "Blocks a SAS disk may have on its list of grown defects."] = (
        100
    )
    defects_status: Annotated[Status, "The status when a disk exceeds defects-above."] = LIVE_REPAIR
    errors_above: Annotated[
        Count, "Uncorrected errors a SAS disk may have, each for reading, writing and verifying."
    ] = 10
    errors_status: Annotated[Status, "The status when a disk exceeds errors-above."] = LIVE_REPAIR
    media_errors_above: Annotated[Count, "Errors with loss of data an NVMe disk may have."] = 100
    media_errors_status: Annotated[Status, "The status when a disk exceeds media-errors-above."] = (
        LIVE_REPAIR
    )
    wear_above: Annotated[Count, "Percent of its rated life an SSD may have used."] = 98
    wear_status: Annotated[Status, "The status when a disk exceeds wear-above."] = LIVE_REPAIR
    name_volumes: Annotated[
        bool,
        "Whether a finding names LVM's physical volumes on the disk, which the maintenance daemon "
        "then moves the instances' disks off (repair-storage of [maintd]).",
    ] = False
    temperature_status: Annotated[
        Status,
        "The status when the disk reports that it is too hot; the collector sensors has limits of "
        "its own.",
    ] = OK
    self_test_status: Annotated[
        Status, "The status when a self-test failed and no later one succeeded."
    ] = LIVE_REPAIR
    error_log_status: Annotated[
        Status,
        "The status when the disk's error log is not empty; a bad cable or an unknown command is "
        "enough.",
    ] = OK
    ignore: Annotated[
        tuple[str, ...], "Disks that are not checked, as shell patterns of their serial numbers."
    ] = ()
    repair: Repair = ""


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
