"""Asking all sources, one after the other.

A run takes no longer than the limits of its sources together, and about a second more for each
that has to be stopped.  Side by side they would be faster, but the figures of a busy machine
are what makes a check of a disk time out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.diagnose.run.loading import Source
from ganeti_steward.diagnose.run.stuck import Process, stuck_children

_NOTHING: Final[frozenset[Process]] = frozenset()


class SourceRun(NamedTuple):
    """One source's part of a run."""

    source: str
    results: tuple[CheckResult, ...]
    """never empty"""
    seconds: float
    """how long it took"""
    stuck: frozenset[Process] = _NOTHING
    """processes of it that cannot be killed, of this run or an earlier one"""


def gather(
    sources: Iterable[Source],
    left: Mapping[str, frozenset[Process]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[SourceRun]:
    """The results of every source.  One without results is unknown: it did not report Ok.

    ``left``: what earlier runs have left behind; such a source is not run.
    """
    source_runs: list[SourceRun] = []
    before = stuck_children()
    for source in sources:
        there = (left or {}).get(source.name, _NOTHING)
        if there:
            numbers = ", ".join(str(process.pid) for process in sorted(there))
            fault = f"not run: a process of an earlier run cannot be killed ({numbers})"
            source_runs.append(SourceRun(source.name, (Unknown(source.name, fault),), 0, there))
            continue
        started = clock()
        results = tuple(source.run()) or (Unknown(source.name, "reported nothing"),)
        took = clock() - started
        now = stuck_children()
        source_runs.append(SourceRun(source.name, results, took, now - before))
        before = now
    return source_runs
