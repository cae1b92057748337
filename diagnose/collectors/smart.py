"""Disks: what SATA, SAS and NVMe disks say about themselves, asked through ``smartctl -j``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.finding import NotApplicable, Said, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.program_output import (
    Untold,
    doubting,
    ended,
    member,
    optional,
    parsed,
)
from ganeti_steward.diagnose.collectors.shared.results import Fault, matches, told
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured
from ganeti_steward.diagnose.collectors.smart_disks.ata import ata_faults
from ganeti_steward.diagnose.collectors.smart_disks.common import Exit, Settings
from ganeti_steward.diagnose.collectors.smart_disks.devices import (
    SMARTCTL,
    Device,
    is_volume,
    read_devices,
    serial_of,
    unlisted,
)
from ganeti_steward.diagnose.collectors.smart_disks.nvme import nvme_faults
from ganeti_steward.diagnose.collectors.smart_disks.scsi import scsi_faults

NAME: Final = "smart"

#: What smartctl is told to end with when a disk sleeps: bits that do not come together.
_ASLEEP: Final = int(Exit.COMMAND_LINE | Exit.OPEN_FAILED)

#: Identity, verdict, attributes, logs of errors and self-tests, wear; nothing that is not used.
_QUESTION: Final = (
    *("-j", "-n", f"standby,{_ASLEEP}", "-i", "-H", "-A"),
    *("-l", "error", "-l", "selftest", "-l", "ssd"),
)

#: Disks that are asked at a time: one that hangs must not hide the others.
_AT_A_TIME: Final = 16

_Judge = Callable[[Any, Exit, Settings, list[str]], Iterator[Fault]]

_JUDGES: Final[Mapping[str, _Judge]] = {
    "ATA": ata_faults,
    "NVMe": nvme_faults,
    "SCSI": scsi_faults,
}


class Collector(Configured[Settings]):
    """Asks each disk smartctl finds, several at a time."""

    name, kind = NAME, Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[Said]:
        """What is known about the disks, each as soon as it is known."""
        if not machine.has(SMARTCTL):
            yield NotApplicable(NAME, "smartctl is not installed")
            return
        devices: list[Device] = []
        overlooked: list[str] = []
        doubts: list[str] = []
        with doubting(doubts):
            devices = read_devices(machine, doubts)
            overlooked = unlisted(machine, devices)
        if overlooked:
            doubts.append(f"smartctl does not find {', '.join(overlooked)}")
        if doubts:
            yield Unknown(NAME, "; ".join(doubts))
        elif not devices:
            yield NotApplicable(NAME, "there is no disk that could tell SMART data")
        told_of_any = False
        volumes = [device for device in devices if is_volume(device, devices)]
        for device in volumes:
            name = device.serial or device.path.removeprefix("/dev/")
            yield NotApplicable(f"{NAME}:{name}", "is a volume of a raid controller")
        for said in self._asked(machine, [one for one in devices if one not in volumes]):
            told_of_any = True
            yield said
        if devices and not told_of_any and not doubts:
            yield NotApplicable(NAME, "no disk is judged, as configured")

    def _asked(self, machine: Machine, devices: Sequence[Device]) -> Iterator[Said]:
        """What is said of the disks, in the order in which they answer."""
        # Not with the executor's "with": it would wait for a disk that hangs.
        pool = ThreadPoolExecutor(_AT_A_TIME)
        try:
            for told_of_one in as_completed(
                [pool.submit(self._ask, machine, device) for device in devices]
            ):
                yield from told_of_one.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, machine: Machine, device: Device) -> list[Said]:
        """What is said of one disk; nothing of one to be ignored, so what was found of it ends."""
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
                    return [NotApplicable(f"{NAME}:{what}", "tells no SMART data")]
                if not member(answer, bool, "smart_support", "enabled"):
                    raise Untold("SMART is switched off")
            if not serial:
                raise Untold("no serial number is told")
            return self._judged(serial, answer, status)
        except Untold as err:
            # Without a serial number it may be any of the disks known before.
            source = f"{NAME}:{serial}" if serial else NAME
            return [Unknown(source, f"{device.path} ({device.kind}): {err}")]

    def _is_ignored(self, serial: str) -> bool:
        return bool(serial) and matches(serial, self._settings.ignore)

    def _judged(self, serial: str, answer: Any, status: Exit) -> list[Said]:
        """What an answer means; raises Untold when it is not known what it is."""
        judge = _JUDGES.get(member(answer, str, "device", "protocol"))
        if judge is None:
            raise Untold("device.protocol is not known")
        settings = self._settings
        doubts: list[str] = []
        faults = list(judge(answer, status, settings, doubts))
        if Exit.SELF_TEST in status:
            faults.append(Fault(settings.self_test_status, "self-test failed"))
        if Exit.ERROR_LOG in status:
            faults.append(Fault(settings.error_log_status, "errors logged"))
        return list(told(f"{NAME}:{serial}", faults, doubts, settings.repair))


def _answer(machine: Machine, device: Device) -> tuple[Any, Exit]:
    """What smartctl says about a disk; raises Untold.

    A failed command alone says little: behind some controllers the verdict is never told and
    smartctl makes it from the attributes.  What has to be there is looked for one by one.
    """
    if device.open_error is not None:
        raise Untold("it cannot be opened")
    done = ended(machine, SMARTCTL, *_QUESTION, "-d", device.kind, device.path)
    if done.status == _ASLEEP:
        raise Untold("it sleeps and was not woken")
    status = Exit(done.status)
    if Exit.COMMAND_LINE in status:
        raise Untold("smartctl does not take the question")
    if Exit.OPEN_FAILED in status:
        raise Untold("it cannot be opened")
    answer = parsed(done, SMARTCTL)
    if member(answer, int, "smartctl", "exit_status") != done.status:
        raise Untold("smartctl's answer has another exit status than smartctl")
    return answer, status
