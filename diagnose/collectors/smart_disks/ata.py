"""What an ATA disk reports: its verdict, its attributes, its wear."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ganeti_steward.diagnose.collectors.shared.program_output import (
    MissingData,
    member,
    noting_unknowns,
    optional,
)
from ganeti_steward.diagnose.collectors.shared.results import Examined, Fault
from ganeti_steward.diagnose.collectors.smart_disks.common import (
    Exit,
    Settings,
    endurance_used,
    wear_faults,
)

#: Attributes whose raw value counts sectors, with the fields of their threshold and status.
#: All makers use these numbers, though not all the names.
_COUNTS: Final = {
    5: ("reallocated sectors", "reallocated_above", "reallocated_status"),
    197: ("pending sectors", "pending_above", "pending_status"),
    198: ("uncorrectable sectors", "uncorrectable_above", "uncorrectable_status"),
}

#: The same of attributes that count other things, with the names by which smartctl calls them:
#: other makers use the numbers for something else.
_NAMED_COUNTS: Final[Mapping[int, tuple[str, str, str, tuple[str, ...]]]] = {
    10: ("failed starts", "spin_retries_above", "spin_retries_status", ("Spin_Retry_Count",)),
    184: ("end-to-end errors", "end_to_end_above", "end_to_end_status", ("End-to-End_Error",)),
    187: (
        "reported errors",
        "reported_above",
        "reported_status",
        ("Reported_Uncorrect", "Uncorrectable_Error_Cnt"),
    ),
    188: ("timeouts", "timeouts_above", "timeouts_status", ("Command_Timeout",)),
}

#: Holds three counts of 16 bits, the lowest that of all timeouts; where smartctl does not know
#: the disk it prints one large number.
_PACKED: Final = 188
_LOWEST_COUNT: Final = 0xFFFF

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


def examine_ata(answer: Any, status: Exit, settings: Settings) -> Examined:
    """What is wrong with an ATA disk, and what is unknown."""
    faults: list[Fault] = []
    unknowns: list[str] = []
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
                if number in _COUNTS:
                    faults += _count_fault(row, number, settings)
                if number in _NAMED_COUNTS and member(row, str, "name").startswith(
                    _NAMED_COUNTS[number][-1]
                ):
                    faults += _named_count_fault(row, number, settings)
                if (number, member(row, str, "name")) in _LIFE_LEFT:
                    left = member(row, int, "value")
                    if member(answer, bool, "in_smartctl_database"):
                        used.append(100 - left)
    if Exit.PREFAILURE in status and not prefailure:
        faults.append(Fault(settings.failing_status, "an attribute failing"))
    with noting_unknowns(unknowns):
        # What is standard comes first; makers differ in what an attribute counts.
        faults += wear_faults(_standard_wear(answer) or used, settings)
    return Examined(faults, unknowns)


def _when_failed(row: Any) -> str:
    when = member(row, str, "when_failed")
    if when not in ("", "now", "past"):
        raise MissingData("when_failed is a word that is not known")
    return when


def _count_fault(row: Any, number: int, settings: Settings) -> Iterator[Fault]:
    """The fault of an attribute that counts sectors; raises MissingData.

    Some disks keep other figures in the upper bytes of the raw value.  The text that comes
    with it has been made as smartctl's database defines for this disk: the count, then the rest.
    """
    what, threshold, status = _COUNTS[number]
    count = re.match("[0-9]+", member(row, str, "raw", "string"))
    if count is None:
        raise MissingData(f"the raw value of attribute {number} is no count")
    limit = getattr(settings, threshold)
    if int(count[0]) > limit:
        yield Fault(getattr(settings, status), f"more than {limit} {what}")


def _named_count_fault(row: Any, number: int, settings: Settings) -> Iterator[Fault]:
    """The fault of an attribute that counts something else; raises MissingData."""
    what, threshold, status, _ = _NAMED_COUNTS[number]
    count = member(row, int, "raw", "value")
    if count < 0:
        raise MissingData(f"the raw value of attribute {number} is no count")
    limit = getattr(settings, threshold)
    if (count & _LOWEST_COUNT if number == _PACKED else count) > limit:
        yield Fault(getattr(settings, status), f"more than {limit} {what}")


def _standard_wear(answer: Any) -> list[int]:
    """Percentages of life used that are reported in a standard way; raises MissingData."""
    found = endurance_used(answer)
    statistics = optional(answer, dict, "ata_device_statistics") or {}
    for page in optional(statistics, list, "pages") or []:
        if member(page, int, "number") == _WEAR_PAGE:
            for row in member(page, list, "table"):
                if member(row, str, "name") == _WEAR and _is_valid(row):
                    found.append(member(row, int, "value"))
    return found


def _is_valid(row: Any) -> bool:
    """Whether the disk keeps up a statistic it lists."""
    return optional(row, dict, "flags") is None or member(row, bool, "flags", "valid")
