"""Asking all sources, one after the other.

A run takes no longer than the limits of its sources together, and about a second more for each
that has to be stopped.  Side by side they would be faster, but the figures of a busy machine
are what makes a check of a disk time out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ganeti_steward.core.finding import Said, Unknown
from ganeti_steward.diagnose.loading import Source


class Asked(NamedTuple):
    """One source's part of a run."""

    source: str
    said: tuple[Said, ...]
    """never empty"""
    seconds: float


def gather(sources: Iterable[Source], clock: Callable[[], float] = time.monotonic) -> list[Asked]:
    """What every source says.  One that says nothing is unknown: it did not say it is fine."""
    asked = []
    for source in sources:
        started = clock()
        said = tuple(source.ask()) or (Unknown(source.name, "said nothing"),)
        asked.append(Asked(source.name, said, clock() - started))
    return asked
