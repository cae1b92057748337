"""Network interfaces as ``/sys/class/net`` lists them."""

from __future__ import annotations

import errno
import re
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.results import (
    located_reason,
    number_of,
    text_of,
)

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
CARRIER_CHANGES: Final = "carrier_changes"
CRC_ERRORS: Final = "statistics/rx_crc_errors"


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


class Bond(NamedTuple):
    """A bond by itself."""

    ports: tuple[str, ...]
    has_link: bool


class Link(NamedTuple):
    """An interface's link."""

    carrier: bool
    changing: bool
    """the bond still waits whether the link stays as it is"""
    speed: int | None
    """Mbit/s; None where the driver does not report it"""
    half_duplex: bool
    in_use: bool
    """whether the bond it is a port of uses it or would; true without a bond"""


def read_interfaces(machine: Machine) -> tuple[list[Interface], dict[str, str]]:
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
            unread[name] = located_reason(err)
    return interfaces, unread


def _interface(machine: Machine, name: str) -> Interface:
    directory = f"{_INTERFACES}/{name}"
    flags = text_of(machine, f"{directory}/flags")
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
        return bool(_TO_FUNCTION.fullmatch(text_of(machine, f"{directory}/phys_port_name")))
    return False


def read_bond(machine: Machine, name: str) -> Bond:
    """A bond's own state; raises OSError, ValueError."""
    directory = f"{_INTERFACES}/{name}/bonding"
    ports = text_of(machine, f"{directory}/slaves").split()
    return Bond(tuple(ports), _state(machine, f"{directory}/mii_status") == "up")


def read_link(machine: Machine, one: Interface) -> Link:
    """The link of an interface that is up, or of a bond's port; raises OSError, ValueError."""
    directory = f"{_INTERFACES}/{one.name}"
    # What the bond thinks of its port counts too: it may probe its neighbours, not the driver.
    seen = _state(machine, f"{directory}/bonding_slave/mii_status") if one.bond else "up"
    carrier = seen != "down" and _flag(machine, f"{directory}/carrier")
    if not carrier or seen != "up":
        return Link(carrier, seen.startswith("going"), None, half_duplex=False, in_use=True)
    return Link(
        carrier,
        changing=False,
        speed=_speed(machine, f"{directory}/speed"),
        half_duplex=_reported(machine, f"{directory}/duplex") == "half",
        in_use=_is_in_use(machine, one),
    )


def read_counter(machine: Machine, name: str, file: str) -> int | None:
    """A counter of an interface; None where there is none; raises OSError, ValueError."""
    try:
        return number_of(machine, f"{_INTERFACES}/{name}/{file}")
    except FileNotFoundError:
        return None


def _state(machine: Machine, path: str) -> str:
    state = text_of(machine, path)
    if state not in ("up", "down", "going down", "going back"):
        raise ValueError(f"{path} holds no state of a link")
    return state


def _flag(machine: Machine, path: str) -> bool:
    number = number_of(machine, path)
    if number not in (0, 1):
        raise ValueError(f"{path} is neither 0 nor 1")
    return bool(number)


def _is_in_use(machine: Machine, one: Interface) -> bool:
    """False for a port whose switch is not in one 802.3ad group with the others'."""
    if not one.bond:
        return True
    bond = f"{_INTERFACES}/{one.bond}/bonding"
    if text_of(machine, f"{bond}/mode").split()[:1] != ["802.3ad"]:
        return True
    used = number_of(machine, f"{bond}/ad_aggregator")
    return number_of(machine, f"{_INTERFACES}/{one.name}/bonding_slave/ad_aggregator_id") == used


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
        return text_of(machine, path)
    except OSError as err:
        if err.errno in _NOT_REPORTED:
            return None
        raise
