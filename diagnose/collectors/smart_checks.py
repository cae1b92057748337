"""What smartctl's answer about a disk means: thresholds, and checks of ATA, NVMe and SCSI disks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import IntFlag
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, SUSPECT
from ganeti_steward.diagnose.collectors.shared.reading import (
    MissingData,
    member,
    noting_unknowns,
    optional,
)
from ganeti_steward.diagnose.collectors.shared.results import Examined, Fault
from ganeti_steward.diagnose.collectors.shared.thresholds import DEVICES, Count, Repair, Status

#: ATA attributes that count: what, the beginning of the fields of their threshold and status, and
#: the names by which smartctl calls those whose number other makers use for something else.  The
#: others count sectors: all makers use these numbers, though not all the names.
_COUNTS: Final[Mapping[int, tuple[str, str, tuple[str, ...]]]] = {
    5: ("reallocated sectors", "reallocated", ()),
    197: ("pending sectors", "pending", ()),
    198: ("uncorrectable sectors", "uncorrectable", ()),
    10: ("failed starts", "spin_retries", ("Spin_Retry_Count",)),
    184: ("end-to-end errors", "end_to_end", ("End-to-End_Error",)),
    187: ("reported errors", "reported", ("Reported_Uncorrect", "Uncorrectable_Error_Cnt")),
    188: ("timeouts", "timeouts", ("Command_Timeout",)),
}

#: Those of them of which the first one already makes a disk suspect.
_SUSPECT: Final = frozenset(("reallocated", "pending", "uncorrectable", "reported"))

#: Holds three counts of 16 bits, the lowest that of all timeouts; where smartctl does not know
#: the disk it prints one large number.
_PACKED: Final = 188
_LOWEST_COUNT: Final = 0xFFFF
#: Where the normalized values of attributes begin, with most makers.
_NEVER_FELL: Final = (100, 200, 252, 253)

#: Attributes whose normalized value is the percentage of life that is left.  Other makers use
#: the numbers for other things, so smartctl's database has to know the disk: to some of the
#: numbers smartctl gives these names whatever the disk is.
_LIFE_LEFT: Final = frozenset(
    (
        *((169, "Remaining_Lifetime_Perc"), (177, "Wear_Leveling_Count")),
        *((202, "Percent_Lifetime_Remain"), (231, "SSD_Life_Left")),
        *((232, "Lifetime_Left"), (233, "Media_Wearout_Indicator")),
    )
)

#: The device statistic that holds the wear in a standard way, and its page.
_WEAR_PAGE: Final = 7
_WEAR: Final = "Percentage Used Endurance Indicator"

_LOG: Final = "nvme_smart_health_information_log"

#: The bits of the critical warning of an NVMe disk, as the standard has them.
_SPARE: Final = 1
_TEMPERATURE: Final = 2
_DEGRADED: Final = 4
_WARNINGS: Final = {
    8: "read-only",
    16: "volatile memory backup failed",
    32: "persistent memory region unreliable",
}

#: The percentage at which the rated life of an NVMe disk is over, and that of a byte of ones.
_WORN_OUT: Final = 100
_ALL_ONES: Final = 255

_OPERATIONS: Final = ("read", "write", "verify")

#: The informational exceptions of a SCSI disk that report a temperature beyond a limit: additional
#: sense codes and their qualifiers.  All others are about the disk itself.
_TEMPERATURES: Final = ((0x0B, 0x01), (0x0B, 0x0A), (0x0B, 0x0B), (0x0B, 0x0C), (0x0B, 0x0D))


class Settings(NamedTuple):
    """[collector.smart]: the checks of disks with SMART data."""

    failing_status: Annotated[Status, "The disk reports that it fails or soon will."] = LIVE_REPAIR
    past_status: Annotated[
        Status,
        "An attribute failed in the past, or one that only measures usage failed.",
    ] = OK
    reallocated_above: Annotated[Count, "Sectors an ATA disk may have replaced by spare ones."] = (
        100
    )
    reallocated_status: Annotated[
        Status, "A disk exceeds the limit of the same name, `-above`."
    ] = LIVE_REPAIR
    pending_above: Annotated[
        Count, "Sectors an ATA disk could not read and has not replaced yet."
    ] = 10
    pending_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    uncorrectable_above: Annotated[
        Count, "Sectors an ATA disk could not read in its own tests."
    ] = 10
    uncorrectable_status: Annotated[
        Status, "A disk exceeds the limit of the same name, `-above`."
    ] = LIVE_REPAIR
    reported_above: Annotated[Count, "Errors an ATA disk reported as uncorrectable."] = 10
    reported_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    suspect_above: Annotated[
        Count,
        "Sectors of each of these three kinds, and reported errors, an ATA disk may have without "
        "being suspect.",
    ] = 0
    suspect_status: Annotated[
        Status, "A disk exceeds suspect-above, but none of these other limits."
    ] = SUSPECT
    timeouts_above: Annotated[
        Count, "Commands an ATA disk may have given up; a bad cable can cause them."
    ] = 100
    timeouts_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    spin_retries_above: Annotated[Count, "Times an ATA disk may have failed to start turning."] = 5
    spin_retries_status: Annotated[
        Status, "A disk exceeds the limit of the same name, `-above`."
    ] = LIVE_REPAIR
    end_to_end_above: Annotated[Count, "Times data may have been damaged inside an ATA disk."] = 0
    end_to_end_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    defects_above: Annotated[Count, "Blocks in the grown defect list of a SAS disk."] = 100
    defects_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    errors_above: Annotated[
        Count, "Uncorrected errors of a SAS disk, each for reading, writing and verifying."
    ] = 10
    errors_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    media_errors_above: Annotated[Count, "Errors with data loss of an NVMe disk."] = 100
    media_errors_status: Annotated[
        Status, "A disk exceeds the limit of the same name, `-above`."
    ] = LIVE_REPAIR
    wear_above: Annotated[Count, "Percent of its rated life an SSD may have used."] = 98
    wear_status: Annotated[Status, "A disk exceeds the limit of the same name, `-above`."] = (
        LIVE_REPAIR
    )
    name_volumes: Annotated[
        bool,
        "Whether a finding names the disk's LVM physical volumes; the maintenance daemon then "
        "moves disks off them (repair-storage of [maintd]).",
    ] = False
    temperature_status: Annotated[
        Status,
        "The disk reports that it is too hot; the collector sensors has its own limits.",
    ] = OK
    self_test_status: Annotated[Status, "A self-test failed and no later one succeeded."] = (
        LIVE_REPAIR
    )
    error_log_status: Annotated[
        Status,
        "The disk's error log is not empty; a bad cable or an unknown command can cause entries.",
    ] = OK
    ignore: Annotated[tuple[str, ...], "Serial numbers of disks to skip (shell patterns)."] = ()
    devices: Annotated[
        tuple[str, ...], DEVICES, "Disks that smartctl does not find, in place of their volumes."
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


def _exceeding(count: int, key: str, what: str, settings: Settings) -> Iterator[Fault]:
    """The fault of a count above the threshold ``KEY_above``, or above that of suspect disks."""
    status = getattr(settings, f"{key}_status")
    grades = [(getattr(settings, f"{key}_above"), status)]
    # Ok turns off the whole kind.
    if key in _SUSPECT and status != OK:
        grades.append((settings.suspect_above, settings.suspect_status))
    for limit, grade in grades:
        if count > limit:
            yield Fault(grade, f"more than {limit} {what}")
            return


def _wear_faults(used: list[int], settings: Settings) -> Iterator[Fault]:
    """The fault of a disk that is worn out; ``used`` may be empty."""
    if max(used, default=0) > settings.wear_above:
        yield Fault(settings.wear_status, f"worn more than {settings.wear_above} %")


def _endurance_used(answer: Any) -> list[int]:
    """The percentage of life used, where smartctl (7.4) works it out itself; raises MissingData."""
    if "endurance_used" not in answer:
        return []
    return [member(answer, int, "endurance_used", "current_percent")]


def examine_ata(answer: Any, status: Exit, settings: Settings) -> Examined:
    """What is wrong with an ATA disk, and what is unknown."""
    faults, unknowns = examined = Examined([], [])
    with noting_unknowns(unknowns):
        if not member(answer, bool, "smart_status", "passed") or Exit.FAILING in status:
            faults.append(Fault(settings.failing_status, "failing"))
    used: list[int] = []
    prefailure = False
    with noting_unknowns(unknowns):
        rows = member(answer, list, "ata_smart_attributes", "table")
        if not rows:
            raise MissingData("ata_smart_attributes.table is empty")
        for row in rows:
            with noting_unknowns(unknowns):
                number = member(row, int, "id")
                when = _when_failed(row)
                if when == "now" and member(row, bool, "flags", "prefailure"):
                    prefailure = True
                    faults.append(Fault(settings.failing_status, f"attribute {number} failing"))
                elif when:
                    faults.append(Fault(settings.past_status, f"attribute {number} failed"))
                what, key, names = _COUNTS.get(number, ("", "", ()))
                if key and (not names or member(row, str, "name").startswith(names)):
                    count = _value(row, number) if names else _sectors(row, number)
                    faults += _exceeding(count, key, what, settings)
                if (number, member(row, str, "name")) in _LIFE_LEFT:
                    left = member(row, int, "value")
                    if member(answer, bool, "in_smartctl_database"):
                        used.append(100 - left)
    if Exit.PREFAILURE in status and not prefailure:
        faults.append(Fault(settings.failing_status, "an attribute failing"))
    with noting_unknowns(unknowns):
        # What is standard comes first; makers differ in what an attribute counts.
        faults += _wear_faults(_standard_wear(answer) or used, settings)
    return examined


def _when_failed(row: Any) -> str:
    when = member(row, str, "when_failed")
    if when not in ("", "now", "past"):
        raise MissingData("when_failed is a word that is not known")
    return when


def _sectors(row: Any, number: int) -> int:
    """What an attribute that counts sectors counts; raises MissingData.

    Some disks keep other figures in the upper bytes of the raw value.  The text that comes
    with it has been made as smartctl's database defines for this disk: the count, then the rest.
    """
    count = re.match("[0-9]+", member(row, str, "raw", "string"))
    if count is None:
        raise MissingData(f"the raw value of attribute {number} is not a count")
    return _plausible(row, number, int(count[0]))


def _value(row: Any, number: int) -> int:
    """What an attribute that counts something else counts; raises MissingData."""
    count = member(row, int, "raw", "value")
    if count < 0:
        raise MissingData(f"the raw value of attribute {number} is not a count")
    if number == _PACKED:
        return count & _LOWEST_COUNT
    # smartctl's database says how the disk's figures are printed; of others it is not known.
    if member(row, str, "raw", "string").split(maxsplit=1)[:1] != [str(count)]:
        raise MissingData(f"the raw value of attribute {number} is printed as another one")
    return _plausible(row, number, count)


def _plausible(row: Any, number: int, count: int) -> int:
    """A count that can be one; raises MissingData for several figures packed into one.

    The disk lowers the normalized value long before it has counted so many.
    """
    value = member(row, int, "value")
    if count > _LOWEST_COUNT and value in _NEVER_FELL and member(row, int, "worst") >= value:
        raise MissingData(
            f"the raw value of attribute {number} is {count}, though the disk's own value of it "
            f"is still {value}"
        )
    return count


def _standard_wear(answer: Any) -> list[int]:
    """Percentages of life used that are reported in a standard way; raises MissingData."""
    used = _endurance_used(answer)
    statistics = optional(answer, dict, "ata_device_statistics") or {}
    for page in optional(statistics, list, "pages") or []:
        if member(page, int, "number") == _WEAR_PAGE:
            for row in member(page, list, "table"):
                if member(row, str, "name") == _WEAR and _is_valid(row):
                    used.append(member(row, int, "value"))
    return used


def _is_valid(row: Any) -> bool:
    """Whether the disk keeps up a statistic it lists."""
    return optional(row, dict, "flags") is None or member(row, bool, "flags", "valid")


def examine_nvme(answer: Any, status: Exit, settings: Settings) -> Examined:
    """What is wrong with an NVMe disk, and what is unknown."""
    faults, unknowns = examined = Examined([], [])
    warning = 0
    with noting_unknowns(unknowns):
        warning = member(answer, int, _LOG, "critical_warning")
        faults += _warnings(warning, settings)
        if warning & _DEGRADED:
            faults.append(_degraded(answer, settings))
    with noting_unknowns(unknowns):
        passed = member(answer, bool, "smart_status", "passed")
        # It fails with every warning, be it only the temperature's: the warnings are more precise.
        if not warning and (not passed or Exit.FAILING in status):
            faults.append(Fault(settings.failing_status, "failing"))
    low = bool(warning & _SPARE)
    with noting_unknowns(unknowns):
        low |= _share(answer, "available_spare") < _share(answer, "available_spare_threshold")
    if low:
        faults.append(Fault(settings.failing_status, "spare blocks below their threshold"))
    with noting_unknowns(unknowns):
        used = member(answer, int, _LOG, "percentage_used")
        if used == _ALL_ONES:
            # As in a log that could not be read: no disk lasts two and a half times its life.
            raise MissingData(f"percentage_used is {used}")
        faults += _wear_faults([used], settings)
    with noting_unknowns(unknowns):
        errors = member(answer, int, _LOG, "media_errors")
        faults += _exceeding(errors, "media_errors", "media errors", settings)
    return examined


def _degraded(answer: Any, settings: Settings) -> Fault:
    """The fault of a disk that reports degraded reliability; wear alone has a status of its own."""
    log = optional(answer, dict, _LOG) or {}
    used, errors = log.get("percentage_used"), log.get("media_errors")
    worn = isinstance(used, int) and _WORN_OUT <= used < _ALL_ONES and errors == 0
    status = settings.wear_status if worn else settings.failing_status
    return Fault(status, "reliability degraded by wear" if worn else "reliability degraded")


def _share(answer: Any, key: str) -> int:
    """A figure of the log in percent; raises ValueError where it cannot be one (NVMe: reserved)."""
    share = member(answer, int, _LOG, key)
    if not 0 <= share <= 100:
        raise ValueError(f"{key} is {share} %")
    return share


def _warnings(warning: int, settings: Settings) -> Iterator[Fault]:
    """The faults of the warning's bits; that of the spare blocks is reported with them."""
    if warning & _TEMPERATURE:
        yield Fault(settings.temperature_status, "temperature")
    for bit, text in _WARNINGS.items():
        if warning & bit:
            yield Fault(settings.failing_status, text)
    if warning & ~(_SPARE | _TEMPERATURE | _DEGRADED | sum(_WARNINGS)):
        yield Fault(settings.failing_status, "a warning that is not known")


def examine_scsi(answer: Any, status: Exit, settings: Settings) -> Examined:
    """What is wrong with a SCSI disk, and what is unknown."""
    faults, unknowns = examined = Examined([], [])
    with noting_unknowns(unknowns):
        if not member(answer, bool, "smart_status", "passed") or Exit.FAILING in status:
            faults.append(_exception(answer, settings))
    with noting_unknowns(unknowns):
        # Not every disk without moving parts keeps a list.
        defects = optional(answer, int, "scsi_grown_defect_list") or 0
        faults += _exceeding(defects, "defects", "grown defects", settings)
    with noting_unknowns(unknowns):
        log = optional(answer, dict, "scsi_error_counter_log")
        if log is not None:
            faults += _errors(log, settings)
    with noting_unknowns(unknowns):
        used = optional(answer, int, "scsi_percentage_used_endurance_indicator")
        standard = _endurance_used(answer)
        faults += _wear_faults(standard if used is None else [used, *standard], settings)
    return examined


def _exception(answer: Any, settings: Settings) -> Fault:
    """The fault of a disk that did not pass, by the code it gave if it gave one."""
    code = optional(answer, dict, "smart_status", "scsi") or {}
    if (code.get("asc"), code.get("ascq")) in _TEMPERATURES:
        return Fault(settings.temperature_status, "temperature")
    return Fault(settings.failing_status, "failing")


def _errors(log: Any, settings: Settings) -> Iterator[Fault]:
    """The faults of errors that were not corrected; raises MissingData."""
    operations = [operation for operation in _OPERATIONS if operation in log]
    if not operations:
        raise MissingData("scsi_error_counter_log is empty")
    for operation in operations:
        errors = member(log, int, operation, "total_uncorrected_errors")
        yield from _exceeding(errors, "errors", f"{operation} errors", settings)
