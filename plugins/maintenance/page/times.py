"""Times as the page shows them."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.units import utc_time

_SECOND: Final = 10**9

#: Seconds from which on a unit is used, the unit in seconds, and its name.
_UNITS: Final = ((2 * 86400, 86400, "days"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


class Moment(NamedTuple):
    """A time, and how long ago it was when the page was made."""

    iso: str
    """UTC, to the second"""
    age: str
    """``5 min ago``"""


def duration(seconds: float) -> str:
    """``45 s``, ``5 min``, ``3 h``, ``2 days``; rounded down."""
    whole = max(int(seconds), 0)
    return next(f"{whole // unit} {name}" for least, unit, name in _UNITS if whole >= least)


def moment(at: int | None, now: int) -> Moment | None:
    """``at``, ``now``: ns since the epoch; None for no time."""
    if not at:
        return None
    return Moment(utc_time(at), f"{duration((now - at) // _SECOND)} ago")
