"""Asking all sources, some of them side by side.

Each has a supervisor of its own (`ganeti_steward.core.process`): what it starts ends with it,
and what cannot be killed is known to be its.  Of the sources only a few run at a time: the figures
of a busy machine are what makes a check of a disk time out.
"""

from __future__ import annotations

import ctypes
import math
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.process import descendants
from ganeti_steward.core.process.forked import LIBC
from ganeti_steward.core.process.supervisor import STOPPED, Outcome, Supervisor
from ganeti_steward.diagnose.sources.isolated import Source

_GET_CHILD_SUBREAPER: Final = 37

_NOTHING: Final[frozenset[descendants.Process]] = frozenset()

#: Seconds after which a supervisor that was stopped is given up.
_GIVEN_UP: Final = 6.0

#: Processes of sources, by the sources' names.
Left = dict[str, frozenset[descendants.Process]]


class SourceRun(NamedTuple):
    """One source's part of a run."""

    source: str
    results: tuple[CheckResult, ...]
    """never empty"""
    seconds: float
    """how long it took"""
    stuck: frozenset[descendants.Process] = _NOTHING
    """processes of it that cannot be killed, of this run or an earlier one"""


def gather(
    sources: Iterable[Source],
    left: Left | None = None,
    *,
    parallel: int = 1,
    limit: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> list[SourceRun]:
    """The results of every source, in the order of the sources.

    One without results is unknown: it did not report Ok.  ``left``: what earlier runs have left
    behind; such a source is not run.  What this run leaves is added, whatever ends the run.
    ``parallel``: sources that run at a time.  ``limit``: seconds; what is not done by then is
    stopped, and unknown.
    """
    gathering = _Gathering({} if left is None else left, limit, clock)
    with adopting_orphans() as others:
        return gathering.run(list(sources), parallel, others)


class _Running(NamedTuple):
    """A source under way."""

    source: Source
    supervisor: Supervisor
    started: float


class _Gathering:
    """The sources under way, by the descriptors of their supervisors, and the results of others."""

    def __init__(self, left: Left, limit: float, clock: Callable[[], float]) -> None:
        self._left, self._limit, self._clock = left, limit, clock
        self._running: dict[int, _Running] = {}
        self._done: dict[str, SourceRun] = {}
        self._stopped = False

    def run(self, sources: list[Source], parallel: int, others: frozenset[int]) -> list[SourceRun]:
        """Run all of them; ``others``: children that have nothing to do with it."""
        deadline, waiting = time.monotonic() + self._limit, sources[::-1]
        try:
            while waiting or self._running:
                while waiting and len(self._running) < parallel and not self._stopped:
                    self._start(waiting.pop())
                if self._stopped and waiting:
                    name = waiting.pop().name
                    self._add(name, (Unknown(name, f"not run: {self._overrun}"),))
                elif self._running:
                    deadline = self._wait(deadline, others)
        finally:
            for running in self._running.values():
                running.supervisor.stop()
            for descriptor in list(self._running):
                self._finish(descriptor, others)
        return [self._done[source.name] for source in sources]

    def _start(self, source: Source) -> None:
        name, there = source.name, self._left.get(source.name, _NOTHING)
        if there:
            numbers = ", ".join(str(process.pid) for process in sorted(there))
            fault = f"not run: a process of an earlier run cannot be killed ({numbers})"
            self._add(name, (Unknown(name, fault),), stuck=there)
        elif source.known:
            self._add(name, source.known)
        else:
            try:
                supervisor = source.start()
            except OSError as err:
                self._add(name, (Unknown(name, f"cannot be run: {err.strerror}"),))
            else:
                self._running[supervisor.fileno()] = _Running(source, supervisor, self._clock())

    @property
    def _overrun(self) -> str:
        return f"the whole run has taken {self._limit:g} s"

    def _wait(self, deadline: float, others: frozenset[int]) -> float:
        """Take what comes from the supervisors until the deadline; the next deadline."""
        poll = select.poll()
        for descriptor in self._running:
            poll.register(descriptor, select.POLLIN)
        left = max(deadline - time.monotonic(), 0)
        ready = poll.poll(None if math.isinf(left) else left * 1000)
        for descriptor, _ in ready:
            if self._running[descriptor].supervisor.read():
                self._finish(descriptor, others)
        if ready or time.monotonic() < deadline:
            return deadline
        if self._stopped:
            for descriptor in list(self._running):
                self._finish(descriptor, others)
        self._stopped = True
        for running in self._running.values():
            running.supervisor.stop()
        return time.monotonic() + _GIVEN_UP

    def _finish(self, descriptor: int, others: frozenset[int]) -> None:
        source, supervisor, started = self._running.pop(descriptor)
        outcome = supervisor.finish()
        stuck = outcome.stuck
        if not outcome.reported:
            # What it was to end has come to this process.
            stuck |= descendants.end_descendants(spare=self._known() | others)
        self._add(source.name, self._results(source, outcome), self._clock() - started, stuck=stuck)

    def _results(self, source: Source, outcome: Outcome) -> tuple[CheckResult, ...]:
        if self._stopped and (outcome.ended.fault == STOPPED or not outcome.reported):
            return (Unknown(source.name, f"stopped: {self._overrun}"),)
        return tuple(source.results(outcome)) or (Unknown(source.name, "reported nothing"),)

    def _known(self) -> frozenset[int]:
        """The children that are no orphans, or orphans whose source is known."""
        supervisors = {running.supervisor.pid for running in self._running.values()}
        stuck = {process.pid for each in self._left.values() for process in each}
        return frozenset(supervisors | (stuck & descendants.children()))

    def _add(
        self,
        name: str,
        results: tuple[CheckResult, ...],
        seconds: float = 0,
        *,
        stuck: frozenset[descendants.Process] = _NOTHING,
    ) -> None:
        self._done[name] = SourceRun(name, results, seconds, stuck)
        self._left[name] = stuck


@contextmanager
def adopting_orphans() -> Iterator[frozenset[int]]:
    """Be a subreaper meanwhile; gives the ids of the children there were before.

    When it ends, the orphans that have come are killed.
    """
    before = frozenset(descendants.children())
    already = ctypes.c_int(0)
    with suppress(AttributeError):
        LIBC.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(already), 0, 0, 0)
    descendants.become_subreaper()
    try:
        yield before
    finally:
        descendants.end_descendants(spare=before)
        descendants.become_subreaper(become=bool(already.value))
