"""Disks: what SATA, SAS and NVMe disks report about themselves, read with ``smartctl -j``.

Letters change from boot to boot, so a disk is named by its serial number.  The kernel read it when
it found the disk and knows it still when the disk sleeps or is dead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import CheckResult, NotApplicable, Unknown
from ganeti_steward.diagnose.collectors import smart_checks
from ganeti_steward.diagnose.collectors.shared import reading, results
from ganeti_steward.diagnose.collectors.shared.block_members import LVM_MEMBER, read_members
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "smart"

_SMARTCTL: Final = "smartctl"

#: Disks smartctl finds by itself, by their names in ``/sys/block``.
_SCSI: Final = re.compile("sd[a-z]+")
_NVME: Final = re.compile("nvme[0-9]+n[0-9]+")

#: What smartctl prints about volumes of MegaRAID and PERC controllers, and its names of disks.
_BEHIND_MEGARAID: Final = "-d megaraid,N"
_MEGARAID: Final = re.compile(r"\bmegaraid,[0-9]+")

#: The page of a disk's vital product data that holds its serial number, and its head.
_SERIAL_PAGE: Final = 0x80
_HEAD: Final = 4

#: The exit status requested for a sleeping disk: bits that never come together otherwise.
_ASLEEP: Final = int(smart_checks.Exit.COMMAND_LINE | smart_checks.Exit.OPEN_FAILED)

#: Identity, verdict, attributes, logs of errors and self-tests, wear; nothing that is not used.
_OPTIONS: Final = (
    *("-j", "-n", f"standby,{_ASLEEP}", "-i", "-H", "-A"),
    *("-l", "error", "-l", "selftest", "-l", "ssd"),
)

#: Disks that are queried at a time: one that hangs must not hide the others.
_AT_A_TIME: Final = 16

_Check = Callable[[Any, smart_checks.Exit, smart_checks.Settings], results.Examined]

_CHECKS: Final[Mapping[str, _Check]] = {
    "ATA": smart_checks.examine_ata,
    "NVMe": smart_checks.examine_nvme,
    "SCSI": smart_checks.examine_scsi,
}


class SmartDevice(NamedTuple):
    """One disk, as smartctl has to be called for it."""

    path: str
    """``/dev/sda``; behind a raid controller ``/dev/bus/0``, the same for all its disks"""
    kind: str
    """``sat``, ``nvme``, ``megaraid,8``"""
    serial: str
    """its serial number as the kernel knows it; empty where it does not"""
    open_error: str | None = None
    """why smartctl could not open it, in its words; None where it could"""


class Collector(Configured[smart_checks.Settings]):
    """Queries each disk smartctl finds, several at a time."""

    CONFIG = smart_checks.Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the disks, each as soon as it is known."""
        if not machine.has(_SMARTCTL):
            yield _without_program(machine)
            return
        behind = [_behind_a_controller(one) for one in self._settings.devices]
        devices: list[SmartDevice] = behind
        unknowns: list[str] = []
        with reading.noting_unknowns(unknowns):
            paths = {one.path for one in behind}
            found = _read_devices(machine, unknowns)
            devices = [*behind, *(one for one in found if one.path not in paths)]
            overlooked = _unlisted(machine, devices)
            if overlooked:
                unknowns.append(f"smartctl does not find {', '.join(overlooked)}")
        if unknowns:
            yield Unknown(NAME, "; ".join(unknowns))
        elif not devices:
            yield NotApplicable(NAME, "there is no disk with SMART data")
        disks: list[SmartDevice] = []
        for device in devices:
            if _is_volume(device, devices):
                name = device.serial or device.path.removeprefix("/dev/")
                yield NotApplicable(f"{NAME}:{name}", "is a volume of a raid controller")
            else:
                disks.append(device)
        any_result = False
        for result in self._query_all(machine, disks):
            any_result = True
            yield result
        if devices and not any_result and not unknowns:
            yield NotApplicable(NAME, "every disk is ignored, as configured")

    def _query_all(self, machine: Machine, devices: Sequence[SmartDevice]) -> Iterator[CheckResult]:
        """The results of the disks, in the order in which they answer."""
        # Not with the executor's "with": it would wait for a disk that hangs.
        pool = ThreadPoolExecutor(_AT_A_TIME)
        try:
            for done in as_completed(
                [pool.submit(self._query, machine, device) for device in devices]
            ):
                yield from done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _query(self, machine: Machine, device: SmartDevice) -> list[CheckResult]:
        """The results of one disk; none of one to be ignored, so earlier findings about it end."""
        serial = device.serial
        if self._is_ignored(serial):
            return []
        try:
            answer, status = _answer(machine, device)
            serial = serial or _one_word(reading.optional(answer, str, "serial_number") or "")
            if self._is_ignored(serial):
                return []
            if reading.optional(answer, dict, "smart_support") is not None:
                if not reading.member(answer, bool, "smart_support", "available"):
                    what = serial or device.path.removeprefix("/dev/")
                    return [NotApplicable(f"{NAME}:{what}", "has no SMART data")]
                if not reading.member(answer, bool, "smart_support", "enabled"):
                    raise reading.MissingData("SMART is switched off")
            if not serial:
                raise reading.MissingData("no serial number is reported")
            return self._evaluate(serial, answer, status, self._volumes(machine, device))
        except reading.MissingData as err:
            # Without a serial number it may be any of the disks known before.
            source = f"{NAME}:{serial}" if serial else NAME
            return [Unknown(source, f"{device.path} ({device.kind}): {err}")]

    def _is_ignored(self, serial: str) -> bool:
        return bool(serial) and results.matches(serial, self._settings.ignore)

    def _volumes(self, machine: Machine, device: SmartDevice) -> tuple[str, ...]:
        """The physical volumes to be named; none where that is not wanted, or not known."""
        if not self._settings.name_volumes:
            return ()
        with suppress(OSError, reading.MissingData):
            return _physical_volumes(machine, device)
        return ()

    def _evaluate(
        self, serial: str, answer: Any, status: smart_checks.Exit, volumes: tuple[str, ...]
    ) -> list[CheckResult]:
        """What an answer means; raises MissingData when it is not known what it is."""
        check = _CHECKS.get(reading.member(answer, str, "device", "protocol"))
        if check is None:
            raise reading.MissingData("device.protocol is not known")
        settings = self._settings
        faults, unknowns = check(answer, status, settings)
        if smart_checks.Exit.SELF_TEST in status:
            faults.append(results.Fault(settings.self_test_status, "self-test failed"))
        if smart_checks.Exit.ERROR_LOG in status:
            faults.append(results.Fault(settings.error_log_status, "errors logged"))
        faults = [fault._replace(physical_volumes=volumes) for fault in faults]
        return list(results.check_results(f"{NAME}:{serial}", faults, unknowns, settings.repair))


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _behind_a_controller(text: str) -> SmartDevice:
    """A disk that the configuration names: ``PATH:KIND``.

    What the kernel knows under the path is the volume, which has a serial number of its own.
    """
    path, _, kind = text.partition(":")
    return SmartDevice(path, kind, "")


def _without_program(machine: Machine) -> CheckResult:
    """The result where there is no smartctl: not even which disks are there is known."""
    reason = "smartctl is not installed"
    disks: list[str] = []
    with suppress(reading.MissingData):
        disks = _unlisted(machine, [])
    if disks:
        return Unknown(NAME, f"{reason}, but there are disks: {', '.join(map(printable, disks))}")
    return NotApplicable(NAME, reason)


def _answer(machine: Machine, device: SmartDevice) -> tuple[Any, smart_checks.Exit]:
    """What smartctl reports about a disk; raises MissingData.

    A failed command alone means little: behind some controllers the verdict is missing and
    smartctl makes it from the attributes.  What has to be there is looked for one by one.
    """
    if device.open_error is not None:
        raise reading.MissingData("it cannot be opened")
    done = reading.ended(machine, _SMARTCTL, *_OPTIONS, "-d", device.kind, device.path)
    if done.status == _ASLEEP:
        raise reading.MissingData("it sleeps and was not woken")
    status = smart_checks.Exit(done.status)
    if smart_checks.Exit.COMMAND_LINE in status:
        raise reading.MissingData("smartctl rejects its options")
    if smart_checks.Exit.OPEN_FAILED in status:
        raise reading.MissingData("it cannot be opened")
    answer = reading.parsed(done, _SMARTCTL)
    if reading.member(answer, int, "smartctl", "exit_status") != done.status:
        raise reading.MissingData("smartctl's answer has another exit status than smartctl")
    return answer, status


def _read_devices(machine: Machine, unknowns: list[str]) -> list[SmartDevice]:
    """The disks smartctl finds, those behind raid controllers too; raises MissingData."""
    answer = reading.parsed(reading.succeeded(machine, _SMARTCTL, "--scan-open", "-j"), _SMARTCTL)
    reading.member(answer, dict, "smartctl")
    devices: list[SmartDevice] = []
    # When it finds none, it leaves the list out.
    for row in reading.optional(answer, list, "devices") or []:
        with reading.noting_unknowns(unknowns):
            devices.append(_device(machine, row))
    return devices


def _device(machine: Machine, row: Any) -> SmartDevice:
    path, kind = reading.member(row, str, "name"), reading.member(row, str, "type")
    if not path.startswith("/dev/") or not (path + kind).isprintable():
        raise reading.MissingData("smartctl names a disk that is not a device")
    return SmartDevice(
        path, kind, _kernel_serial(machine, path), reading.optional(row, str, "open_error")
    )


def _is_volume(device: SmartDevice, devices: Sequence[SmartDevice]) -> bool:
    """Whether it is a volume of a raid controller whose disks are listed by themselves.

    smartctl refuses to open such a volume, and names the devices to query instead.
    """
    is_named = _BEHIND_MEGARAID in (device.open_error or "")
    return is_named and any(_MEGARAID.search(other.kind) for other in devices)


def _unlisted(machine: Machine, devices: Sequence[SmartDevice]) -> list[str]:
    """Disks the kernel has and smartctl does not find, as when they are dead; raises MissingData.

    Those on USB are left out: it knows few of their bridges.  NVMe disks and what smartctl
    queries, their controllers, need not have the same numbers.
    """
    paths = {device.path for device in devices}
    names = reading.listed(machine, "/sys/block")
    disks = [name for name in names if _SCSI.fullmatch(name) and f"/dev/{name}" not in paths]
    if not any(path.startswith("/dev/nvme") for path in paths):
        disks += [name for name in names if _NVME.fullmatch(name)]
    return [name for name in disks if not _is_on_usb(machine, name)]


def _is_on_usb(machine: Machine, name: str) -> bool:
    with suppress(OSError):
        return "/usb" in machine.target(f"/sys/block/{name}")
    return False


def _physical_volumes(machine: Machine, device: SmartDevice) -> tuple[str, ...]:
    """LVM's physical volumes on a disk or its partitions, sorted; raises OSError, MissingData.

    Where md or something else is between, the disk is no part of a physical volume.
    """
    path = re.escape(device.path.removeprefix("/dev/"))
    # smartctl queries an NVMe disk by its controller.
    own = re.compile(rf"{path}(n[0-9]+)?(p?[0-9]+)?")
    names = (volume.name for volume in read_members(machine, LVM_MEMBER))
    return tuple(sorted(f"/dev/{name}" for name in names if own.fullmatch(name)))


def _kernel_serial(machine: Machine, path: str) -> str:
    """The serial number as the kernel knows it; empty where it does not."""
    name, serial = path.removeprefix("/dev/"), b""
    with suppress(OSError):
        if _SCSI.fullmatch(name):
            page = machine.read(f"/sys/block/{name}/device/vpd_pg80")
            if len(page) > _HEAD and page[1] == _SERIAL_PAGE:
                serial = page[_HEAD : _HEAD + int.from_bytes(page[2:_HEAD], "big")]
        elif controller := re.match("nvme[0-9]+", name):
            serial = machine.read(f"/sys/class/nvme/{controller[0]}/serial")
    return _one_word(serial.decode(errors="replace"))


def _one_word(serial: str) -> str:
    """A serial number as a part of a source's name: visible ASCII only."""
    return re.sub("[^!-~]+", "_", serial.strip(" \0\n\t"))
