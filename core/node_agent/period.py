"""How often a node diagnoses itself: by its agent, or by cron."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

#: Where cron finds the tables of packages and admins.
CRON: Final = Path("/etc/cron.d")

_COMMAND: Final = "gnt-steward diagnose"
_DAY: Final = 24 * 60


class Period(NamedTuple):
    """The time from one diagnosis to the next."""

    seconds: float
    where: str
    """the key, or the file, that says so"""


def diagnosis_period(interval: float, cron: Path = CRON) -> Period | None:
    """The longest time from one diagnosis to the next; None where that is not known.

    ``interval``: seconds between those of the agent (`[agent] interval`); 0: cron starts them.
    """
    if interval:
        return Period(interval, "agent.interval")
    found = [
        Period(60 * minutes, f"cron ({path})")
        for path in _tables(cron)
        for line in _lines(path)
        if _COMMAND in line and (minutes := _longest_gap(line))
    ]
    return min(found, default=None)


def _tables(cron: Path) -> list[Path]:
    with suppress(OSError):
        # cron reads no name with a dot, such as those of backups.
        return sorted(one for one in cron.iterdir() if "." not in one.name)
    return []


def _lines(path: Path) -> Iterator[str]:
    with suppress(OSError):
        yield from (
            line
            for line in path.read_text(errors="replace").splitlines()
            if not line.lstrip().startswith("#")
        )


def _longest_gap(line: str) -> int:
    """Minutes; of a line for every day only, 0 for others."""
    fields = line.split()
    try:
        hours, minutes = _values(fields[1], 24), _values(fields[0], 60)
    except (IndexError, ValueError):
        return 0
    times = sorted(60 * hour + minute for hour in hours for minute in minutes)
    if fields[2:5] != ["*", "*", "*"] or not times:
        return 0
    return max(
        after - before for before, after in zip(times, [*times[1:], times[0] + _DAY], strict=True)
    )


def _values(field: str, size: int) -> set[int]:
    """What a field like ``*/5``, ``7`` or ``8-18/2,23`` stands for; raises ValueError."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "-", str(size - 1)) if span == "*" else span.partition("-")
        end = int(last) if last else size - 1 if step else int(first)
        found |= set(range(int(first), min(end, size - 1) + 1, int(step or 1)))
    return found
