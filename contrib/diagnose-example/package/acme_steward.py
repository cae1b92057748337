"""What is wrong with Acme RAID controllers, for Ganeti Steward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from ganeti_steward.diagnose.api import (
    COMMAND,
    LIVE_REPAIR,
    STATUS,
    CheckResult,
    Finding,
    Machine,
    NotApplicable,
    Unknown,
    hookimpl,
)

#: The name of the entry point; every source begins with it.
NAME = "acme_raid"

PROGRAM = "acmecli"

FINE = {
    "controller": ("optimal",),
    "volume": ("optimal", "degraded", "rebuilding"),
    "drive": ("online", "rebuilding", "spare"),
}
BROKEN = {
    "controller": ("failing",),
    "volume": ("failed",),
    "drive": ("failed", "missing"),
}


class Settings(NamedTuple):
    """[plugin.acme_raid]: what an administrator can set."""

    repair: Annotated[str, COMMAND, "The repair command for a drive."] = "replace-drive"
    drive_status: Annotated[str, STATUS, "The status when a drive failed."] = LIVE_REPAIR
    controller_status: Annotated[str, STATUS, "The status when a controller fails."] = LIVE_REPAIR
    volume_status: Annotated[str, STATUS, "The status when a volume failed."] = LIVE_REPAIR


class AcmeRaid:
    """Reports the state of each controller, volume and drive that acmecli shows."""

    CONFIG = Settings

    def __init__(self) -> None:
        self.settings = Settings()

    def configure(self, settings: Settings) -> None:
        """Take the section [plugin.acme_raid]."""
        self.settings = settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """Return the state of every part that acmecli shows."""
        if not machine.has(PROGRAM):
            yield NotApplicable(NAME, f"there is no {PROGRAM}")
            return
        ended = machine.run(PROGRAM, "show", "--parsable")
        if ended.fault or ended.status:
            yield Unknown(NAME, f"{PROGRAM}: {ended.fault or f'exit status {ended.status}'}")
            return
        lines = ended.output.decode("ascii", "replace").splitlines()
        if not lines:
            yield Unknown(NAME, f"{PROGRAM} shows nothing")
        for line in lines:
            yield self._result(line)

    def _result(self, line: str) -> CheckResult:
        """One line: kind, number, name, state, and fields that change by themselves."""
        kind, number, name, state, *_ = [*line.split(), "", "", "", ""]
        if kind not in FINE or not number.isdigit() or not state:
            return Unknown(NAME, f"{PROGRAM} shows a line that is not understood")
        source = f"{NAME}:{kind}{number}"
        if state in FINE[kind]:
            return Finding(source, "Ok")
        if state not in BROKEN[kind]:
            return Unknown(source, "is in a state that is not known")
        status = getattr(self.settings, f"{kind}_status")
        command = self.settings.repair if kind == "drive" else ""
        return Finding(source, status, command, {"name": name, "state": state})


plugin = AcmeRaid()
