"""Whether Ganeti just exchanges the logical volumes below DRBD devices (``replace-disks``).

It detaches a device's disk, renames the old logical volume and attaches the new one.  The new name
of the old one has the time in it, and stays until all data is copied.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.results import text_of

#: Seconds; without a disk a device is only until the next one is attached.
_LONGEST: Final = 600

_OLD: Final = re.compile(r".*_replaced--([0-9]{9,11})")
_STARTED: Final = re.compile(r"btime ([0-9]{1,12})", re.MULTILINE)


def is_replacing(machine: Machine) -> bool:
    """Whether disks were renamed so lately; not where that cannot be read."""
    with suppress(OSError, ValueError):
        names = [name for name in machine.listing("/sys/block") if name.startswith("dm-")]
        times = [int(found[1]) for name in names if (found := _old(machine, name))]
        now = _now(machine) if times else 0
        # Clocks are set, so a little of the future counts as well.
        return any(-_LONGEST < now - moment < _LONGEST for moment in times)
    return False


def _old(machine: Machine, name: str) -> re.Match[str] | None:
    with suppress(OSError):
        return _OLD.fullmatch(text_of(machine, f"/sys/block/{name}/dm/name"))
    return None


def _now(machine: Machine) -> float:
    """Seconds since the epoch, by the clock of the machine; raises OSError, ValueError."""
    started = _STARTED.search(text_of(machine, "/proc/stat"))
    if started is None:
        raise ValueError("/proc/stat does not have the time of the start")
    return int(started[1]) + float(text_of(machine, "/proc/uptime").split(" ")[0])
