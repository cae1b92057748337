"""DRBD: devices of this node that lost their disk, do not get on, or have no good copy.

What a device's peers do is not this node's fault: a peer that is away is no finding here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.config.kinds import whole
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, SUSPECT, CheckResult, NotApplicable
from ganeti_steward.diagnose.collectors.shared import reading
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.standstill import standing_still
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "drbd"

#: The module's own file; version 9 reports only its version there.
STATUS_FILE: Final = "/proc/drbd"

#: After an I/O error a disk goes through these, and ends without a disk.
_LOST: Final = frozenset(("Failed", "Detaching", "Diskless"))

#: States that a disk may be in or pass through while nothing is wrong with this node.
_FINE: Final = frozenset(("Attaching", "Negotiating", "Outdated", "Consistent", "UpToDate"))

_VERSION: Final = re.compile(r"version: ([0-9]+)\.")

#: The first line of a device in version 8: number, states of connection, roles and disks.
_LINE: Final = re.compile(
    r" *(?P<minor>[0-9]{1,7}): cs:(?P<cs>\w+) ro:\w+/\w+ ds:(?P<own>\w+)/(?P<peer>\w+)"
    r"(?: (?P<rest>.*))?"
)

#: Behind the states: the protocol, and whether input and output run or are suspended.
_SUSPENDED: Final = re.compile(r"[ABC] s.*")

#: Behind these: whether the synchronization is paused, because another one comes first
#: (``resync-after``), by the peer, or by an admin.
_PAUSED: Final = re.compile(r"[ABC] [rs](?!---).*")

#: KiB that are not in sync, at the end of the counters.
_OUT_OF_SYNC: Final = re.compile(r" oos:([0-9]{1,20})$")

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

#: Those in which data is being copied, and the end of a line of version 8 where none was for 180 s.
_SYNCHRONIZING: Final = ("SyncSource", "SyncTarget")
_STALLED: Final = " K/sec (stalled)"

#: Those before, each of which takes a moment.
_BEGINNING: Final = frozenset(
    ("StartingSyncS", "StartingSyncT", "WFBitMapS", "WFBitMapT", "WFSyncUUID")
)

#: What the kernel logs of a device: both sides have written without the other; and what ends that:
#: it is a new device, or it has met its peer.
_LOGGED: Final = re.compile(
    r"[0-7],[^;]*;(?:block|drbd \S+) drbd(?P<minor>[0-9]+)(?: [^ :]+)?: "
    r"(?:(?P<split>Split-Brain detected but unresolved)"
    r"|.*(?:pdsk\( DUnknown -> |disk\( Diskless -> Attaching \)))"
)

#: What version 9 suspends I/O for by itself.
_WAITING: Final = ("no-data", "fencing", "quorum")

_NO_GOOD_COPY: Final = "no side has all data"

_DRBDSETUP: Final = ("drbdsetup", "status", "--json")

#: Seconds that a device has no disk while ``replace-disks`` attaches another one.
_LONGEST_REPLACEMENT: Final = 600

_REPLACED: Final = re.compile(r".*_replaced--([0-9]{9,11})")


class Settings(NamedTuple):
    """[collector.drbd]: the checks of DRBD devices."""

    disk_lost_status: Annotated[Status, "A device has lost its disk on this node."] = LIVE_REPAIR
    inconsistent_status: Annotated[
        Status,
        "A disk's content is not usable and nothing is being copied although the peer is "
        "connected.",
    ] = LIVE_REPAIR
    standalone_status: Annotated[
        Status, "A device is not connected to its peer and does not try to connect."
    ] = OK
    split_brain_status: Annotated[
        Status,
        "A device is not connected because the kernel found that both sides wrote without the "
        "other.",
    ] = LIVE_REPAIR
    no_good_copy_status: Annotated[
        Status,
        "Both sides of a device have been connected for stalled-after seconds and neither has "
        "all data.",
    ] = LIVE_REPAIR
    stalled_status: Annotated[Status, "A synchronization makes no progress."] = SUSPECT
    stalled_after: Annotated[
        int,
        whole(180),
        "Seconds without progress after which a synchronization that is not paused is stalled. "
        "DRBD 8 reports stalls itself after three minutes; that is enough.",
    ] = 900
    suspended_status: Annotated[Status, "A device's I/O is suspended, but not by an admin."] = (
        LIVE_REPAIR
    )
    quorum_status: Annotated[Status, "A device of DRBD 9 has no quorum."] = LIVE_REPAIR
    repair: Repair = ""


class DrbdDevice(NamedTuple):
    """One device of this node."""

    minor: int
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
    stalled: bool = False
    """whether DRBD says that it synchronizes, and nothing was copied for minutes"""
    progress: Mapping[str, str] = MappingProxyType({})
    """peer -> what changes while it synchronizes with that one, or begins to, unless paused"""
    no_good_copy: bool = False
    """whether it is connected, and no side's disk has all data"""
    quorum: bool = True
    """whether as many of its nodes are there as it needs"""


class Collector(Configured[Settings]):
    """Looks at all devices and reports on all of them together."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the DRBD devices."""
        try:
            text = machine.read(STATUS_FILE).decode(errors="replace")
        except FileNotFoundError:
            yield NotApplicable(NAME, "drbd is not loaded")
            return
        faults: list[Fault] = []
        unknowns: list[str] = []
        devices = list(_devices(machine, text, unknowns))
        replacing = any(device.disk in _LOST for device in devices) and _is_replacing(machine)
        for device in devices:
            with reading.noting_unknowns(unknowns):
                faults += self._faults(device, replacing=replacing)
        with reading.noting_unknowns(unknowns):
            faults += self._standing_still(machine, devices, complete=not unknowns)
        if any(device.standalone for device in devices):
            faults += self._apart(machine, devices, unknowns)
        yield from check_results(NAME, faults, unknowns, self._settings.repair)

    def _standing_still(
        self, machine: Machine, devices: Sequence[DrbdDevice], *, complete: bool
    ) -> Iterator[Fault]:
        """Synchronizations that do not get on; raises OSError, ValueError.

        ``complete``: whether all devices are known.
        """
        settings = self._settings
        figures = {
            (one.minor, peer): figure for one in devices for peer, figure in one.progress.items()
        }
        # A device is so for a moment when it is made.
        figures |= {(one.minor, ""): _NO_GOOD_COPY for one in devices if one.no_good_copy}
        by_key = {f"{minor} {peer}": (minor, peer) for minor, peer in figures}
        kept = {key: figures[of] for key, of in by_key.items()}
        after = settings.stalled_after
        keys = standing_still(machine, NAME, kept, after, complete=complete)
        still = {by_key[key] for key in keys}
        stalled = {one.minor for one in devices if one.stalled}
        for minor in sorted(stalled | {minor for minor, peer in still if peer}):
            yield Fault(settings.stalled_status, f"synchronization stalled: minor {minor}")
        for minor in sorted(minor for minor, peer in still if not peer):
            yield Fault(settings.no_good_copy_status, f"{_NO_GOOD_COPY}: minor {minor}")

    def _apart(
        self, machine: Machine, devices: Sequence[DrbdDevice], unknowns: list[str]
    ) -> Iterator[Fault]:
        """Devices that have given up a peer; why is known from the kernel's log alone."""
        split: frozenset[int] = frozenset()
        with reading.noting_unknowns(unknowns):
            split = _split_brains(machine)
        for device in devices:
            if device.standalone and device.minor in split:
                text = f"split brain: minor {device.minor}"
                yield Fault(self._settings.split_brain_status, text)
            elif device.standalone:
                yield Fault(self._settings.standalone_status, f"stands alone: minor {device.minor}")

    def _faults(self, device: DrbdDevice, *, replacing: bool) -> Iterator[Fault]:
        """What is wrong with one device by itself; raises MissingData.

        Where the node's disks are to blame its number is left out: devices become fewer while
        instances are moved away, and the node is as broken as before.
        """
        if device.disk in _LOST:
            if replacing and device.disk != "Failed":
                raise reading.MissingData("a device has no disk while Ganeti replaces disks")
            if not device.diskless_wanted:
                yield Fault(self._settings.disk_lost_status, "local disk lost")
        elif device.disk == "Inconsistent":
            # Without a good peer there is nothing to copy from: no fault of this node.
            if device.helped and not device.copying:
                yield Fault(self._settings.inconsistent_status, "inconsistent, nothing is copied")
        elif device.disk not in _FINE:
            raise reading.MissingData(f"the disk state {device.disk!r} is not known")
        if device.suspended:
            yield Fault(self._settings.suspended_status, "I/O suspended")
        if not device.quorum:
            yield Fault(self._settings.quorum_status, "no quorum")


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _devices(machine: Machine, text: str, unknowns: list[str]) -> Iterator[DrbdDevice]:
    """The devices that can be read, of whichever version is loaded."""
    version = _VERSION.match(text)
    if version is not None and version[1] == "8":
        return _devices_of_8(text, unknowns)
    if version is not None and version[1] == "9":
        return _devices_of_9(machine, unknowns)
    unknowns.append(f"{STATUS_FILE} does not begin with a version that is known")
    return iter(())


def _devices_of_8(text: str, unknowns: list[str]) -> Iterator[DrbdDevice]:
    """The devices in ``/proc/drbd`` of version 8."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if _LIKE_A_LINE.match(line)]
    for at, end in pairwise([*starts, len(lines)]):
        if not _UNCONFIGURED.fullmatch(lines[at]):
            with reading.noting_unknowns(unknowns):
                yield _device_of_8(lines[at], lines[at + 1 : end])


def _device_of_8(line: str, others: Sequence[str]) -> DrbdDevice:
    """``others``: the lines of its counters and of its progress."""
    device = _LINE.fullmatch(line)
    if device is None:
        raise reading.MissingData("a device's line in /proc/drbd cannot be read")
    minor, connection, disk, peer_disk = device.group("minor", "cs", "own", "peer")
    # One word for the connection and for what it does.
    if connection not in _AWAY | _COPYING | {"Connected"}:
        raise reading.MissingData(f"the connection state {connection!r} is not known")
    progress = {}
    if connection in _BEGINNING.union(_SYNCHRONIZING) and not _PAUSED.match(device["rest"] or ""):
        left = next(filter(None, map(_OUT_OF_SYNC.search, others)), None)
        if left is None:
            raise reading.MissingData("how much of a device is not in sync cannot be read")
        progress["peer"] = f"{connection} {left[1]}"
    return DrbdDevice(
        int(minor),
        disk,
        helped=connection not in _AWAY and peer_disk == "UpToDate",
        copying=connection in _COPYING,
        standalone=connection == "StandAlone",
        # One that is paused waits for another device.
        stalled=connection in _SYNCHRONIZING and any(one.endswith(_STALLED) for one in others),
        suspended=_SUSPENDED.fullmatch(device["rest"] or "") is not None,
        progress=progress,
        no_good_copy=connection == "Connected" and disk == peer_disk == "Inconsistent",
    )


def _devices_of_9(machine: Machine, unknowns: list[str]) -> Iterator[DrbdDevice]:
    """The devices ``drbdsetup`` lists."""
    resources: list[Any] = []
    with reading.noting_unknowns(unknowns):
        resources = reading.member(
            reading.parsed(reading.succeeded(machine, *_DRBDSETUP), _DRBDSETUP[0]), list
        )
    for resource in resources:
        suspended = False
        with reading.noting_unknowns(unknowns):
            suspended = _is_suspended(resource)
        with reading.noting_unknowns(unknowns):
            for device in reading.member(resource, list, "devices"):
                connections = reading.member(resource, list, "connections")
                yield _device_of_9(device, connections)._replace(suspended=suspended)


def _device_of_9(device: Any, connections: list[Any]) -> DrbdDevice:
    volume = reading.member(device, int, "volume")
    disk = reading.member(device, str, "disk-state")
    peer_disks: list[str] = []
    connected = bool(connections)
    copying = standalone = False
    progress: dict[str, str] = {}
    for connection in connections:
        state = reading.member(connection, str, "connection-state")
        if state not in _AWAY | {"Connected"}:
            raise reading.MissingData(f"the connection state {state!r} is not known")
        standalone |= state == "StandAlone"
        connected &= state == "Connected"
        for peer in reading.member(connection, list, "peer_devices"):
            replication = reading.member(peer, str, "replication-state")
            if replication not in _COPYING | {"Off", "Established"}:
                raise reading.MissingData(f"the replication state {replication!r} is not known")
            if reading.member(peer, int, "volume") != volume:
                continue
            copying |= replication in _COPYING
            peer_disk = reading.member(peer, str, "peer-disk-state")
            peer_disks += [peer_disk] if state == "Connected" else []
            if replication in _BEGINNING.union(_SYNCHRONIZING) and not _is_paused(peer):
                # In KiB.
                left = reading.member(peer, int, "out-of-sync")
                progress[reading.member(connection, str, "name")] = f"{replication} {left}"
    unusable = disk == "Inconsistent" and {*peer_disks} == {disk}
    return DrbdDevice(
        reading.member(device, int, "minor"),
        disk,
        helped="UpToDate" in peer_disks,
        copying=copying,
        standalone=standalone,
        diskless_wanted=reading.optional(device, bool, "client") or False,
        quorum=reading.optional(device, bool, "quorum") is not False,
        progress=progress,
        no_good_copy=connected and unusable and not copying,
    )


def _is_paused(peer: Any) -> bool:
    """Whether an admin, the peer or another synchronization lets one wait; raises MissingData."""
    return reading.member(peer, str, "resync-suspended") != "no"


def _split_brains(machine: Machine) -> frozenset[int]:
    """The minors whose last word in the kernel's log is a split brain; raises OSError."""
    split: set[int] = set()
    for record in machine.kernel_log():
        if found := _LOGGED.match(record):
            (split.add if found["split"] else split.discard)(int(found["minor"]))
    return frozenset(split)


def _is_suspended(resource: Any) -> bool:
    """Whether a resource's I/O waits for something else than an admin; raises MissingData.

    Old versions do not report why.
    """
    known = [reading.optional(resource, bool, f"suspended-{why}") for why in _WAITING]
    by_admin = reading.optional(resource, bool, "suspended-user")
    suspended = bool(reading.optional(resource, bool, "suspended"))
    return any(known) or (suspended and not by_admin)


def _is_replacing(machine: Machine) -> bool:
    """Whether Ganeti exchanged logical volumes below devices lately; not if that cannot be read.

    ``replace-disks`` detaches a device's disk, renames the old logical volume and attaches the new
    one.  The new name of the old one has the time in it, and stays until all data is copied.
    """
    names: Sequence[str] = ()
    with suppress(OSError):
        names = [name for name in machine.listing("/sys/block") if name.startswith("dm-")]
    for name in names:
        with suppress(OSError, ValueError):
            volume = _REPLACED.fullmatch(reading.text_of(machine, f"/sys/block/{name}/dm/name"))
            # Clocks are set, so a little of the future counts as well.
            if volume and abs(reading.now(machine) - int(volume[1])) < _LONGEST_REPLACEMENT:
                return True
    return False
