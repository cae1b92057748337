"""The chips of ``/sys/class/hwmon``: their inputs, limits, alarms and faults.

Read one by one: what reads all of them at once leaves out what cannot be read, and a temperature
that is left out looks like one that is fine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.results import located_reason, number_of, text_of

_CLASS: Final = "/sys/class/hwmon"

_FLAG: Final = re.compile(r"(?P<input>[a-z]+[0-9]+)_(?P<what>(?:[a-z0-9]+_)*alarm|fault)")

#: Where the kernel has thousandths.
_THOUSAND: Final = 1000


class Flag(NamedTuple):
    """A file that is 1 while a chip itself finds something wrong."""

    file: str
    input: str
    """``temp1``, ``fan2``, ``in0``"""
    what: str
    """``alarm``, ``crit_alarm``, ``fault``"""


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
        return sorted(found[1] for file in self.files if (found := pattern.fullmatch(file)))

    def flags(self) -> list[Flag]:
        """The alarms and faults the chip can report."""
        found = (_FLAG.fullmatch(file) for file in sorted(self.files))
        return [Flag(one[0], one["input"], one["what"]) for one in found if one]

    def number(self, file: str) -> int | None:
        """A number of the chip; None where it has no such file; raises OSError, ValueError."""
        return number_of(self.machine, f"{self.directory}/{file}") if file in self.files else None

    def degrees(self, file: str) -> float | None:
        """A temperature in degrees Celsius; None as above; raises OSError, ValueError."""
        number = self.number(file)
        return None if number is None else number / _THOUSAND

    def label(self, one: str) -> str:
        """The label of an input, or else its name; raises OSError."""
        file = f"{one}_label"
        label = text_of(self.machine, f"{self.directory}/{file}") if file in self.files else ""
        return label or one

    def names(self, one: str) -> tuple[str, ...]:
        """What patterns of the configuration may call an input; raises OSError."""
        parts = dict.fromkeys((self.label(one), one))
        chips = dict.fromkeys((self.name, self.full_name))
        return (*chips, *(f"{chip}:{part}" for chip in chips for part in parts))


def read_chips(machine: Machine) -> tuple[Sequence[Chip], Sequence[str]]:
    """The chips, and why others could not be read; raises OSError."""
    chips: list[Chip] = []
    unread: list[str] = []
    try:
        names = machine.listing(_CLASS)
    except FileNotFoundError:
        return (), ()
    for name in names:
        try:
            chips.append(_chip(machine, f"{_CLASS}/{name}"))
        except OSError as err:
            unread.append(located_reason(err))
    return chips, unread


def _chip(machine: Machine, directory: str) -> Chip:
    device = ""
    with suppress(FileNotFoundError):
        device = machine.target(f"{directory}/device").rstrip("/").rsplit("/", 1)[-1]
    files = machine.listing(directory)
    if "name" not in files:
        # Old drivers have all their files with the device.
        directory = f"{directory}/device"
        files = machine.listing(directory)
    return Chip(machine, directory, text_of(machine, f"{directory}/name"), device, frozenset(files))
