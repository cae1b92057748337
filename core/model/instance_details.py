"""Network interfaces and disks of an instance as they were sent; imported where they are used."""

from __future__ import annotations

from typing import NamedTuple

from ganeti_steward.core.model.sent import Sent


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
    bridge: str
    """of a bridged interface: its link"""


class DiskDetails(NamedTuple):
    """What is sent of a disk, its size and spindles aside; empty: not sent."""

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
        bridge = nic.text("bridge") or (link if mode == "bridged" else "")
        network = nic.text("network")
        found.append(Nic(nic.text("mac"), nic.text("ip"), mode, link, network, bridge))
    return tuple(found)


def disk_details_of(sent: Sent) -> tuple[DiskDetails, ...]:
    """The disks of an instance, in their order."""
    return tuple(
        DiskDetails(*(disk.text(key) for key in ("mode", "vg", "provider", "name")))
        for disk in sent.entries("disks")
    )
