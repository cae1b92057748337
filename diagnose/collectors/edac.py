"""Memory errors the kernel's EDAC drivers count: uncorrected ones, and very many corrected ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.increases import DAY, Increase, increases
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    above,
    check_results,
    located_reason,
    number_of,
    text_of,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Figure, Repair, Status

NAME: Final = "edac"

_CONTROLLERS: Final = "/sys/devices/system/edac/mc"
_CONTROLLER: Final = re.compile(r"mc[0-9]+")
#: A driver knows its memory by modules or by ranks; some old ones know neither.
_MODULE: Final = re.compile(r"(?:dimm|rank)[0-9]+")

#: Days; what came in the first hours after a start is no figure for a day.
_SHORTEST: Final = 1.0


class Settings(NamedTuple):
    """[collector.edac]: the checks of memory errors."""

    uncorrected_status: Annotated[Status, "The status after an uncorrected memory error."] = (
        LIVE_REPAIR
    )
    corrected_status: Annotated[
        Status, "The status when a memory module has many corrected errors."
    ] = LIVE_REPAIR
    corrected_per_day: Annotated[
        Figure,
        "How many corrected errors of one module are many: errors in the last day, or a day "
        "on average since the last run.",
    ] = 1000.0
    margin: Annotated[
        Figure,
        "Percent of corrected-per-day; a rate below it by less than that leaves the last finding "
        "as it is.",
    ] = 20.0
    repair: Repair = ""


class _Counts(NamedTuple):
    """The errors of one module, or of a whole controller."""

    what: str
    uncorrected: int
    corrected: int


class Collector(Configured[Settings]):
    """Looks at each memory controller."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the node's memory."""
        try:
            names = [name for name in machine.listing(_CONTROLLERS) if _CONTROLLER.fullmatch(name)]
        except FileNotFoundError:
            names = []
        except OSError as err:
            yield Unknown(NAME, located_reason(err))
            return
        if not names:
            yield NotApplicable(NAME, "the kernel counts no memory errors here")
        read = {name: _read(machine, f"{_CONTROLLERS}/{name}") for name in sorted(names)}
        totals = {
            f"{name} {one.what}": one.corrected
            for name, (counts, _) in read.items()
            for one in _by_module(counts)
        }
        lately: Mapping[str, Increase] = {}
        unsure: list[str] = []
        try:
            lately = increases(machine, NAME, totals)
        except (OSError, ValueError) as err:
            # The average since they are counted may be that of a quiet year.
            unsure.append(located_reason(err))
        for name, (counts, unknowns) in read.items():
            of_this = {
                key.partition(" ")[2]: one
                for key, one in lately.items()
                if key.partition(" ")[0] == name
            }
            yield from self._check(machine, name, counts, [*unknowns, *unsure], of_this)

    def _check(
        self,
        machine: Machine,
        name: str,
        counts: list[_Counts],
        unknowns: list[str],
        lately: Mapping[str, Increase],
    ) -> Iterator[CheckResult]:
        directory = f"{_CONTROLLERS}/{name}"
        faults = list(self._uncorrected(counts))
        try:
            seconds = _count(machine, f"{directory}/seconds_since_reset")
            corrected = self._corrected(counts, max(seconds / DAY, _SHORTEST), lately)
            faults, unknowns = faults + corrected.faults, unknowns + corrected.unknowns
        except (OSError, ValueError) as err:
            unknowns.append(located_reason(err))
        yield from check_results(f"{NAME}:{name}", faults, unknowns, self._settings.repair)

    def _uncorrected(self, counts: Sequence[_Counts]) -> Iterator[Fault]:
        found = [one.what for one in counts if one.uncorrected > 0]
        # The controller's own count has those of its modules in it.
        for what in [what for what in found if what] or found:
            yield Fault(self._settings.uncorrected_status, _text("uncorrected errors", what))

    def _corrected(
        self, counts: Sequence[_Counts], days: float, lately: Mapping[str, Increase]
    ) -> Examined:
        settings, found = self._settings, Examined([], [])
        limit = settings.corrected_per_day
        for one in _by_module(counts):
            per_day = _per_day(one.corrected / days, lately.get(one.what))
            many = above(per_day, limit, limit * settings.margin / 100)
            if many and one.corrected > 0:
                text = _text("many corrected errors", one.what)
                found.faults.append(Fault(settings.corrected_status, text))
            elif many is None:
                text = _text("corrected errors too near to the limit to decide", one.what)
                found.unknowns.append(text)
        return found


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
    modules = [one for one in counts if one.what]
    known = sum(one.corrected for one in modules)
    whole = [one._replace(corrected=one.corrected - known) for one in counts if not one.what]
    return modules + [one for one in whole if one.corrected > 0 or not modules]


def _text(what: str, module: str) -> str:
    return f"{what}: {module}" if module else what


def _read(machine: Machine, directory: str) -> tuple[list[_Counts], list[str]]:
    """The controller's counts and those of its modules, and what is unknown."""
    counts, unknowns = list[_Counts](), list[str]()
    places = [(directory, "")]
    try:
        places += _modules(machine, directory)
    except OSError as err:
        unknowns.append(located_reason(err))
    for place, prefix in places:
        try:
            uncorrected = _count(machine, f"{place}/{prefix}ue_count")
            corrected = _count(machine, f"{place}/{prefix}ce_count")
            what = _label(machine, place) if prefix else ""
            counts.append(_Counts(what, uncorrected, corrected))
        except (OSError, ValueError) as err:
            unknowns.append(located_reason(err))
    return counts, unknowns


def _count(machine: Machine, path: str) -> int:
    """A number from 0; raises OSError, ValueError."""
    number = number_of(machine, path)
    if number < 0:
        raise ValueError(f"{path} is below zero")
    return number


def _modules(machine: Machine, directory: str) -> list[tuple[str, str]]:
    """The directories of the modules, with the prefix of their files; raises OSError."""
    names = [name for name in machine.listing(directory) if _MODULE.fullmatch(name)]
    return [(f"{directory}/{name}", "dimm_") for name in sorted(names)]


def _label(machine: Machine, place: str) -> str:
    """The module's name as on the mainboard, if the driver or the admin set one."""
    name = place.rsplit("/", 1)[-1]
    try:
        label = text_of(machine, f"{place}/dimm_label")
    except FileNotFoundError:
        label = ""
    # Empty slots' labels repeat; the kernel's own name never does.
    return f"{name} {printable(label)}" if label else name
