"""What an NVMe disk reports: the warnings it sets, its spare blocks, its wear."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ganeti_steward.diagnose.collectors.shared.program_output import member, noting_unknowns
from ganeti_steward.diagnose.collectors.shared.results import Examined, Fault
from ganeti_steward.diagnose.collectors.smart_disks.common import Exit, Settings, wear_faults

_LOG: Final = "nvme_smart_health_information_log"

#: The bits of the critical warning, as the standard has them.
_SPARE: Final = 1
_TEMPERATURE: Final = 2
_WARNINGS: Final = {
    4: "reliability degraded",
    8: "read-only",
    16: "volatile memory backup failed",
    32: "persistent memory region unreliable",
}


def examine_nvme(answer: Any, status: Exit, settings: Settings) -> Examined:
    """What is wrong with an NVMe disk, and what is unknown."""
    faults: list[Fault] = []
    unknowns: list[str] = []
    warning = 0
    with noting_unknowns(unknowns):
        warning = member(answer, int, _LOG, "critical_warning")
        faults += _warnings(warning, settings)
    with noting_unknowns(unknowns):
        passed = member(answer, bool, "smart_status", "passed")
        # It fails with every warning, be it only the temperature's: the warnings are more precise.
        if not warning and (not passed or Exit.FAILING in status):
            faults.append(Fault(settings.failing_status, "failing"))
    with noting_unknowns(unknowns):
        spare = member(answer, int, _LOG, "available_spare")
        low = spare < member(answer, int, _LOG, "available_spare_threshold")
        if low or warning & _SPARE:
            faults.append(Fault(settings.failing_status, "spare blocks below their threshold"))
    with noting_unknowns(unknowns):
        faults += wear_faults([member(answer, int, _LOG, "percentage_used")], settings)
    with noting_unknowns(unknowns):
        limit = settings.media_errors_above
        if member(answer, int, _LOG, "media_errors") > limit:
            faults.append(Fault(settings.media_errors_status, f"more than {limit} media errors"))
    return Examined(faults, unknowns)


def _warnings(warning: int, settings: Settings) -> Iterator[Fault]:
    """The faults of the warning's bits; that of the spare blocks is reported with them."""
    if warning & _TEMPERATURE:
        yield Fault(settings.temperature_status, "temperature")
    for bit, text in _WARNINGS.items():
        if warning & bit:
            yield Fault(settings.failing_status, text)
    if warning & ~(_SPARE | _TEMPERATURE | sum(_WARNINGS)):
        yield Fault(settings.failing_status, "a warning that is not known")
