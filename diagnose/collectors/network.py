"""Network links: interfaces of hardware, and the bonds made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.increases import DAY, Increase, increases
from ganeti_steward.diagnose.collectors.shared.interfaces import (
    CARRIER_CHANGES,
    CRC_ERRORS,
    Interface,
    read_bond,
    read_counter,
    read_interfaces,
    read_link,
)
from ganeti_steward.diagnose.collectors.shared.limits import LIMITS, limit_of, read_limits
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    check_results,
    located_reason,
    matches,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    Configured,
    Count,
    Figure,
    Repair,
    Status,
)

NAME: Final = "network"


class Settings(NamedTuple):
    """[collector.network]: the checks of network links."""

    ignore: Annotated[tuple[str, ...], "Interfaces that are not checked, as shell patterns."] = ()
    required: Annotated[tuple[str, ...], "Interfaces that have to exist and to be up."] = ()
    least_speed: Annotated[Figure, "The least speed of a link, in Mbit/s; 0 for any."] = 0.0
    speeds: Annotated[
        tuple[str, ...],
        LIMITS,
        'The least speed of some interfaces, in Mbit/s: "PATTERN=NUMBER"; the first pattern that '
        "fits counts.",
    ] = ()
    least_ports: Annotated[Count, "Ports a bond has to have, with or without a link."] = 1
    no_link_status: Annotated[
        Status, "The status when an interface has no link, or a required one is missing or down."
    ] = LIVE_REPAIR
    bond_status: Annotated[
        Status, "The status when a bond has too few ports, or a port carries nothing."
    ] = LIVE_REPAIR
    speed_status: Annotated[Status, "The status when a link is too slow or half duplex."] = (
        LIVE_REPAIR
    )
    carrier_changes_per_day: Annotated[
        Count, "How often a link may come or go in a day; 0 for any number."
    ] = 20
    crc_errors_per_day: Annotated[
        Count, "Frames with a wrong checksum a link may receive in a day; 0 for any number."
    ] = 1000
    unstable_status: Annotated[
        Status, "The status when a link exceeds carrier-changes-per-day or crc-errors-per-day."
    ] = LIVE_REPAIR
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at each interface of hardware and each bond that is up."""

    CONFIG = Settings

    def configure(self, settings: Settings) -> None:
        """``settings``: the section of the configuration."""
        super().configure(settings)
        self._speeds = read_limits(settings.speeds)

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the node's links."""
        try:
            interfaces, unread = read_interfaces(machine)
        except OSError as err:
            yield Unknown(NAME, located_reason(err))
            return
        results = [*self._missing(interfaces, unread), *self._unread(unread)]
        bonds = {one.name for one in interfaces if one.is_bond and one.up}
        checked: list[Interface] = []
        for one in interfaces:
            # A port of a bond counts even when it is down: the bond wants it.
            wanted = one.bond in bonds if one.bond else one.up and (one.is_bond or one.is_hardware)
            if wanted and not matches(one.name, self._settings.ignore):
                checked.append(one)
        unstable = self._unstable(machine, [one for one in checked if not one.is_bond])
        for one in checked:
            results += self._check(machine, one, unstable.get(one.name, Examined([], [])))
        yield from results or [NotApplicable(NAME, "no interface of hardware is up")]

    def _missing(
        self, interfaces: Sequence[Interface], unread: Mapping[str, str]
    ) -> Iterator[CheckResult]:
        """The results of required interfaces that are not up."""
        up = {one.name: one.up for one in interfaces}
        for name in dict.fromkeys(self._settings.required):
            if name not in unread and not up.get(name):
                text = "down" if name in up else "missing"
                yield from self._result(name, [Fault(self._settings.no_link_status, text)], [])

    def _unread(self, unread: Mapping[str, str]) -> Iterator[CheckResult]:
        for name, reason in unread.items():
            if not matches(name, self._settings.ignore):
                yield from self._result(name, [], [reason])

    def _check(self, machine: Machine, one: Interface, unstable: Examined) -> Iterator[CheckResult]:
        check = self._bond if one.is_bond else self._link
        faults, unknowns = check(machine, one)
        yield from self._result(
            one.name, [*faults, *unstable.faults], [*unknowns, *unstable.unknowns]
        )

    def _unstable(self, machine: Machine, links: Iterable[Interface]) -> dict[str, Examined]:
        """What the counters of links have counted since earlier runs, by interface."""
        settings, found = self._settings, dict[str, Examined]()
        counts: dict[str, int] = {}
        checks = (
            (CARRIER_CHANGES, settings.carrier_changes_per_day, "link comes and goes"),
            (CRC_ERRORS, settings.crc_errors_per_day, "CRC errors"),
        )
        for one in links:
            known = found[one.name] = Examined([], [])
            for file, limit, _ in checks:
                try:
                    number = read_counter(machine, one.name, file) if limit else None
                except (OSError, ValueError) as err:
                    known.unknowns.append(located_reason(err))
                    continue
                if number is not None:
                    counts[f"{one.name} {file}"] = number
        lately: Mapping[str, Increase] = {}
        try:
            lately = increases(machine, NAME, counts)
        except (OSError, ValueError) as err:
            for name in {key.partition(" ")[0] for key in counts}:
                found[name].unknowns.append(located_reason(err))
        for name, known in found.items():
            for file, limit, text in checks:
                since = lately.get(f"{name} {file}")
                if since and since.by * DAY / max(since.seconds, DAY) > limit:
                    known.faults.append(Fault(settings.unstable_status, text))
        return found

    def _result(
        self, name: str, faults: Sequence[Fault], unknowns: Sequence[str]
    ) -> Iterator[CheckResult]:
        yield from check_results(
            f"{NAME}:{printable(name)}", faults, unknowns, self._settings.repair
        )

    def _bond(self, machine: Machine, one: Interface) -> Examined:
        """Faults of a bond itself; its ports are checked by themselves."""
        settings = self._settings
        try:
            bond = read_bond(machine, one.name)
        except (OSError, ValueError) as err:
            return Examined([], [located_reason(err)])
        found = Examined([], [])
        if len(bond.ports) < settings.least_ports:
            found.faults.append(
                Fault(settings.bond_status, f"fewer than {settings.least_ports} ports")
            )
        if not bond.has_link:
            found.faults.append(Fault(settings.no_link_status, "no link"))
        return found

    def _link(self, machine: Machine, one: Interface) -> Examined:
        settings = self._settings
        try:
            link = read_link(machine, one)
        except (OSError, ValueError) as err:
            return Examined([], [located_reason(err)])
        if link.changing:
            return Examined([], ["its link is just changing"])
        if not link.carrier:
            return Examined([Fault(settings.no_link_status, "no link")], [])
        found = Examined([], [])
        if not link.in_use:
            found.faults.append(Fault(settings.bond_status, "not in the aggregator its bond uses"))
        if link.half_duplex:
            found.faults.append(Fault(settings.speed_status, "half duplex"))
        least = limit_of(self._speeds, one.name)
        least = settings.least_speed if least is None else least
        if least and link.speed is None:
            found.unknowns.append("its speed is not known")
        elif least and link.speed is not None and link.speed < least:
            found.faults.append(Fault(settings.speed_status, "too slow"))
        return found


#: What is loaded: a class is made into an object.
plugin: Final = Collector
