"""DRBD devices as versions 8 and 9 list them."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.program_output import (
    MissingData,
    member,
    noting_unknowns,
    optional,
    parsed,
    succeeded,
)

#: The first line of a device in version 8: number, states of connection, roles and disks.
_LINE: Final = re.compile(r" *[0-9]+: cs:(\w+) ro:\w+/\w+ ds:(\w+)/(\w+)(?: (?P<rest>.*))?")

#: Behind the states: the protocol, and whether input and output run or are suspended.
_SUSPENDED: Final = re.compile(r"[ABC] s.*")

#: What begins like one, or is a damaged one.
_LIKE_A_LINE: Final = re.compile(r"\s*[0-9]+:|.*\bcs:")

#: What is there of a device whose number was once in use.
_UNCONFIGURED: Final = re.compile(r" *[0-9]+: cs:Unconfigured *")

#: States of a connection without a peer.  Waiting for it has another name in each version.
_AWAY: Final = frozenset(
    (
        *("StandAlone", "Disconnecting", "Unconnected", "Timeout", "BrokenPipe"),
        *("NetworkFailure", "ProtocolError", "TearDown", "WFReportParams"),
        *("WFConnection", "Connecting"),
    )
)

#: States in which data is copied to or from the peer, or is about to be.
_COPYING: Final = frozenset(
    (
        *("StartingSyncS", "StartingSyncT", "WFBitMapS", "WFBitMapT", "WFSyncUUID"),
        *("SyncSource", "SyncTarget", "PausedSyncS", "PausedSyncT", "VerifyS", "VerifyT"),
        *("Ahead", "Behind"),
    )
)

#: What version 9 suspends I/O for by itself.
_WAITING: Final = ("no-data", "fencing", "quorum")

_DRBDSETUP: Final = ("drbdsetup", "status", "--json")


class Device(NamedTuple):
    """One device of this node."""

    disk: str
    """the state of its own disk, in DRBD's words"""
    helped: bool
    """whether it is connected to a peer whose disk has all data"""
    copying: bool
    """whether data is copied, or is about to be"""
    standalone: bool
    """whether it has given up a peer"""
    diskless_wanted: bool = False
    """whether it was set up without a disk"""
    suspended: bool = False
    """whether its I/O waits, and not because an admin suspended it"""
    quorum: bool = True
    """whether as many of its nodes are there as it needs"""


class Devices(NamedTuple):
    """The devices of this node that could be read, and why others could not."""

    devices: list[Device]
    unknowns: list[str]


def devices_of_8(text: str) -> Devices:
    """The devices in ``/proc/drbd`` of version 8."""
    found = Devices([], [])
    for line in text.splitlines():
        if not _LIKE_A_LINE.match(line) or _UNCONFIGURED.fullmatch(line):
            continue
        with noting_unknowns(found.unknowns):
            found.devices.append(_device_of_8(line))
    return found


def _device_of_8(line: str) -> Device:
    found = _LINE.fullmatch(line)
    if found is None:
        raise MissingData("a device's line in /proc/drbd cannot be read")
    connection, disk, peer_disk = found.group(1, 2, 3)
    # One word for the connection and for what it does.
    if connection not in _AWAY | _COPYING | {"Connected"}:
        raise MissingData(f"the connection state {connection!r} is not known")
    helped = connection not in _AWAY and peer_disk == "UpToDate"
    suspended = _SUSPENDED.fullmatch(found["rest"] or "") is not None
    return Device(
        disk, helped, connection in _COPYING, connection == "StandAlone", suspended=suspended
    )


def devices_of_9(machine: Machine) -> Devices:
    """The devices ``drbdsetup`` lists."""
    found = Devices([], [])
    resources: list[Any] = []
    with noting_unknowns(found.unknowns):
        resources = member(parsed(succeeded(machine, *_DRBDSETUP), _DRBDSETUP[0]), list)
    for resource in resources:
        suspended = False
        with noting_unknowns(found.unknowns):
            suspended = _is_suspended(resource)
        with noting_unknowns(found.unknowns):
            for device in member(resource, list, "devices"):
                connections = member(resource, list, "connections")
                read = _device_of_9(device, connections)
                found.devices.append(read._replace(suspended=suspended))
    return found


def _device_of_9(device: Any, connections: list[Any]) -> Device:
    volume = member(device, int, "volume")
    helped = copying = standalone = False
    for connection in connections:
        state = member(connection, str, "connection-state")
        if state not in _AWAY | {"Connected"}:
            raise MissingData(f"the connection state {state!r} is not known")
        standalone |= state == "StandAlone"
        for peer in member(connection, list, "peer_devices"):
            replication = member(peer, str, "replication-state")
            if replication not in _COPYING | {"Off", "Established"}:
                raise MissingData(f"the replication state {replication!r} is not known")
            if member(peer, int, "volume") == volume:
                copying |= replication in _COPYING
                usable = member(peer, str, "peer-disk-state") == "UpToDate"
                helped |= state == "Connected" and usable
    wanted = optional(device, bool, "client") or False
    quorum = optional(device, bool, "quorum")
    return Device(
        member(device, str, "disk-state"),
        helped,
        copying,
        standalone,
        wanted,
        quorum=quorum is not False,
    )


def _is_suspended(resource: Any) -> bool:
    """Whether a resource's I/O waits for something else than an admin; raises MissingData.

    Old versions do not report why.
    """
    known = [optional(resource, bool, f"suspended-{why}") for why in _WAITING]
    by_admin = optional(resource, bool, "suspended-user")
    suspended = bool(optional(resource, bool, "suspended"))
    return any(known) or (suspended and not by_admin)
