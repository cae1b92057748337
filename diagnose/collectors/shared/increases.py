"""How much the kernel's counters have increased since earlier runs.

A counter that has run for a year says little about today.  So some of its earlier values are kept
from run to run, about one an hour, for a bit more than a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.diagnose.collectors.shared.reading import text_of
from ganeti_steward.diagnose.model.machine import Machine

#: Seconds.
DAY: Final = 86400
_HOUR: Final = 3600

_BOOT: Final = "/proc/sys/kernel/random/boot_id"
_UPTIME: Final = "/proc/uptime"


class Increase(NamedTuple):
    """What came since an earlier run."""

    by: int
    seconds: float
    """since then: a day or more, unless no run is known that is so long ago"""


class _Sample(NamedTuple):
    """The counters of an earlier run."""

    uptime: float
    counts: dict[str, int]


def increases(machine: Machine, name: str, counts: Mapping[str, int]) -> dict[str, Increase]:
    """The increase of each counter, as far as an earlier value is known; keeps the new ones.

    ``name``: under which the values are kept.  Counters start again with the node; one that is
    lower than before was reset.  Raises OSError, ValueError where that is not known.
    """
    try:
        boot, uptime = since_start(machine)
    except FileNotFoundError:
        return {}
    kept = _samples(machine.recalled(name), boot)
    samples = [sample for sample in kept if sample.uptime < uptime]
    known = {key: _increase(samples, uptime, key, count) for key, count in counts.items()}
    _remember(machine, name, boot, samples, _Sample(uptime, dict(counts)))
    return {key: increase for key, increase in known.items() if increase}


def since_start(machine: Machine) -> tuple[str, float]:
    """The id of this start of the kernel, and the seconds since, which no one sets.

    Raises FileNotFoundError where the kernel has no such id, OSError, ValueError.
    """
    boot = text_of(machine, _BOOT)
    return boot, float(text_of(machine, _UPTIME).split(" ")[0])


def _increase(samples: list[_Sample], uptime: float, key: str, count: int) -> Increase | None:
    known = [sample for sample in samples if sample.counts.get(key, count + 1) <= count]
    if not known:
        return None
    # The last one that is a day old, or else the first one there is.
    old = (sample for sample in reversed(known) if uptime - sample.uptime >= DAY)
    base = next(old, known[0])
    return Increase(count - base.counts[key], uptime - base.uptime)


def _remember(machine: Machine, name: str, boot: str, samples: list[_Sample], new: _Sample) -> None:
    """Keep what later runs need; without it they only know less."""
    if samples and new.uptime - samples[-1].uptime < _HOUR:
        return
    old = [sample for sample in samples if new.uptime - sample.uptime >= DAY + _HOUR]
    kept = list(map(list, [*samples[max(len(old) - 1, 0) :], new]))
    with suppress(OSError):
        machine.remember(name, canonical({"boot": boot, "samples": kept}))


def _samples(raw: bytes, boot: str) -> list[_Sample]:
    """What was kept since the node was started, the oldest first; none of another form."""
    try:
        given = load_json(raw) if raw else {}
        if not isinstance(given, dict) or given.get("boot") != boot:
            return []
        found = [
            _Sample(float(uptime), {str(key): int(value) for key, value in counts.items()})
            for uptime, counts in given["samples"]
        ]
    except (ValueError, ArithmeticError, TypeError, KeyError, AttributeError, RecursionError):
        return []
    good = all(0 <= value < 2**64 for sample in found for value in sample.counts.values())
    return found if good else []
