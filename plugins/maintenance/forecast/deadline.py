"""Times that a user writes: the next 06:00, the next Saturday at 06:00, or a date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FORM: Final = re.compile(
    rf"(?:({'|'.join(_DAYS)}) +|(\d{{4}}-\d\d-\d\d) +)?([01]\d|2[0-3]):([0-5]\d)"
)


def read_deadline(text: str, now: datetime) -> datetime | None:
    """The time that a text means, after ``now``; None: it has another form, or is over.

    ``now``: local time without a zone, and so is what is returned.  ``06:00``, ``Sat 06:00``,
    ``2026-12-05 06:00``.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    day, date, hour, minute = found.groups()
    if date is None:
        at = now.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
        step = 7 if day else 1
        if day:
            at += timedelta(days=(_DAYS.index(day) - at.weekday()) % 7)
        return at if at > now else at + timedelta(days=step)
    try:
        at = datetime.fromisoformat(f"{date} {hour}:{minute}")
    except ValueError:
        return None
    return at if at > now else None
