"""What the audit log has of the last day, hour by hour, as small lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ganeti_steward.plugins.maintenance.edges.history import CHANGE, HELD, NEW, TASK, AuditEntry
from ganeti_steward.plugins.model.incident import BAD, STATES

_HOUR: Final = 3600 * 10**9
HOURS: Final = 24

#: Units of the picture: an hour, the height, and what stays free above and below.
_STEP: Final = 4
_HEIGHT: Final = 24
_MARGIN: Final = 2


def _failed(entry: AuditEntry) -> bool:
    return entry.kind == CHANGE and entry.after in STATES and STATES[entry.after].look == BAD


#: What is counted -> whether an entry counts.
_COUNTED: Final[Mapping[str, Callable[[AuditEntry], bool]]] = {
    "Incidents": lambda entry: entry.kind == CHANGE and entry.before == NEW,
    "Tasks started": lambda entry: entry.kind == TASK,
    "Newly held back": lambda entry: entry.kind == HELD,
    "Repairs failed": _failed,
}


class Trend(NamedTuple):
    """One count of the last hours."""

    name: str
    hours: tuple[int, ...]
    """entries of each hour, the last one ends now"""

    @property
    def total(self) -> int:
        """Of all hours."""
        return sum(self.hours)

    @property
    def words(self) -> str:
        """The line as a sentence, for those who cannot see it."""
        most = max(self.hours, default=0)
        return f"{self.name}: {self.total} in {len(self.hours)} h, at most {most} in one hour"

    @property
    def line(self) -> str:
        """The SVG shapes: the ground, and one point for each hour."""
        most, bottom = max(*self.hours, 1), _HEIGHT - _MARGIN
        points = " ".join(
            f"{at * _STEP},{bottom - (bottom - _MARGIN) * value / most:.4g}"
            for at, value in enumerate(self.hours)
        )
        wide = _STEP * (len(self.hours) - 1)
        return f'<path class="ground" d="M0 {bottom}H{wide}"/><polyline points="{points}"/>'


#: ``viewBox`` of each line.
VIEW_BOX: Final = f"0 0 {_STEP * (HOURS - 1)} {_HEIGHT}"


def trends(history: Iterable[AuditEntry], now: int) -> Iterator[Trend]:
    """``now``: ns since the epoch."""
    entries = [(one, (now - one.at) // _HOUR) for one in history]
    for name, counts in _COUNTED.items():
        hours = [0] * HOURS
        for entry, ago in entries:
            if 0 <= ago < HOURS and counts(entry):
                hours[HOURS - 1 - ago] += 1
        yield Trend(name, tuple(hours))
