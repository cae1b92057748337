"""The kernel's sensors: chips that are too hot or raise an alarm, and fans that stand still.

The files of ``/sys/class/hwmon`` are read one by one: what reads all of them at once leaves out
what cannot be read, and a temperature that is left out looks like one that is fine.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Final, NamedTuple, TypeGuard

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.diagnose.collectors.shared import results, thresholds
from ganeti_steward.diagnose.collectors.shared.reading import (
    located_reason,
    number_of,
    text_of,
)
from ganeti_steward.diagnose.model.machine import Machine

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

_CLASS: Final = "/sys/class/hwmon"

#: A file that is 1 while a chip itself finds something wrong.
_FLAG: Final = re.compile(r"(?P<input>[a-z]+[0-9]+)_(?P<what>(?:[a-z0-9]+_)*alarm|fault)")

#: Where the kernel has thousandths.
_THOUSAND: Final = 1000


class Settings(NamedTuple):
    """[collector.sensors]: the checks of temperatures and fans."""

    limits: Annotated[
        tuple[str, ...],
        thresholds.LIMITS,
        "Critical temperatures that replace the chip's own, in degrees Celsius: "
        '"CHIP=DEGREES" or "CHIP:LABEL=DEGREES", with shell patterns; the first match is used. '
        "CHIP may be CHIP:DEVICE.",
    ] = ()
    margin: Annotated[
        thresholds.Figure,
        "Degrees by which a temperature must fall below its limit before a finding changes.",
    ] = 3.0
    single_limit_chips: Annotated[
        tuple[str, ...],
        "Chips (shell patterns) whose limit is used even if they report only one.",
    ] = ("coretemp", "drivetemp", "nvme")
    ignore: Annotated[
        tuple[str, ...],
        "Sensors that are neither read nor checked: shell patterns of CHIP or CHIP:LABEL.",
    ] = ()
    fans: Annotated[tuple[str, ...], "Fans that must turn: shell patterns of CHIP:LABEL."] = ()
    alarm_chips: Annotated[
        tuple[str, ...],
        "Chips (shell patterns of CHIP or CHIP:LABEL) whose own alarms and faults are used. "
        "Alarms of critical temperatures are used on every chip.",
    ] = ("nvme", "pmbus", "ibmpowernv")
    hot_status: Annotated[
        thresholds.Status,
        "A temperature has reached its critical limit, or the chip reports that.",
    ] = LIVE_REPAIR
    fan_status: Annotated[
        thresholds.Status,
        "A fan of `fans` stands still, or its chip reports it as faulty.",
    ] = LIVE_REPAIR
    alarm_status: Annotated[thresholds.Status, "A chip reports another alarm or fault."] = (
        LIVE_REPAIR
    )
    repair: thresholds.Repair = ""


class Chip(NamedTuple):
    """One chip; several may have the same name, each with a device of its own."""

    machine: Machine
    directory: str
    name: str
    device: str
    """the end of its device link, such as ``nvme0``; empty where it has none"""
    files: frozenset[str]

    @property
    def full_name(self) -> str:
        """Name and device, as far as there is one."""
        return f"{self.name}:{self.device}" if self.device else self.name

    def inputs(self, kind: str) -> list[str]:
        """The inputs of one kind that have a reading: ``temp1``, ``temp2``."""
        pattern = re.compile(rf"({kind}[0-9]+)_input")
        return sorted(match[1] for file in self.files if (match := pattern.fullmatch(file)))

    def number(self, file: str) -> int | None:
        """A number of the chip; None where it has no such file; raises OSError, ValueError."""
        return number_of(self.machine, f"{self.directory}/{file}") if file in self.files else None

    def degrees(self, file: str) -> float | None:
        """A temperature in degrees Celsius; None as above; raises OSError, ValueError."""
        number = self.number(file)
        return None if number is None else number / _THOUSAND

    def label(self, input_name: str) -> str:
        """The label of an input, or else its name; raises OSError."""
        file = f"{input_name}_label"
        label = text_of(self.machine, f"{self.directory}/{file}") if file in self.files else ""
        return label or input_name

    def names(self, input_name: str) -> tuple[str, ...]:
        """What patterns of the configuration may call an input; raises OSError."""
        parts = dict.fromkeys((self.label(input_name), input_name))
        chips = dict.fromkeys((self.name, self.full_name))
        return (*chips, *(f"{chip}:{part}" for chip in chips for part in parts))


class Collector(thresholds.Configured[Settings]):
    """Compares temperatures with the limits of their chips, and checks the configured fans."""

    CONFIG = Settings

    @hookimpl
    @results.unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about temperatures, fans and alarms."""
        names: Sequence[str] = ()
        with suppress(FileNotFoundError):
            names = machine.listing(_CLASS)
        chips: list[Chip] = []
        unread: list[str] = []
        for name in names:
            try:
                chips.append(_chip(machine, f"{_CLASS}/{name}"))
            except OSError as err:
                unread.append(located_reason(err))
        if unread:
            yield Unknown(NAME, printable("; ".join(sorted(unread))))
        by_name: dict[str, results.Examined] = defaultdict(lambda: results.Examined([], []))
        for chip in chips:
            examined = results.Examined([], [])
            checks = (self._check_temperatures, self._check_fans, self._check_flags)
            checked = [check(chip, *examined) for check in checks]
            if any(checked) or examined.unknowns:
                by_name[chip.full_name].faults.extend(examined.faults)
                by_name[chip.full_name].unknowns.extend(examined.unknowns)
        self._check_missing_fans(chips, by_name)
        if not by_name and not unread:
            reason = "no sensor has a limit" if chips else "there are no sensors"
            yield NotApplicable(NAME, reason)
        for name, (faults, unknowns) in sorted(by_name.items()):
            source = f"{NAME}:{printable(name)}"
            yield from results.check_results(source, faults, unknowns, self._settings.repair)

    def _check_temperatures(
        self, chip: Chip, faults: list[results.Fault], unknowns: list[str]
    ) -> bool:
        """Compare the temperatures that have a limit; whether there was one."""
        compared = False
        hot: list[bool | None] = []
        for name in chip.inputs("temp"):
            with _noting(unknowns):
                limit = self._limit(chip, name)
                if limit is None:
                    continue
                compared = True
                current = chip.degrees(f"{name}_input")
                if _is_plausible(current) and not chip.number(f"{name}_fault"):
                    hot.append(results.above(current, limit, self._settings.margin))
        # Which of its cores is over the limit changes all the time: that one is, stays.
        if True in hot:
            faults.append(results.Fault(self._settings.hot_status, "too hot"))
        elif None in hot:
            unknowns.append("too near to the limit to decide")
        elif compared and not hot and not unknowns:
            unknowns.append("no temperature is plausible")
        return compared

    def _limit(self, chip: Chip, name: str) -> float | None:
        """Degrees; None if there is no limit, or it is ignored; raises OSError, ValueError."""
        names, settings = chip.names(name), self._settings
        if _matches_any(names, settings.ignore):
            return None
        configured = thresholds.limit_of(settings.limits, *names)
        if configured is not None:
            return configured
        high, critical = chip.degrees(f"{name}_max"), chip.degrees(f"{name}_crit")
        limit = critical or high
        if not _is_limit(limit):
            return None
        # Mainboards often have wrong high limits; only few chips have reliable ones.
        single = not critical or not high or high == critical
        return (
            limit if not single or results.matches(chip.name, settings.single_limit_chips) else None
        )

    def _check_fans(self, chip: Chip, faults: list[results.Fault], unknowns: list[str]) -> bool:
        """Check the fans that have to turn; whether there was one."""
        checked = False
        for name in chip.inputs("fan"):
            with _noting(unknowns):
                if not _matches_any(chip.names(name), self._settings.fans):
                    continue
                checked = True
                label, speed = printable(chip.label(name)), chip.number(f"{name}_input")
                if speed == 0:
                    faults.append(results.Fault(self._settings.fan_status, f"{label} stands still"))
                elif speed is None or not 0 < speed <= _FASTEST:
                    unknowns.append(f"the speed of {label} is not plausible")
        return checked

    def _check_missing_fans(
        self, chips: Sequence[Chip], by_name: dict[str, results.Examined]
    ) -> None:
        for pattern in self._settings.fans:
            if any(_has_fan(chip, pattern) for chip in chips):
                continue
            name = pattern.partition(":")[0]
            # An earlier finding about the fan is one about its chip.
            same = [chip.full_name for chip in chips if results.matches(chip.name, (name,))]
            for full_name in same or [name]:
                reason = f"there is no fan {printable(pattern)}"
                by_name[full_name].unknowns.append(reason)

    def _check_flags(self, chip: Chip, faults: list[results.Fault], unknowns: list[str]) -> bool:
        """Check the chip's own alarms and faults; whether there was one that counts."""
        checked = False
        for file in sorted(chip.files):
            with _noting(unknowns):
                flag = _FLAG.fullmatch(file)
                if flag and self._counts(chip, *flag.groups()):
                    checked = True
                    if chip.number(file):
                        faults.append(self._flag_fault(chip, *flag.groups()))
        return checked

    def _counts(self, chip: Chip, input_name: str, what: str) -> bool:
        """Whether an alarm or fault means anything; raises OSError, ValueError."""
        names, settings = chip.names(input_name), self._settings
        if _matches_any(names, settings.ignore):
            return False
        if input_name.startswith("temp") and what in _HOT_ALARMS:
            # Of limits that were never set, chips raise an alarm all the time.
            limit = chip.degrees(f"{input_name}_{_HOT_ALARMS[what]}")
            unset = limit is not None and not _is_limit(limit)
            if unset or thresholds.limit_of(settings.limits, *names) is not None:
                return False
            if what in _CRITICAL_ALARMS:
                return True
        is_fan = input_name.startswith("fan") and _matches_any(names, settings.fans)
        return is_fan or _matches_any(names, settings.alarm_chips)

    def _flag_fault(self, chip: Chip, input_name: str, what: str) -> results.Fault:
        """Raises OSError."""
        settings = self._settings
        text = f"{printable(chip.label(input_name))}: {'fault' if what == 'fault' else 'alarm'}"
        if input_name.startswith("temp") and what in _HOT_ALARMS:
            return results.Fault(settings.hot_status, "too hot")
        is_fan = input_name.startswith("fan")
        return results.Fault(settings.fan_status if is_fan else settings.alarm_status, text)


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
        return any(_matches_any(chip.names(name), (pattern,)) for name in chip.inputs("fan"))
    return True


def _matches_any(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(results.matches(name, patterns) for name in names)


def _is_limit(degrees: float | None) -> TypeGuard[float]:
    return _is_plausible(degrees) and degrees >= _LOWEST_LIMIT


def _is_plausible(degrees: float | None) -> TypeGuard[float]:
    return degrees is not None and _COLDEST < degrees < _HOTTEST and degrees != _NOTHING


def _chip(machine: Machine, directory: str) -> Chip:
    """Raises OSError."""
    device = ""
    with suppress(FileNotFoundError):
        device = machine.target(f"{directory}/device").rstrip("/").rsplit("/", 1)[-1]
    files = machine.listing(directory)
    if "name" not in files:
        # Old drivers have all their files with the device.
        directory = f"{directory}/device"
        files = machine.listing(directory)
    return Chip(machine, directory, text_of(machine, f"{directory}/name"), device, frozenset(files))
