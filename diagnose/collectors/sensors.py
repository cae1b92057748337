"""The kernel's sensors: chips that are too hot, and fans that stand still."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine, Reading
from ganeti_steward.diagnose.collectors.shared.limits import LIMITS, limit_of, read_limits
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    above,
    check_results,
    located_reason,
    matches,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Figure, Repair, Status

NAME: Final = "sensors"

#: Degrees; a running mainboard is never colder or hotter.
_COLDEST, _HOTTEST = -40.0, 150.0

#: What an input reads to which nothing is connected: all bits set, or all but the sign.
_NOTHING: Final = 127.0

#: Degrees; a limit below was never set.
_LOWEST_LIMIT: Final = 30.0

#: Revolutions per minute no fan reaches.
_FASTEST: Final = 60000.0


class Settings(NamedTuple):
    """[collector.sensors]: the checks of temperatures and fans."""

    limits: Annotated[
        tuple[str, ...],
        LIMITS,
        'Critical temperatures instead of those of the chip, in degrees Celsius: "CHIP=DEGREES" '
        'or "CHIP:LABEL=DEGREES", with shell patterns; the first that fits counts.',
    ] = ()
    margin: Annotated[
        Figure,
        "Degrees; a temperature below its limit by less than that leaves the last finding as it "
        "is.",
    ] = 3.0
    single_limit_chips: Annotated[
        tuple[str, ...],
        "Chips, as shell patterns, whose limit counts even when they report only one.",
    ] = ("coretemp", "drivetemp", "nvme")
    ignore: Annotated[
        tuple[str, ...],
        "Temperatures that are not checked, as shell patterns of CHIP or CHIP:LABEL.",
    ] = ()
    fans: Annotated[
        tuple[str, ...], "Fans that have to turn, as shell patterns of CHIP:LABEL."
    ] = ()
    hot_status: Annotated[
        Status, "The status when a temperature has reached its critical limit."
    ] = LIVE_REPAIR
    fan_status: Annotated[Status, "The status when one of the fans stands still."] = LIVE_REPAIR
    repair: Repair = ""


class _Chip(NamedTuple):
    """What was seen of the chips of one name; the kernel does not distinguish them."""

    faults: list[Fault]
    unknowns: list[str]


class Collector(Configured[Settings]):
    """Compares temperatures with the limits of their chips, and checks the configured fans."""

    CONFIG = Settings

    def configure(self, settings: Settings) -> None:
        """``settings``: the section of the configuration."""
        super().configure(settings)
        self._limits = read_limits(settings.limits)

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about temperatures and fans."""
        try:
            temperatures, fans = list(machine.temperatures()), list(machine.fans())
        except (OSError, ValueError) as err:
            yield Unknown(NAME, located_reason(err))
            return
        chips: dict[str, _Chip] = {}
        self._judge_temperatures(temperatures, chips)
        self._judge_fans(fans, chips)
        if not chips:
            reason = "no temperature has a limit" if temperatures else "there are no temperatures"
            yield NotApplicable(NAME, reason)
        for name, chip in sorted(chips.items()):
            source = f"{NAME}:{printable(name)}"
            yield from check_results(source, chip.faults, chip.unknowns, self._settings.repair)

    def _judge_temperatures(self, readings: Sequence[Reading], chips: dict[str, _Chip]) -> None:
        compared: dict[str, list[bool | None]] = {}
        for one in readings:
            limit = self._limit(one)
            if limit is not None and not _ignored(one, self._settings.ignore):
                hot = compared.setdefault(one.chip, [])
                if _is_plausible(one.current):
                    hot.append(above(one.current, limit, self._settings.margin))
        for name, hot in compared.items():
            chip = chips.setdefault(name, _Chip([], []))
            # Which of its cores is over the limit changes all the time: that one is, stays.
            if True in hot:
                chip.faults.append(Fault(self._settings.hot_status, "too hot"))
            elif None in hot:
                chip.unknowns.append("too near to the limit to decide")
            elif not hot:
                chip.unknowns.append("no temperature is plausible")

    def _limit(self, one: Reading) -> float | None:
        """Degrees; None if there is no limit."""
        configured = limit_of(self._limits, one.chip, _full_name(one))
        if configured is not None:
            return configured
        limit = one.critical
        if limit is None or not _is_plausible(limit) or limit < _LOWEST_LIMIT:
            return None
        # psutil fills a missing critical limit with the high one, and the other way round.
        # Mainboards often have wrong high limits; only few chips have reliable ones.
        if one.high == limit and not matches(one.chip, self._settings.single_limit_chips):
            return None
        return limit

    def _judge_fans(self, readings: Sequence[Reading], chips: dict[str, _Chip]) -> None:
        patterns = self._settings.fans
        for pattern in patterns:
            if not any(matches(_full_name(one), (pattern,)) for one in readings):
                chip = chips.setdefault(pattern.partition(":")[0], _Chip([], []))
                chip.unknowns.append(f"there is no fan {printable(pattern)}")
        for one in readings:
            if not matches(_full_name(one), patterns):
                continue
            chip = chips.setdefault(one.chip, _Chip([], []))
            label = printable(one.label) or "fan"
            if one.current == 0:
                chip.faults.append(Fault(self._settings.fan_status, f"{label} stands still"))
            elif not 0 < one.current <= _FASTEST:
                chip.unknowns.append(f"the speed of {label} is not plausible")


def _full_name(one: Reading) -> str:
    return f"{one.chip}:{one.label}"


def _ignored(one: Reading, patterns: Sequence[str]) -> bool:
    return matches(one.chip, patterns) or matches(_full_name(one), patterns)


def _is_plausible(degrees: float) -> bool:
    inside = math.isfinite(degrees) and _COLDEST < degrees < _HOTTEST
    return inside and degrees != _NOTHING
