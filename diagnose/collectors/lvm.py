"""LVM: volume groups whose physical volumes are gone, and how much room each has.

One report of everything, read-only: it takes no lock, so it neither waits for a command that
hangs nor makes one wait, and does not use the device mapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model import finding
from ganeti_steward.diagnose.collectors.shared import reading
from ganeti_steward.diagnose.collectors.shared.block_members import LVM_MEMBER, read_members
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    matches,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status
from ganeti_steward.diagnose.model.machine import VOLUME_GROUPS, Machine

NAME: Final = "lvm"

#: ``--binary`` and the next three because lvm.conf may change what is printed without them.
COMMAND: Final = (
    *("lvm", "fullreport", "--readonly", "--binary", "--reportformat", "json"),
    *("--units", "m", "--nosuffix"),
    *("--configreport", "vg", "-o", "vg_name,vg_missing_pv_count,vg_size,vg_free"),
    *("--configreport", "pv", "-o", "pv_uuid,pv_missing"),
    *("--configreport", "lv", "-o", "lv_health_status"),
    # These two are not used, but each of them is reported with all its columns otherwise.
    *("--configreport", "pvseg", "-o", "pv_name"),
    *("--configreport", "seg", "-o", "segtype"),
)

#: LVM writes the metadata of each group here, and removes it with the group.
BACKUPS: Final = "/etc/lvm/backup"

#: Groups that are reported; more are those of instances that LVM finds in their disks.
_MOST_GROUPS: Final = 256

#: As LVM prints it with ``--units m --nosuffix``.
_SIZE: Final = re.compile(r"([0-9]{1,12})(?:\.[0-9]*)?")

#: ``GROUP-VOLUME``; a hyphen within a name is doubled.
_VOLUME_NAME: Final = re.compile(r"(?P<group>(?:[^-]|--)+)-(?:[^-]|--).*")


class Settings(NamedTuple):
    """[collector.lvm]: the checks of volume groups."""

    required: Annotated[tuple[str, ...], "Volume groups that must exist."] = ()
    ignore: Annotated[
        tuple[str, ...],
        "Volume groups to skip (shell patterns), for example groups inside instance disks.",
    ] = ()
    missing_status: Annotated[
        Status,
        "A physical volume of a group is missing, or a whole group that is required or has "
        "active logical volumes.",
    ] = finding.LIVE_REPAIR
    partial_status: Annotated[Status, "A logical volume lies on a missing physical volume."] = (
        finding.OK
    )
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at each volume group."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[finding.CheckResult]:
        """What is known about the volume groups."""
        if not machine.has(COMMAND[0]):
            yield self._without_program(machine)
            return
        groups = _groups(reading.parsed(reading.succeeded(machine, *COMMAND), COMMAND[0]))
        required, ignore = set(self._settings.required), self._settings.ignore
        # Whether the groups are healthy does not depend on it.
        with suppress(OSError, reading.MissingData):
            machine.remember(VOLUME_GROUPS, canonical(_spaces(groups, ignore)))
        unknowns: list[str] = []
        lost: set[str] = set()
        saved: set[str] = set()
        with reading.noting_unknowns(unknowns):
            lost = _active_groups(machine) - groups.keys()
        with reading.noting_unknowns(unknowns):
            backups = {
                name
                for name in reading.listed_if_there(machine, BACKUPS)
                if not name.startswith(".")
            }
            saved = backups - groups.keys() - lost - required
        if unknowns:
            yield finding.Unknown(NAME, "; ".join(unknowns))
        names = {name for name in groups.keys() | lost if not matches(name, ignore)} | required
        saved = {name for name in saved if not matches(name, ignore)}
        if not names and not saved and not unknowns:
            yield finding.NotApplicable(NAME, "there is no volume group")
        for name in sorted(saved):
            # It may have been taken away on purpose, with its disks.
            reason = f"it is not there, but in {BACKUPS} there is a backup of it"
            yield finding.Unknown(f"{NAME}:{printable(name)}", reason)
        for name in sorted(names):
            yield from self._check(name, groups.get(name, []))

    def _without_program(self, machine: Machine) -> finding.CheckResult:
        """The result where there is no lvm; raises OSError, MissingData."""
        volumes = any(volume.own for volume in read_members(machine, LVM_MEMBER))
        if self._settings.required or volumes or _active_groups(machine):
            return finding.Unknown(NAME, "lvm is not installed, but there are volume groups")
        return finding.NotApplicable(NAME, "lvm is not installed")

    def _check(self, name: str, reports: list[Any]) -> Iterator[finding.CheckResult]:
        """The results of one group; two groups may have the same name."""
        faults: list[Fault] = []
        unknowns: list[str] = []
        if not reports:
            faults.append(Fault(self._settings.missing_status, "volume group missing"))
        for report in reports:
            with reading.noting_unknowns(unknowns):
                faults += self._faults(report)
        yield from check_results(
            f"{NAME}:{printable(name)}", faults, unknowns, self._settings.repair
        )

    def _faults(self, report: Any) -> Iterator[Fault]:
        """What is wrong with one group; raises MissingData.

        Which logical volumes are concerned is left out: they become fewer while the instances
        are moved away, and the group is as broken as before.
        """
        (group,) = reading.member(report, list, "vg")
        missing = _count(group) + sum(map(_is_missing, reading.member(report, list, "pv")))
        partial = sum(map(_is_partial, reading.member(report, list, "lv")))
        if missing or partial:
            yield Fault(
                self._settings.missing_status, "physical volume missing", (finding.MISSING,)
            )
        if partial:
            yield Fault(self._settings.partial_status, "logical volume incomplete")


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _active_groups(machine: Machine) -> set[str]:
    """The groups of the logical volumes the kernel has; raises OSError, MissingData.

    They stay active when their disks are gone, and LVM does not list a group whose only disk is.
    """
    groups: set[str] = set()
    for name in reading.listed_if_there(machine, "/sys/block"):
        if not name.startswith("dm-"):
            continue
        with reading.leaving_out_what_is_gone():
            if reading.text_of(machine, f"/sys/block/{name}/dm/uuid").startswith("LVM-"):
                volume = _VOLUME_NAME.fullmatch(
                    reading.text_of(machine, f"/sys/block/{name}/dm/name")
                )
                groups |= {volume["group"].replace("--", "-")} if volume else set()
    return groups


def _groups(answer: Any) -> dict[str, list[Any]]:
    """The reports by the name of their volume group; raises MissingData."""
    reports: dict[str, list[Any]] = {}
    for report in reading.member(answer, list, "report"):
        # Physical volumes without a group come last, in a report that has no group.
        if type(report) is dict and not report.keys() & {"vg", "lv", "seg"}:
            reading.member(report, list, "pv")
            continue
        groups = reading.member(report, list, "vg")
        if len(groups) > 1 or (len(report) > 1 and not groups):
            raise reading.MissingData("a report is not about one volume group")
        for group in groups:
            reports.setdefault(reading.member(group, str, "vg_name"), []).append(report)
    return reports


def _spaces(groups: Mapping[str, list[Any]], ignore: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Name -> total and free MiB; raises MissingData.

    Where two groups have the same name it is not known which of them is meant.
    """
    found = {
        name: _space(reports[0])
        for name, reports in groups.items()
        if len(reports) == 1 and not matches(name, ignore)
    }
    if len(found) > _MOST_GROUPS:
        raise reading.MissingData(f"there are more than {_MOST_GROUPS} volume groups")
    return found


def _space(report: Any) -> tuple[int, int]:
    (group,) = reading.member(report, list, "vg")
    texts = [reading.member(group, str, key) for key in ("vg_size", "vg_free")]
    sizes = [size for size in map(_SIZE.fullmatch, texts) if size]
    if len(sizes) < len(texts):
        raise reading.MissingData("vg_size or vg_free is not a number of MiB")
    total, free = (int(size[1]) for size in sizes)
    return total, free


def _count(group: Any) -> int:
    text = reading.member(group, str, "vg_missing_pv_count")
    if not (text.isascii() and text.isdecimal()):
        raise reading.MissingData("vg_missing_pv_count is not a number")
    return int(text)


def _is_missing(volume: Any) -> bool:
    text = reading.member(volume, str, "pv_missing")
    if text not in ("0", "1"):
        raise reading.MissingData("pv_missing is neither 0 nor 1")
    return text == "1"


def _is_partial(volume: Any) -> bool:
    return reading.member(volume, str, "lv_health_status") == "partial"
