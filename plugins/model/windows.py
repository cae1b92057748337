"""Maintenance windows: the days and times of a week in which something may be started."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = "|".join(_DAYS)
_FORM: Final = re.compile(
    rf"(?:({_DAY})(?:-({_DAY}))? +)?([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]|24):([0-5]\d)"
)


class Window(NamedTuple):
    """Some days of the week, and the minutes of the day from ``start`` until ``end``."""

    days: frozenset[int]
    """0 is Monday; the day on which the window starts"""
    start: int
    """minutes since midnight"""
    end: int
    """minutes since midnight; not after ``start``: it ends on the next day"""

    def holds(self, at: datetime) -> bool:
        """Whether a moment (local time) is inside."""
        minute = at.hour * 60 + at.minute
        if self.start < self.end:
            return at.weekday() in self.days and self.start <= minute < self.end
        if minute >= self.start:
            return at.weekday() in self.days
        return minute < self.end and (at - timedelta(days=1)).weekday() in self.days


def is_window(text: str) -> bool:
    """Whether a text has the form of a window."""
    return read_window(text) is not None


def read_window(text: str) -> Window | None:
    """The window of a text: ``22:00-06:00``, ``Sat 08:00-20:00``, ``Mon-Fri 22:00-06:00``."""
    found = _FORM.fullmatch(text)
    if not found:
        return None
    first, last, *figures = found.groups()
    from_hour, from_minute, to_hour, to_minute = map(int, figures)
    end = to_hour * 60 + to_minute
    if end > 24 * 60:
        return None
    return Window(_days(first, last), from_hour * 60 + from_minute, end)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    start = _DAYS.index(first)
    end = _DAYS.index(last) if last else start
    return frozenset((start + i) % 7 for i in range((end - start) % 7 + 1))


def is_open(windows: Iterable[str], at: datetime) -> bool:
    """Whether one of the windows holds a moment (local time); always when there is none."""
    found = [window for text in windows if (window := read_window(text))]
    return not found or any(window.holds(at) for window in found)
