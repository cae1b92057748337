"""Memory errors the kernel's EDAC drivers count: uncorrected ones, and very many corrected ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, SUSPECT, CheckResult, NotApplicable
from ganeti_steward.diagnose.collectors.shared.increases import DAY, Increase, increases
from ganeti_steward.diagnose.collectors.shared.reading import (
    noting_unknowns,
    number_of,
    text_if_there,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    above,
    check_results,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Figure, Repair, Status
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "edac"

_CONTROLLERS: Final = "/sys/devices/system/edac/mc"
_CONTROLLER: Final = re.compile(r"mc[0-9]+")
#: A driver knows its memory by modules or by ranks; some old ones know neither.
_MODULE: Final = re.compile(r"(?:dimm|rank)[0-9]+")

#: Days; what came in the first hours after a start is no figure for a day.
_SHORTEST: Final = 1.0


class Settings(NamedTuple):
    """[collector.edac]: the checks of memory errors."""

    uncorrected_status: Annotated[Status, "An uncorrected memory error occurred."] = LIVE_REPAIR
    corrected_status: Annotated[
        Status, "A memory module exceeds corrected-per-day. Ok turns off suspect-status, too."
    ] = LIVE_REPAIR
    corrected_per_day: Annotated[
        Figure,
        "Corrected errors of one module, in the last day or as an average per day since the last "
        "run.",
    ] = 1000.0
    suspect_per_day: Annotated[Figure, "The same for suspect-status."] = 100.0
    suspect_status: Annotated[
        Status, "A memory module exceeds suspect-per-day, but not corrected-per-day."
    ] = SUSPECT
    margin: Annotated[
        Figure,
        "Percent of these limits by which a rate must fall below one before a finding changes.",
    ] = 20.0
    repair: Repair = ""


class _Counts(NamedTuple):
    """The errors of one memory module, or of a whole controller."""

    name: str
    """empty for the controller"""
    uncorrected: int
    corrected: int


class Collector(Configured[Settings]):
    """Looks at each memory controller."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the node's memory."""
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = [name for name in machine.listing(_CONTROLLERS) if _CONTROLLER.fullmatch(name)]
        if not names:
            yield NotApplicable(NAME, "the kernel counts no memory errors here")
        counts: dict[str, list[_Counts]] = {}
        unknowns: dict[str, list[str]] = {}
        for name in sorted(names):
            unknowns[name] = []
            counts[name] = list(_read(machine, f"{_CONTROLLERS}/{name}", unknowns[name]))
        totals = {
            f"{name} {module.name}": module.corrected
            for name, modules in counts.items()
            for module in _by_module(modules)
        }
        lately: Mapping[str, Increase] = {}
        unsure: list[str] = []
        # Without it, the average since they are counted may be that of a quiet year.
        with noting_unknowns(unsure):
            lately = increases(machine, NAME, totals)
        for name, modules in counts.items():
            examined = Examined(list(self._uncorrected(modules)), [*unknowns[name], *unsure])
            with noting_unknowns(examined.unknowns):
                seconds = _count(machine, f"{_CONTROLLERS}/{name}/seconds_since_reset")
                days = max(seconds / DAY, _SHORTEST)
                for module in _by_module(modules):
                    per_day = _per_day(module.corrected / days, lately.get(f"{name} {module.name}"))
                    self._check_corrected(module, per_day, examined)
            yield from check_results(f"{NAME}:{name}", *examined, self._settings.repair)

    def _uncorrected(self, counts: Sequence[_Counts]) -> Iterator[Fault]:
        names = [module.name for module in counts if module.uncorrected > 0]
        # The controller's own count has those of its modules in it.
        for name in [name for name in names if name] or names:
            yield Fault(self._settings.uncorrected_status, _text("uncorrected errors", name))

    def _check_corrected(self, module: _Counts, per_day: float, examined: Examined) -> None:
        settings = self._settings
        status = settings.corrected_status
        grades = [(settings.corrected_per_day, status, "many corrected errors")]
        # Ok turns off both.
        if status != OK:
            grade = (settings.suspect_per_day, settings.suspect_status, "burst of corrected errors")
            grades.append(grade)
        for limit, status, what in grades:
            reached = above(per_day, limit, limit * settings.margin / 100)
            if reached and module.corrected > 0:
                examined.faults.append(Fault(status, _text(what, module.name)))
                return
            if reached is None:
                text = "corrected errors too near to the limit to decide"
                examined.unknowns.append(_text(text, module.name))


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _per_day(average: float, lately: Increase | None) -> float:
    """Errors a day: those of the last day, or of the time since the last run if that is longer.

    Where less is known the average since they are counted may be higher, and counts.
    """
    if lately is None:
        return average
    if lately.seconds < DAY:
        return max(average, lately.by)
    return lately.by * DAY / lately.seconds


def _by_module(counts: Sequence[_Counts]) -> list[_Counts]:
    """The modules, and together all errors whose module the driver does not know."""
    modules = [module for module in counts if module.name]
    known = sum(module.corrected for module in modules)
    others = [
        controller._replace(corrected=controller.corrected - known)
        for controller in counts
        if not controller.name
    ]
    return modules + [other for other in others if other.corrected > 0 or not modules]


def _text(what: str, module: str) -> str:
    return f"{what}: {module}" if module else what


def _read(machine: Machine, directory: str, unknowns: list[str]) -> Iterator[_Counts]:
    """The controller's counts and those of its modules."""
    modules: list[str] = []
    with noting_unknowns(unknowns):
        modules = [name for name in machine.listing(directory) if _MODULE.fullmatch(name)]
    for module in ["", *sorted(modules)]:
        files = f"{directory}/{module}/dimm_" if module else f"{directory}/"
        with noting_unknowns(unknowns):
            uncorrected = _count(machine, f"{files}ue_count")
            corrected = _count(machine, f"{files}ce_count")
            # As on the mainboard, if the driver or the admin set it.  Labels of empty slots repeat.
            label = text_if_there(machine, f"{files}label") if module else ""
            name = f"{module} {printable(label)}" if label else module
            yield _Counts(name, uncorrected, corrected)


def _count(machine: Machine, path: str) -> int:
    """A number from 0; raises OSError, ValueError."""
    number = number_of(machine, path)
    if number < 0:
        raise ValueError(f"{path} is below zero")
    return number
