"""Network links: interfaces of hardware, and the bonds made of them.

Read from ``/sys/class/net``.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, SUSPECT, CheckResult, NotApplicable
from ganeti_steward.diagnose.collectors.shared import reading, thresholds
from ganeti_steward.diagnose.collectors.shared.increases import DAY, Increase, increases
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    check_results,
    matches,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "network"

_INTERFACES: Final = "/sys/class/net"

#: A file between the directories of the interfaces.
_BONDS: Final = "bonding_masters"

#: What a port of an adapter's own switch is called that leads to a virtual function.
_TO_FUNCTION: Final = re.compile(r"(?:c[0-9]+)?pf[0-9]+[vs]f[0-9]+")

_FLAGS: Final = re.compile(r"0x[0-9a-f]+")
_IS_UP: Final = 1

#: How a driver refuses what it does not know; also of an interface that is down.
_NOT_REPORTED: Final = (errno.EINVAL, errno.EOPNOTSUPP)

#: Counters of an interface.
_CARRIER_CHANGES: Final = "carrier_changes"
_CRC_ERRORS: Final = "statistics/rx_crc_errors"


class Settings(NamedTuple):
    """[collector.network]: the checks of network links."""

    ignore: Annotated[tuple[str, ...], "Interfaces to skip (shell patterns)."] = ()
    required: Annotated[tuple[str, ...], "Interfaces that must exist and be up."] = ()
    least_speed: Annotated[
        thresholds.Figure, "The least speed of a link, in Mbit/s; 0 for any."
    ] = 0.0
    speeds: Annotated[
        tuple[str, ...],
        thresholds.LIMITS,
        'The least speed of some interfaces, in Mbit/s: "PATTERN=NUMBER"; the first match is used.',
    ] = ()
    least_ports: Annotated[thresholds.Count, "Ports a bond must have, with or without a link."] = 1
    no_link_status: Annotated[
        thresholds.Status,
        "An interface has no link, or a required one is missing or down.",
    ] = LIVE_REPAIR
    bond_status: Annotated[
        thresholds.Status, "A bond has too few ports, or a port carries nothing."
    ] = LIVE_REPAIR
    speed_status: Annotated[thresholds.Status, "A link is too slow or half duplex."] = LIVE_REPAIR
    carrier_changes_per_day: Annotated[
        thresholds.Count, "Times a day a link may come or go; 0: no limit."
    ] = 20
    crc_errors_per_day: Annotated[
        thresholds.Count,
        "Frames with a wrong checksum a link may receive in a day; 0: no limit.",
    ] = 1000
    unstable_status: Annotated[
        thresholds.Status,
        "A link exceeds carrier-changes-per-day or crc-errors-per-day.",
    ] = LIVE_REPAIR
    suspect_changes_per_day: Annotated[
        thresholds.Count,
        "Times a day a link may come or go without being suspect; 0: no limit.",
    ] = 4
    suspect_status: Annotated[
        thresholds.Status,
        "A link exceeds suspect-changes-per-day, but not carrier-changes-per-day.",
    ] = SUSPECT
    repair: thresholds.Repair = ""


class Interface(NamedTuple):
    """What an interface is."""

    name: str
    up: bool
    """whether the admin wants it up; it may lack a link all the same"""
    is_hardware: bool
    """a device's own; what has a device, but has its other end in an instance, is none"""
    is_bond: bool
    bond: str
    """the bond it is a port of; empty for none"""

    def is_wanted(self, bonds: Collection[str]) -> bool:
        """Whether it has to have a link; ``bonds``: those that are up.

        A port of a bond counts even when it is down: the bond wants it.
        """
        if self.bond:
            return self.bond in bonds
        return self.up and (self.is_bond or self.is_hardware)


class Collector(thresholds.Configured[Settings]):
    """Looks at each interface of hardware and each bond that is up."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the node's links."""
        interfaces, unread = _read_interfaces(machine)
        results = list(self._missing(interfaces, unread))
        for name, reason in unread.items():
            if not matches(name, self._settings.ignore):
                results += self._results(name, [], [reason])
        bonds = {bond.name for bond in interfaces if bond.is_bond and bond.up}
        checked = [
            interface
            for interface in interfaces
            if interface.is_wanted(bonds) and not matches(interface.name, self._settings.ignore)
        ]
        counted = self._counted(machine, [link.name for link in checked if not link.is_bond])
        for interface in checked:
            examined = counted.get(interface.name, Examined([], []))
            check = self._check_bond if interface.is_bond else self._check_link
            with reading.noting_unknowns(examined.unknowns):
                check(machine, interface, examined.faults)
            results += self._results(interface.name, *examined)
        yield from results or [NotApplicable(NAME, "no interface of hardware is up")]

    def _results(
        self, name: str, faults: Sequence[Fault], unknowns: Sequence[str]
    ) -> Iterator[CheckResult]:
        return check_results(f"{NAME}:{printable(name)}", faults, unknowns, self._settings.repair)

    def _missing(
        self, interfaces: Sequence[Interface], unread: Mapping[str, str]
    ) -> Iterator[CheckResult]:
        """The results of required interfaces that are not up."""
        up = {interface.name: interface.up for interface in interfaces}
        for name in dict.fromkeys(self._settings.required):
            if name not in unread and not up.get(name):
                text = "down" if name in up else "missing"
                yield from self._results(name, [Fault(self._settings.no_link_status, text)], [])

    def _counted(self, machine: Machine, links: Iterable[str]) -> dict[str, Examined]:
        """What the counters of links have counted since earlier runs, by interface."""
        settings, counts = self._settings, dict[str, int]()
        links = {name: Examined([], []) for name in links}
        unstable, soft = settings.unstable_status, settings.suspect_status
        # Ok turns off the whole kind.
        flaps = 0 if unstable == OK else settings.suspect_changes_per_day
        checks = (
            (_CARRIER_CHANGES, settings.carrier_changes_per_day, unstable, "link comes and goes"),
            (_CARRIER_CHANGES, flaps, soft, "link flaps"),
            (_CRC_ERRORS, settings.crc_errors_per_day, unstable, "CRC errors"),
        )
        for name, examined in links.items():
            for file, limit, *_ in checks:
                with reading.noting_unknowns(examined.unknowns), suppress(FileNotFoundError):
                    if limit:
                        path = f"{_INTERFACES}/{name}/{file}"
                        counts[f"{name} {file}"] = reading.number_of(machine, path)
        lately: Mapping[str, Increase] = {}
        unknowns: list[str] = []
        with reading.noting_unknowns(unknowns):
            lately = increases(machine, NAME, counts)
        for name, examined in links.items():
            found: set[str] = set()
            for file, limit, status, text in checks:
                since = lately.get(f"{name} {file}")
                per_day = since.by * DAY / max(since.seconds, DAY) if since else 0.0
                if limit and per_day > limit and file not in found:
                    found.add(file)
                    examined.faults.append(Fault(status, text))
            if any(f"{name} {file}" in counts for file, *_ in checks):
                examined.unknowns.extend(unknowns)
        return links

    def _check_bond(self, machine: Machine, bond: Interface, faults: list[Fault]) -> None:
        """Add faults of a bond itself; its ports are checked by themselves.

        Raises OSError, ValueError.
        """
        settings, directory = self._settings, f"{_INTERFACES}/{bond.name}/bonding"
        ports = reading.text_of(machine, f"{directory}/slaves").split()
        has_link = _state(machine, f"{directory}/mii_status") == "up"
        if len(ports) < settings.least_ports:
            faults.append(Fault(settings.bond_status, f"fewer than {settings.least_ports} ports"))
        if not has_link:
            faults.append(Fault(settings.no_link_status, "no link"))

    def _check_link(self, machine: Machine, link: Interface, faults: list[Fault]) -> None:
        """Add faults of an interface that is up, or of a bond's port.

        Raises OSError, ValueError.
        """
        settings, directory = self._settings, f"{_INTERFACES}/{link.name}"
        # What the bond thinks of its port counts too: it may probe its neighbours, not the driver.
        state = _state(machine, f"{directory}/bonding_slave/mii_status") if link.bond else "up"
        carrier = state != "down" and _flag(machine, f"{directory}/carrier")
        if state.startswith("going"):
            # The bond still waits whether the link stays as it is.
            raise reading.MissingData("its link is just changing")
        if not carrier:
            faults.append(Fault(settings.no_link_status, "no link"))
            return
        speed = _speed(machine, f"{directory}/speed")
        half_duplex = _reported(machine, f"{directory}/duplex") == "half"
        if not _is_in_use(machine, link):
            faults.append(Fault(settings.bond_status, "not in the aggregator its bond uses"))
        if half_duplex:
            faults.append(Fault(settings.speed_status, "half duplex"))
        configured = thresholds.limit_of(settings.speeds, link.name)
        least = settings.least_speed if configured is None else configured
        if least and speed is None:
            raise reading.MissingData("its speed is not known")
        if speed is not None and speed < least:
            faults.append(Fault(settings.speed_status, "too slow"))


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _read_interfaces(machine: Machine) -> tuple[list[Interface], dict[str, str]]:
    """All interfaces, and those that could not be read with the reason; raises OSError."""
    interfaces: list[Interface] = []
    unread: dict[str, str] = {}
    for name in sorted(machine.listing(_INTERFACES)):
        if name == _BONDS:
            continue
        try:
            interfaces.append(_interface(machine, name))
        except FileNotFoundError:
            # An instance's interface goes with the instance, at any moment.
            continue
        except (OSError, ValueError) as err:
            unread[name] = reading.located_reason(err)
    return interfaces, unread


def _interface(machine: Machine, name: str) -> Interface:
    directory = f"{_INTERFACES}/{name}"
    flags = reading.text_of(machine, f"{directory}/flags")
    if not _FLAGS.fullmatch(flags):
        raise ValueError(f"{printable(directory)}/flags holds no flags")
    has = set(machine.listing(directory))
    hardware = "device" in has and not _is_of_an_instance(machine, directory)
    bond = machine.target(f"{directory}/master") if "bonding_slave" in has else ""
    return Interface(
        name,
        bool(int(flags, 16) & _IS_UP),
        hardware,
        "bonding" in has,
        bond.rsplit("/", 1)[-1],
    )


def _is_of_an_instance(machine: Machine, directory: str) -> bool:
    """Whether an interface has a device for the sake of an instance only; raises OSError.

    A virtual function, the adapter's port to one, or Xen's end of an instance's interface:
    they lose their link when the instance does not use them.
    """
    if "physfn" in machine.listing(f"{directory}/device"):
        return True
    with suppress(OSError):
        if machine.target(f"{directory}/device/subsystem").endswith("/xen-backend"):
            return True
    # Most drivers have no name for a port, and refuse.
    with suppress(OSError):
        return bool(_TO_FUNCTION.fullmatch(reading.text_of(machine, f"{directory}/phys_port_name")))
    return False


def _state(machine: Machine, path: str) -> str:
    state = reading.text_of(machine, path)
    if state not in ("up", "down", "going down", "going back"):
        raise ValueError(f"{path} holds no state of a link")
    return state


def _flag(machine: Machine, path: str) -> bool:
    number = reading.number_of(machine, path)
    if number not in (0, 1):
        raise ValueError(f"{path} is neither 0 nor 1")
    return bool(number)


def _is_in_use(machine: Machine, port: Interface) -> bool:
    """False for a port whose switch is not in one 802.3ad group with the others'."""
    if not port.bond:
        return True
    bond = f"{_INTERFACES}/{port.bond}/bonding"
    if reading.text_of(machine, f"{bond}/mode").split()[:1] != ["802.3ad"]:
        return True
    used = reading.number_of(machine, f"{bond}/ad_aggregator")
    return (
        reading.number_of(machine, f"{_INTERFACES}/{port.name}/bonding_slave/ad_aggregator_id")
        == used
    )


def _speed(machine: Machine, path: str) -> int | None:
    """Mbit/s; drivers that do not know it report -1, or 2**32 - 1, or refuse."""
    text = _reported(machine, path)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        raise ValueError(f"{path} holds no number")
    return int(text) if 0 < int(text) < 2**32 - 1 else None


def _reported(machine: Machine, path: str) -> str | None:
    """What a driver reports, None where it refuses; raises OSError for other failures."""
    try:
        return reading.text_of(machine, path)
    except OSError as err:
        if err.errno in _NOT_REPORTED:
            return None
        raise
