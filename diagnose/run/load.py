"""How busy the node was over the last minutes: CPU, memory, disks, and the kernel's pressure.

Totals of the kernel are kept from run to run with the time of the monotonic clock, for one boot: a
reboot or a clock that is set makes the averages unknown, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.diagnose.model.machine import Machine

#: The name under which runs keep the totals.
_KEPT: Final = "load"

#: Seconds that an average covers at most.
WINDOW: Final = 900

#: Seconds between two totals that are kept, and the least that an average covers.
_APART: Final = 30

#: Whole disks by their names in the kernel: neither partitions nor what lies on other disks.
_DISK: Final = re.compile(r"(?:sd|vd|xvd|hd)[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+")

#: Disks that are kept; a node with more has no figure of them.
_MOST_DISKS: Final = 256

_PRESSURE: Final = ("cpu", "io", "memory")


class Sample(NamedTuple):
    """The kernel's totals at one moment; None: cannot be read."""

    at: float
    """seconds of the monotonic clock"""
    cpu: tuple[int, int] | None
    """ticks that all CPUs together were busy, and all their ticks"""
    memory: float | None
    """share of the memory that is not available"""
    disks: Mapping[str, int] | None
    """whole disk -> ms in which it was busy"""


class Samples(NamedTuple):
    """What runs keep."""

    boot: str
    """the kernel's id of the boot in which all of them were taken"""
    taken: tuple[Sample, ...]
    """the oldest first"""


def load(machine: Machine, boot: str, now: float) -> dict[str, Any]:
    """The section ``load`` of a report; keeps what the next run needs.

    ``boot``: the id of this boot, empty where it is not known; ``now``: s of the monotonic clock.
    """
    sample = Sample(round(now, 3), _cpu(machine), _memory(machine), _disks(machine))
    earlier = _earlier(machine, boot, now)
    if boot:
        taken = earlier if earlier and now - earlier[-1].at < _APART else (*earlier, sample)
        # What cannot be kept leaves the next run without averages.
        with suppress(OSError):
            machine.remember(_KEPT, canonical(to_json(Samples, Samples(boot, taken))))
    averages = _averages((*earlier, sample))
    return {**averages, "cpus": _cpus(machine), "pressure": _pressure(machine)}


def _earlier(machine: Machine, boot: str, now: float) -> tuple[Sample, ...]:
    """The samples of earlier runs of this boot that are not too old."""
    try:
        kept = from_json(Samples, load_json(machine.recalled(_KEPT)))
    except (OSError, ValueError):
        return ()
    if not boot or kept.boot != boot:
        return ()
    return tuple(one for one in kept.taken if now - WINDOW <= one.at <= now)


def _averages(samples: tuple[Sample, ...]) -> dict[str, Any]:
    """Shares from 0 to 1 over the time between the first sample and the last; None: unknown."""
    first, last = samples[0], samples[-1]
    seconds = last.at - first.at
    if seconds < _APART:
        return {"seconds": 0, "cpu": None, "memory": None, "disk": None}
    known = [one.memory for one in samples if one.memory is not None]
    return {
        "seconds": round(seconds),
        "cpu": _cpu_share(first, last),
        "memory": _share(sum(known), len(known)) if known else None,
        "disk": _disk_share(first, last, seconds),
    }


def _share(part: float, whole: float) -> float | None:
    """None where both are not what totals can be."""
    return round(min(part / whole, 1.0), 4) if whole > 0 and part >= 0 else None


def _cpu_share(first: Sample, last: Sample) -> float | None:
    if first.cpu is None or last.cpu is None:
        return None
    return _share(last.cpu[0] - first.cpu[0], last.cpu[1] - first.cpu[1])


def _disk_share(first: Sample, last: Sample, seconds: float) -> float | None:
    """That of the busiest disk; the kernel's total of ms begins again after 49 busy days."""
    if first.disks is None or last.disks is None:
        return None
    both = first.disks.keys() & last.disks.keys()
    shares = [_share(last.disks[one] - first.disks[one], 1000 * seconds) for one in both]
    known = [one for one in shares if one is not None]
    return max(known) if known and len(known) == len(shares) else None


def _lines(machine: Machine, path: str) -> list[list[str]]:
    """The words of each line; raises OSError, ValueError."""
    return [line.split() for line in machine.read(path).decode("ascii").splitlines()]


def _cpu(machine: Machine) -> tuple[int, int] | None:
    """``/proc/stat``: user nice system idle iowait irq softirq steal; the rest is part of user."""
    try:
        found = next(line for line in _lines(machine, "/proc/stat") if line[:1] == ["cpu"])
        ticks = [int(word) for word in found[1:9]]
        idle, waiting = ticks[3:5]
    except (OSError, ValueError, StopIteration):
        return None
    return sum(ticks) - idle - waiting, sum(ticks)


def _cpus(machine: Machine) -> int | None:
    """How many CPUs are online."""
    try:
        names = [line[0] for line in _lines(machine, "/proc/stat") if line]
    except (OSError, ValueError):
        return None
    return sum(re.fullmatch(r"cpu\d+", name) is not None for name in names) or None


def _memory(machine: Machine) -> float | None:
    try:
        found = {line[0]: int(line[1]) for line in _lines(machine, "/proc/meminfo") if line}
        total = found["MemTotal:"]
        return _share(total - found["MemAvailable:"], total)
    except (OSError, ValueError, LookupError):
        return None


def _disks(machine: Machine) -> dict[str, int] | None:
    """``/proc/diskstats``: name, then ten fields, then the ms in which the disk was busy."""
    try:
        lines = _lines(machine, "/proc/diskstats")
        found = {line[2]: int(line[12]) for line in lines if _DISK.fullmatch(line[2])}
    except (OSError, ValueError, LookupError):
        return None
    return found if len(found) <= _MOST_DISKS else None


def _pressure(machine: Machine) -> dict[str, list[float] | None]:
    """By resource: percent of the last 300 s in which a task waited for it, and µs in all."""
    return {name: _waited(machine, f"/proc/pressure/{name}") for name in _PRESSURE}


def _waited(machine: Machine, path: str) -> list[float] | None:
    """Of a kernel without pressure figures nothing can be read."""
    try:
        found = next(line for line in _lines(machine, path) if line[:1] == ["some"])
        figures = dict(word.split("=", 1) for word in found[1:])
        return [float(figures["avg300"]), int(figures["total"])]
    except (OSError, ValueError, LookupError, StopIteration):
        return None
