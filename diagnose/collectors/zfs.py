"""ZFS: pools that lost devices, have errors or are suspended, and resilvering that stalls.

Read from ``zpool status``, in the one form that OpenZFS 2.1 and 2.3 have in common, and from the
kernel's own word for each pool, which needs no lock and no program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.config.kinds import whole
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable
from ganeti_steward.diagnose.collectors.shared import reading
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    check_results,
    matches,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.standstill import standing_still
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    Configured,
    Count,
    Repair,
    Status,
)
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "zfs"

#: Without the module ``zpool`` would load it.
_MODULE: Final = "/sys/module/zfs"
#: A directory for each pool, between files.
_POOLS: Final = "/proc/spl/kstat/zfs"

#: Figures as numbers, devices by path.  The kernel answers from memory, and no disk is read.
_STATUS: Final = ("zpool", "status", "-pP")

_SECTION: Final = re.compile(r" *([a-z_]+): ?(.*)")
_HEADER: Final = re.compile(r"\tNAME +STATE +READ WRITE CKSUM\s*")
_CLASS: Final = re.compile(r"\t(dedup|special|logs|cache|spares)\s*")
_DEVICE: Final = re.compile(
    r"\t(?P<indent> *)(?P<name>\S.*?) +(?P<state>ONLINE|DEGRADED|FAULTED|OFFLINE|REMOVED|UNAVAIL"
    r"|SPLIT|SUSPENDED|AVAIL|INUSE)"
    r"(?: +(?P<read>[0-9]{1,20}) +(?P<write>[0-9]{1,20}) +(?P<checksum>[0-9]{1,20}))?"
    r"(?:  +(?P<note>\S.*?))?\s*"
)
#: Where a device was that is not there.
_WAS: Final = re.compile(r"was (/\S+)")
_ERRORS: Final = re.compile(r"(?P<none>No known data errors)|[0-9]{1,20} data errors, .*")

#: What moves while a pool is resilvered; rates and times do so by themselves.
_PROGRESS: Final = re.compile(
    r"([0-9.]+[A-Z]*) (?:/ \S+ )?(scanned|issued|resilvered)|([0-9.]+)% done"
)
_RESILVERING: Final = re.compile(r"resilver(?: \(.*\))? in progress since ")

#: State of a pool that serves nothing -> the word of the finding.
_LOST: Final = {"FAULTED": "faulted", "UNAVAIL": "unavailable", "OFFLINE": "offline"}
#: The same for a device.
_DEVICES: Final = {**_LOST, "DEGRADED": "degraded", "REMOVED": "removed", "SPLIT": "split"}
_STATES: Final = {"ONLINE", "DEGRADED", "SUSPENDED", *_LOST}


class Settings(NamedTuple):
    """[collector.zfs]: the checks of ZFS pools."""

    required: Annotated[tuple[str, ...], "Pools that must exist."] = ()
    ignore: Annotated[
        tuple[str, ...], "Pools to skip (shell patterns); `required` takes precedence."
    ] = ()
    missing_status: Annotated[Status, "A required pool is missing."] = LIVE_REPAIR
    suspended_status: Annotated[Status, "All I/O of a pool waits because its devices fail."] = (
        LIVE_REPAIR
    )
    faulted_status: Annotated[
        Status, "A pool serves nothing because too many of its devices are gone."
    ] = LIVE_REPAIR
    degraded_status: Annotated[
        Status, "A pool or one of its devices is degraded, gone or offline."
    ] = LIVE_REPAIR
    recovering_status: Annotated[Status, "The same while the pool is being resilvered."] = (
        LIVE_REPAIR
    )
    spare_status: Annotated[Status, "A spare is in use."] = LIVE_REPAIR
    errors_above: Annotated[
        Count,
        "Read, write or checksum errors of one device since `zpool clear` or the import.",
    ] = 10
    errors_status: Annotated[Status, "A device exceeds errors-above."] = LIVE_REPAIR
    data_errors_status: Annotated[Status, "A pool lost data."] = LIVE_REPAIR
    stalled_status: Annotated[Status, "Resilvering makes no progress."] = LIVE_REPAIR
    stalled_after: Annotated[
        int, whole(300), "Seconds without progress after which resilvering is stalled."
    ] = 3600
    repair: Repair = ""


class _Device(NamedTuple):
    """One line of a pool's tree."""

    depth: int
    name: str
    state: str
    errors: Mapping[str, int]
    """kind -> how many; empty of a spare"""


class _Pool(NamedTuple):
    """What ``zpool status`` prints of one pool."""

    state: str
    resilvering: str
    """what of it changes; empty: it is not resilvered"""
    data_lost: bool
    leaves: tuple[_Device, ...]
    """its devices, without those that only group others"""
    spares: tuple[_Device, ...]


class Collector(Configured[Settings]):
    """Looks at each pool that is imported."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the pools."""
        settings = self._settings
        states: dict[str, str] = {}
        if _is_loaded(machine):
            states = dict(_states(machine))
        printed: Mapping[str, list[str]] = {}
        unread: list[str] = []
        if states:
            with reading.noting_unknowns(unread):
                printed = _printed(machine)
        names = {one for one in {*states, *printed} if not matches(one, settings.ignore)}
        examined = {one: Examined([], [*unread]) for one in sorted(names | {*settings.required})}
        pools = {}
        for name, found in examined.items():
            with reading.noting_unknowns(found.unknowns):
                if name in printed:
                    pools[name] = _pool(name, printed[name])
                elif not unread and name in states:
                    raise reading.MissingData("zpool does not list it")
            state = pools[name].state if name in pools else states.get(name, "")
            found.faults.extend(self._faults(state, pools.get(name)))
            if name not in states and name not in printed and not unread:
                found.faults.append(Fault(settings.missing_status, "pool missing"))
        unsure: list[str] = []
        with reading.noting_unknowns(unsure):
            for name in self._stalled(machine, pools, complete=len(pools) == len(examined)):
                fault = Fault(settings.stalled_status, "resilvering stalled")
                examined[name].faults.append(fault)
        for name, found in examined.items():
            reasons = [*found.unknowns, *unsure]
            yield from check_results(
                f"{NAME}:{printable(name)}", found.faults, reasons, settings.repair
            )
        if not examined:
            yield NotApplicable(NAME, "there is no ZFS pool")

    def _stalled(
        self, machine: Machine, pools: Mapping[str, _Pool], *, complete: bool
    ) -> frozenset[str]:
        """The pools whose resilvering makes no progress; raises OSError, ValueError."""
        figures = {name: pool.resilvering for name, pool in pools.items() if pool.resilvering}
        after = self._settings.stalled_after
        return standing_still(machine, NAME, figures, after, complete=complete)

    def _faults(self, state: str, pool: _Pool | None) -> Iterator[Fault]:
        """What is wrong with one pool; ``state``: empty where it is not known."""
        settings = self._settings
        recovering = pool is not None and pool.resilvering
        degraded = settings.recovering_status if recovering else settings.degraded_status
        if state == "SUSPENDED":
            yield Fault(settings.suspended_status, "suspended")
        elif state in _LOST:
            yield Fault(settings.faulted_status, _LOST[state])
        elif state == "DEGRADED":
            yield Fault(degraded, "degraded")
        if pool is None:
            return
        if pool.data_lost:
            yield Fault(settings.data_errors_status, "data errors")
        for device in (*pool.leaves, *pool.spares):
            name = printable(device.name)
            if device.state in _DEVICES:
                yield Fault(degraded, f"{_DEVICES[device.state]}: {name}")
            if device.state == "INUSE":
                yield Fault(settings.spare_status, f"spare in use: {name}")
            for kind, count in device.errors.items():
                if count > settings.errors_above:
                    text = f"more than {settings.errors_above} {kind} errors: {name}"
                    yield Fault(settings.errors_status, text)


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _is_loaded(machine: Machine) -> bool:
    """Whether the kernel has ZFS; raises OSError."""
    try:
        machine.listing(_MODULE)
    except FileNotFoundError:
        return False
    return True


def _states(machine: Machine) -> Iterator[tuple[str, str]]:
    """Each pool, and the kernel's word for its state; empty where that is not known.

    Raises MissingData.
    """
    for name in reading.listed(machine, _POOLS):
        state = ""
        try:
            state = reading.text_of(machine, f"{_POOLS}/{name}/state")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            # zpool may know it.
            pass
        yield name, state if state in _STATES else ""


def _printed(machine: Machine) -> dict[str, list[str]]:
    """Pool -> what ``zpool`` prints of it, in lines; raises MissingData."""
    text = reading.succeeded(machine, *_STATUS).output.decode(errors="replace")
    pools: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        found = _SECTION.fullmatch(line)
        if found and found[1] == "pool":
            lines = pools.setdefault(found[2], [])
        lines.append(line)
    return pools


def _pool(name: str, lines: Sequence[str]) -> _Pool:
    """One pool from its lines; raises MissingData."""
    sections: dict[str, list[str]] = {}
    section: list[str] = []
    for line in lines:
        found = _SECTION.fullmatch(line)
        if found:
            section = sections.setdefault(found[1], [])
        section.append(found[2] if found else line)
    state = sections.get("state", [""])[0]
    if state not in _STATES:
        raise reading.MissingData(f"the state {state!r} is not known")
    devices, spares = _tree(sections.get("config", []))
    if not devices or devices[0].name != name:
        raise reading.MissingData("its devices are not listed")
    errors = _ERRORS.fullmatch(sections.get("errors", [""])[0])
    # What cannot be opened has no list of them.
    if errors is None and state not in _LOST:
        raise reading.MissingData("whether data is lost cannot be read")
    scan = "\n".join(sections.get("scan", []))
    moving = " ".join("".join(one) for one in _PROGRESS.findall(scan))
    leaves = [
        one
        for one, below in zip(devices, [*devices[1:], devices[0]], strict=True)
        if below.depth <= one.depth
    ]
    return _Pool(
        state,
        f"resilver {moving}" if _RESILVERING.search(scan) else "",
        errors is not None and not errors["none"],
        tuple(leaves),
        tuple(spares),
    )


def _tree(lines: Sequence[str]) -> tuple[list[_Device], list[_Device]]:
    """The devices of a pool with those that group them, and its spares; raises MissingData."""
    devices: list[_Device] = []
    spares: list[_Device] = []
    current = devices
    for line in lines:
        if not line.strip() or _HEADER.fullmatch(line):
            continue
        if found := _CLASS.fullmatch(line):
            current = spares if found[1] == "spares" else devices
            continue
        device = _DEVICE.fullmatch(line)
        if device is None:
            raise reading.MissingData("a line of its devices cannot be read")
        errors = {}
        with suppress(TypeError):
            errors = {kind: int(device[kind]) for kind in ("read", "write", "checksum")}
        was = _WAS.match(device["note"] or "")
        name = was[1] if was else device["name"]
        current.append(_Device(len(device["indent"]), name, device["state"], errors))
    return devices, spares
