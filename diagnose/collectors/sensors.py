"""The kernel's sensors: chips that are too hot or raise an alarm, and fans that stand still."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.hwmon import Chip, Flag, read_chips
from ganeti_steward.diagnose.collectors.shared.limits import LIMITS, limit_of, read_limits
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
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
_FASTEST: Final = 60000

#: Alarms that mean that a temperature is too high, with the limit that must make sense for it.
_HOT_ALARMS: Final = {
    "crit_alarm": "crit",
    "emergency_alarm": "emergency",
    "max_alarm": "max",
    "alarm": "",
}

#: Those of them that count on every chip.
_CRITICAL_ALARMS: Final = ("crit_alarm", "emergency_alarm")


class Settings(NamedTuple):
    """[collector.sensors]: the checks of temperatures and fans."""

    limits: Annotated[
        tuple[str, ...],
        LIMITS,
        'Critical temperatures instead of those of the chip, in degrees Celsius: "CHIP=DEGREES" '
        'or "CHIP:LABEL=DEGREES", with shell patterns; the first that fits counts. CHIP may '
        "be CHIP:DEVICE.",
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
        "Sensors that are neither read nor checked, as shell patterns of CHIP or CHIP:LABEL.",
    ] = ()
    fans: Annotated[
        tuple[str, ...], "Fans that have to turn, as shell patterns of CHIP:LABEL."
    ] = ()
    alarm_chips: Annotated[
        tuple[str, ...],
        "Chips, as shell patterns of CHIP or CHIP:LABEL, whose own alarms and faults count. Alarms "
        "of critical temperatures count on every chip.",
    ] = ("nvme", "pmbus", "ibmpowernv")
    hot_status: Annotated[
        Status,
        "The status when a temperature has reached its critical limit, or the chip reports that.",
    ] = LIVE_REPAIR
    fan_status: Annotated[
        Status, "The status when one of the fans stands still, or its chip reports it as faulty."
    ] = LIVE_REPAIR
    alarm_status: Annotated[Status, "The status after other alarms and faults of chips."] = (
        LIVE_REPAIR
    )
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Compares temperatures with the limits of their chips, and checks the configured fans."""

    CONFIG = Settings

    def configure(self, settings: Settings) -> None:
        """``settings``: the section of the configuration."""
        super().configure(settings)
        self._limits = read_limits(settings.limits)

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about temperatures, fans and alarms."""
        try:
            chips, unread = read_chips(machine)
        except OSError as err:
            yield Unknown(NAME, located_reason(err))
            return
        if unread:
            yield Unknown(NAME, printable("; ".join(sorted(unread))))
        found: dict[str, Examined] = {}
        for chip in chips:
            self._examine(chip, found)
        self._missing_fans(chips, found)
        if not found and not unread:
            reason = "no sensor has a limit" if chips else "there are no sensors"
            yield NotApplicable(NAME, reason)
        for name, (faults, unknowns) in sorted(found.items()):
            source = f"{NAME}:{printable(name)}"
            yield from check_results(source, faults, unknowns, self._settings.repair)

    def _examine(self, chip: Chip, found: dict[str, Examined]) -> None:
        """Add what is known of a chip, unless nothing of it is to be checked."""
        faults: list[Fault] = []
        unknowns: list[str] = []
        checked = [
            self._temperatures(chip, faults, unknowns),
            self._fans(chip, faults, unknowns),
            self._flags(chip, faults, unknowns),
        ]
        if any(checked) or unknowns:
            of_name = found.setdefault(chip.full_name, Examined([], []))
            of_name.faults.extend(faults)
            of_name.unknowns.extend(unknowns)

    def _temperatures(self, chip: Chip, faults: list[Fault], unknowns: list[str]) -> bool:
        """Compare the temperatures that have a limit; whether there was one."""
        compared = False
        hot: list[bool | None] = []
        for one in chip.inputs("temp"):
            with _noting(unknowns):
                if self._is_ignored(chip, one) or (limit := self._limit(chip, one)) is None:
                    continue
                compared = True
                current = chip.degrees(f"{one}_input")
                if (
                    current is not None
                    and _is_plausible(current)
                    and not chip.number(f"{one}_fault")
                ):
                    hot.append(above(current, limit, self._settings.margin))
        # Which of its cores is over the limit changes all the time: that one is, stays.
        if True in hot:
            faults.append(Fault(self._settings.hot_status, "too hot"))
        elif None in hot:
            unknowns.append("too near to the limit to decide")
        elif compared and not hot and not unknowns:
            unknowns.append("no temperature is plausible")
        return compared

    def _is_ignored(self, chip: Chip, one: str) -> bool:
        """Raises OSError."""
        return _matches_any(chip.names(one), self._settings.ignore)

    def _limit(self, chip: Chip, one: str) -> float | None:
        """Degrees; None if there is no limit; raises OSError, ValueError."""
        configured = limit_of(self._limits, *chip.names(one))
        if configured is not None:
            return configured
        high, critical = chip.degrees(f"{one}_max"), chip.degrees(f"{one}_crit")
        limit = critical or high
        if limit is None or not _is_limit(limit):
            return None
        # Mainboards often have wrong high limits; only few chips have reliable ones.
        single = not critical or not high or high == critical
        if single and not matches(chip.name, self._settings.single_limit_chips):
            return None
        return limit

    def _fans(self, chip: Chip, faults: list[Fault], unknowns: list[str]) -> bool:
        """Check the fans that have to turn; whether there was one."""
        checked = False
        for one in chip.inputs("fan"):
            with _noting(unknowns):
                if not _matches_any(chip.names(one), self._settings.fans):
                    continue
                checked = True
                label, speed = printable(chip.label(one)), chip.number(f"{one}_input")
                if speed == 0:
                    faults.append(Fault(self._settings.fan_status, f"{label} stands still"))
                elif speed is None or not 0 < speed <= _FASTEST:
                    unknowns.append(f"the speed of {label} is not plausible")
        return checked

    def _missing_fans(self, chips: Sequence[Chip], found: dict[str, Examined]) -> None:
        for pattern in self._settings.fans:
            if any(_has_fan(chip, pattern) for chip in chips):
                continue
            name = pattern.partition(":")[0]
            # An earlier finding about the fan is one about its chip.
            same = [chip.full_name for chip in chips if matches(chip.name, (name,))]
            for full_name in same or [name]:
                unknowns = found.setdefault(full_name, Examined([], [])).unknowns
                unknowns.append(f"there is no fan {printable(pattern)}")

    def _flags(self, chip: Chip, faults: list[Fault], unknowns: list[str]) -> bool:
        """Check the chip's own alarms and faults; whether there was one that counts."""
        checked = False
        for flag in chip.flags():
            with _noting(unknowns):
                if self._is_ignored(chip, flag.input) or not self._counts(chip, flag):
                    continue
                checked = True
                if chip.number(flag.file):
                    faults.append(self._flag_fault(chip, flag))
        return checked

    def _counts(self, chip: Chip, flag: Flag) -> bool:
        """Whether an alarm or fault means anything; raises OSError, ValueError."""
        names, settings = chip.names(flag.input), self._settings
        if flag.input.startswith("temp") and flag.what in _HOT_ALARMS:
            # Of limits that were never set, chips raise an alarm all the time.
            limit = chip.degrees(f"{flag.input}_{_HOT_ALARMS[flag.what]}")
            unset = limit is not None and not _is_limit(limit)
            if unset or limit_of(self._limits, *names) is not None:
                return False
            if flag.what in _CRITICAL_ALARMS:
                return True
        is_fan = flag.input.startswith("fan") and _matches_any(names, settings.fans)
        return is_fan or _matches_any(names, settings.alarm_chips)

    def _flag_fault(self, chip: Chip, flag: Flag) -> Fault:
        settings, label = self._settings, printable(chip.label(flag.input))
        what = "fault" if flag.what == "fault" else "alarm"
        if flag.input.startswith("temp") and flag.what in _HOT_ALARMS:
            return Fault(settings.hot_status, "too hot")
        is_fan = flag.input.startswith("fan")
        return Fault(settings.fan_status if is_fan else settings.alarm_status, f"{label}: {what}")


#: What is loaded: a class is made into an object.
plugin: Final = Collector


@contextmanager
def _noting(unknowns: list[str]) -> Iterator[None]:
    """Continue after a file that cannot be read, and add the reason to the unknowns."""
    try:
        yield
    except (OSError, ValueError) as err:
        # The kernel's number of a chip changes from start to start: its last part is enough.
        where = str(err.filename or "").rsplit("/", 1)[-1] if isinstance(err, OSError) else ""
        unknowns.append(printable(f"{where or 'a sensor'} cannot be read"))


def _has_fan(chip: Chip, pattern: str) -> bool:
    with suppress(OSError):
        return any(_matches_any(chip.names(one), (pattern,)) for one in chip.inputs("fan"))
    return True


def _matches_any(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(matches(name, patterns) for name in names)


def _is_limit(degrees: float) -> bool:
    return _is_plausible(degrees) and degrees >= _LOWEST_LIMIT


def _is_plausible(degrees: float) -> bool:
    return _COLDEST < degrees < _HOTTEST and degrees != _NOTHING
