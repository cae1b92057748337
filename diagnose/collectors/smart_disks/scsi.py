"""What a SCSI or SAS disk reports: its verdict, grown defects, uncorrected errors, wear."""

from __future__ import annotations

from collections.abc import Iterator
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

_OPERATIONS: Final = ("read", "write", "verify")

#: The informational exceptions that report a temperature beyond a limit: additional sense
#: codes and their qualifiers.  All others are about the disk itself.
_TEMPERATURES: Final = ((0x0B, 0x01), (0x0B, 0x0A), (0x0B, 0x0B), (0x0B, 0x0C), (0x0B, 0x0D))


def examine_scsi(answer: Any, status: Exit, settings: Settings) -> Examined:
    """What is wrong with a SCSI disk, and what is unknown."""
    faults: list[Fault] = []
    unknowns: list[str] = []
    with noting_unknowns(unknowns):
        if not member(answer, bool, "smart_status", "passed") or Exit.FAILING in status:
            faults.append(_exception(answer, settings))
    with noting_unknowns(unknowns):
        limit = settings.defects_above
        # Not every disk without moving parts keeps a list.
        if (optional(answer, int, "scsi_grown_defect_list") or 0) > limit:
            faults.append(Fault(settings.defects_status, f"more than {limit} grown defects"))
    with noting_unknowns(unknowns):
        log = optional(answer, dict, "scsi_error_counter_log")
        if log is not None:
            faults += _errors(log, settings)
    with noting_unknowns(unknowns):
        used = optional(answer, int, "scsi_percentage_used_endurance_indicator")
        found = endurance_used(answer)
        faults += wear_faults(found if used is None else [used, *found], settings)
    return Examined(faults, unknowns)


def _exception(answer: Any, settings: Settings) -> Fault:
    """The fault of a disk that did not pass, by the code it gave if it gave one."""
    found = optional(answer, dict, "smart_status", "scsi")
    if found is not None and (found.get("asc"), found.get("ascq")) in _TEMPERATURES:
        return Fault(settings.temperature_status, "temperature")
    return Fault(settings.failing_status, "failing")


def _errors(log: Any, settings: Settings) -> Iterator[Fault]:
    """The faults of errors that were not corrected; raises MissingData."""
    operations = [operation for operation in _OPERATIONS if operation in log]
    if not operations:
        raise MissingData("scsi_error_counter_log is empty")
    limit = settings.errors_above
    for operation in operations:
        if member(log, int, operation, "total_uncorrected_errors") > limit:
            yield Fault(settings.errors_status, f"more than {limit} {operation} errors")
