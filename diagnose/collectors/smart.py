"""Disks: what SATA, SAS and NVMe disks report about themselves, read with ``smartctl -j``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.program_output import (
    MissingData,
    ended,
    member,
    noting_unknowns,
    optional,
    parsed,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    check_results,
    matches,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured
from ganeti_steward.diagnose.collectors.smart_disks.ata import examine_ata
from ganeti_steward.diagnose.collectors.smart_disks.common import Exit, Settings
from ganeti_steward.diagnose.collectors.smart_disks.devices import (
    SMARTCTL,
    Device,
    is_volume,
    physical_volumes,
    read_devices,
    serial_of,
    unlisted,
)
from ganeti_steward.diagnose.collectors.smart_disks.nvme import examine_nvme
from ganeti_steward.diagnose.collectors.smart_disks.scsi import examine_scsi

NAME: Final = "smart"

#: The exit status requested for a sleeping disk: bits that never come together otherwise.
_ASLEEP: Final = int(Exit.COMMAND_LINE | Exit.OPEN_FAILED)

#: Identity, verdict, attributes, logs of errors and self-tests, wear; nothing that is not used.
_OPTIONS: Final = (
    *("-j", "-n", f"standby,{_ASLEEP}", "-i", "-H", "-A"),
    *("-l", "error", "-l", "selftest", "-l", "ssd"),
)

#: Disks that are queried at a time: one that hangs must not hide the others.
_AT_A_TIME: Final = 16

_Check = Callable[[Any, Exit, Settings], Examined]

_CHECKS: Final[Mapping[str, _Check]] = {
    "ATA": examine_ata,
    "NVMe": examine_nvme,
    "SCSI": examine_scsi,
}


class Collector(Configured[Settings]):
    """Queries each disk smartctl finds, several at a time."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about the disks, each as soon as it is known."""
        if not machine.has(SMARTCTL):
            yield _without_program(machine)
            return
        devices: list[Device] = []
        overlooked: list[str] = []
        unknowns: list[str] = []
        with noting_unknowns(unknowns):
            devices, unread = read_devices(machine)
            unknowns += unread
            overlooked = unlisted(machine, devices)
        if overlooked:
            unknowns.append(f"smartctl does not find {', '.join(overlooked)}")
        if unknowns:
            yield Unknown(NAME, "; ".join(unknowns))
        elif not devices:
            yield NotApplicable(NAME, "there is no disk with SMART data")
        any_result = False
        volumes = [device for device in devices if is_volume(device, devices)]
        for device in volumes:
            name = device.serial or device.path.removeprefix("/dev/")
            yield NotApplicable(f"{NAME}:{name}", "is a volume of a raid controller")
        for result in self._query_all(machine, [one for one in devices if one not in volumes]):
            any_result = True
            yield result
        if devices and not any_result and not unknowns:
            yield NotApplicable(NAME, "every disk is ignored, as configured")

    def _query_all(self, machine: Machine, devices: Sequence[Device]) -> Iterator[CheckResult]:
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

    def _query(self, machine: Machine, device: Device) -> list[CheckResult]:
        """The results of one disk; none of one to be ignored, so earlier findings about it end."""
        serial = device.serial
        if self._is_ignored(serial):
            return []
        try:
            answer, status = _answer(machine, device)
            serial = serial or serial_of(answer)
            if self._is_ignored(serial):
                return []
            if optional(answer, dict, "smart_support") is not None:
                if not member(answer, bool, "smart_support", "available"):
                    what = serial or device.path.removeprefix("/dev/")
                    return [NotApplicable(f"{NAME}:{what}", "has no SMART data")]
                if not member(answer, bool, "smart_support", "enabled"):
                    raise MissingData("SMART is switched off")
            if not serial:
                raise MissingData("no serial number is reported")
            return self._evaluate(serial, answer, status, self._volumes(machine, device))
        except MissingData as err:
            # Without a serial number it may be any of the disks known before.
            source = f"{NAME}:{serial}" if serial else NAME
            return [Unknown(source, f"{device.path} ({device.kind}): {err}")]

    def _is_ignored(self, serial: str) -> bool:
        return bool(serial) and matches(serial, self._settings.ignore)

    def _volumes(self, machine: Machine, device: Device) -> tuple[str, ...]:
        """The physical volumes to be named; none where that is not wanted, or not known."""
        if not self._settings.name_volumes:
            return ()
        with suppress(MissingData):
            return physical_volumes(machine, device)
        return ()

    def _evaluate(
        self, serial: str, answer: Any, status: Exit, volumes: tuple[str, ...]
    ) -> list[CheckResult]:
        """What an answer means; raises MissingData when it is not known what it is."""
        check = _CHECKS.get(member(answer, str, "device", "protocol"))
        if check is None:
            raise MissingData("device.protocol is not known")
        settings = self._settings
        faults, unknowns = check(answer, status, settings)
        if Exit.SELF_TEST in status:
            faults.append(Fault(settings.self_test_status, "self-test failed"))
        if Exit.ERROR_LOG in status:
            faults.append(Fault(settings.error_log_status, "errors logged"))
        faults = [fault._replace(physical_volumes=volumes) for fault in faults]
        return list(check_results(f"{NAME}:{serial}", faults, unknowns, settings.repair))


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _without_program(machine: Machine) -> CheckResult:
    """The result where there is no smartctl: not even which disks are there is known."""
    reason = "smartctl is not installed"
    try:
        disks = unlisted(machine, [])
    except MissingData:
        disks = []
    if disks:
        return Unknown(NAME, f"{reason}, but there are disks: {', '.join(map(printable, disks))}")
    return NotApplicable(NAME, reason)


def _answer(machine: Machine, device: Device) -> tuple[Any, Exit]:
    """What smartctl reports about a disk; raises MissingData.

    A failed command alone means little: behind some controllers the verdict is missing and
    smartctl makes it from the attributes.  What has to be there is looked for one by one.
    """
    if device.open_error is not None:
        raise MissingData("it cannot be opened")
    done = ended(machine, SMARTCTL, *_OPTIONS, "-d", device.kind, device.path)
    if done.status == _ASLEEP:
        raise MissingData("it sleeps and was not woken")
    status = Exit(done.status)
    if Exit.COMMAND_LINE in status:
        raise MissingData("smartctl rejects its options")
    if Exit.OPEN_FAILED in status:
        raise MissingData("it cannot be opened")
    answer = parsed(done, SMARTCTL)
    if member(answer, int, "smartctl", "exit_status") != done.status:
        raise MissingData("smartctl's answer has another exit status than smartctl")
    return answer, status
