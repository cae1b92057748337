"""Until when an aggregate is meant to be used: the end of a reservation.

A date as ``2026-12-31``; the day itself still counts, in the time zone of the machine.  Nothing
happens by itself at the end: it is shown, and there are notes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from ganeti_steward.plugins.aggregates.language.expression import ExpressionError

#: Days before the end from which on there are notes.
SOON: Final = 7

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)

#: Returns seconds since 1970.
Clock = Callable[[], float]


def checked_date(text: str) -> str:
    """A date that exists, ``YYYY-MM-DD``; raises ExpressionError."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        time.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise ExpressionError(f"{text!a} is no date (YYYY-MM-DD)") from None
    return text


def day(clock: Clock, later: int = 0) -> str:
    """The day it is, or one ``later`` days from now, as ``2026-12-31``."""
    # At noon: no change of the clocks makes another day of it.
    now = time.localtime(clock())
    then = time.mktime((now.tm_year, now.tm_mon, now.tm_mday + later, 12, 0, 0, 0, 0, -1))
    return time.strftime("%Y-%m-%d", time.localtime(then))


def ended(until: Mapping[str, str], name: str, clock: Clock) -> bool:
    """Whether the last day of an aggregate is over."""
    return name in until and until[name] < day(clock)


def warning(until: Mapping[str, str], name: str, clock: Clock) -> str:
    """What is to be known about the end of an aggregate; empty when there is nothing now."""
    if name not in until:
        return ""
    if until[name] < day(clock):
        return f"{name} ended on {until[name]}"
    return f"{name} ends on {until[name]}" if until[name] <= day(clock, SOON) else ""
