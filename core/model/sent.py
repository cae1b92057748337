"""What Ganeti sends of an object besides the figures every allocation needs.

It is read when it is used, and leniently: what is missing or odd never makes a request fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Sent:
    """An object as it was sent.  It does not count when objects are compared."""

    __slots__ = ("data",)

    def __init__(self, data: Mapping[str, Any] = _NOTHING) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sent)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Sent(...)"

    def text(self, key: str) -> str:
        """A text; empty for anything else."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool | None:
        """True or false; None for anything else."""
        value = self.data.get(key)
        return value if isinstance(value, bool) else None

    def number(self, key: str) -> float | None:
        """A number; None for anything else."""
        value = self.data.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def entries(self, key: str) -> list[Sent]:
        """The objects of a list; nothing stands for what is no object."""
        value = self.data.get(key)
        items = value if isinstance(value, list) else []
        return [Sent(item if isinstance(item, dict) else _NOTHING) for item in items]


class Nic(NamedTuple):
    """A network interface as it was sent; empty: not sent."""

    mac: str
    ip: str
    """an address, or ``pool`` in a request"""
    mode: str
    """``bridged``, ``routed`` or ``openvswitch``"""
    link: str
    network: str
    """uuid"""


class DiskDetails(NamedTuple):
    """What is sent of a disk besides its size and spindles; empty: not sent."""

    mode: str
    """``rw`` or ``ro``"""
    volume_group: str
    provider: str
    """of a disk of the template ext"""
    name: str


def nics_of(sent: Sent) -> tuple[Nic, ...]:
    """The interfaces of an instance; a request has mode and link one level down."""
    found = []
    for nic in sent.entries("nics"):
        given = nic.data.get("nicparams")
        below = Sent(given) if isinstance(given, dict) else nic
        mode, link = (nic.text(key) or below.text(key) for key in ("mode", "link"))
        found.append(Nic(nic.text("mac"), nic.text("ip"), mode, link, nic.text("network")))
    return tuple(found)


def disk_details_of(sent: Sent) -> tuple[DiskDetails, ...]:
    """The disks of an instance, in their order."""
    return tuple(
        DiskDetails(*(disk.text(key) for key in ("mode", "vg", "provider", "name")))
        for disk in sent.entries("disks")
    )
