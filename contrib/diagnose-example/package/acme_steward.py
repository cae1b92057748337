"""What is wrong with Acme RAID controllers, for Ganeti Steward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.finding import STATUSES, CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine

#: The name of the entry point; every source begins with it.
NAME = "acme_raid"

PROGRAM = "acmecli"

#: What an administrator can set in [plugin.acme_raid].
DEFAULTS = {
    "repair": "replace-drive",
    "drive-status": "live-repair",
    "controller-status": "live-repair",
    "volume-status": "live-repair",
}

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


class AcmeRaid:
    """Asks acmecli, and says how each controller, volume and drive is."""

    def __init__(self) -> None:
        self.settings = dict(DEFAULTS)

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Take the section [plugin.acme_raid]; whatever is wrong with it must not pass."""
        for key, value in settings.items():
            if key not in DEFAULTS:
                raise ValueError(f"{key}: no such key (known: {', '.join(DEFAULTS)})")
            if key.endswith("-status") and value not in STATUSES:
                raise ValueError(f"{key}: {value!r} is none of {', '.join(STATUSES)}")
        self.settings = DEFAULTS | dict(settings)

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """Say how everything is that acmecli shows."""
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
            yield self._told(line)

    def _told(self, line: str) -> CheckResult:
        """How one part is: kind, number, name, state, and what changes by itself."""
        kind, number, name, state, *_ = [*line.split(), "", "", "", ""]
        if kind not in FINE or not number.isdigit() or not state:
            return Unknown(NAME, f"{PROGRAM} shows a line that is not understood")
        source = f"{NAME}:{kind}{number}"
        if state in FINE[kind]:
            return Finding(source, "Ok")
        if state not in BROKEN[kind]:
            return Unknown(source, "is in a state that is not known")
        status = self.settings[f"{kind}-status"]
        command = self.settings["repair"] if kind == "drive" else ""
        return Finding(source, status, command, {"name": name, "state": state})


plugin = AcmeRaid()
