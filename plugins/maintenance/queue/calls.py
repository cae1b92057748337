"""Calls that hand jobs over: each is waited for until luxid has ended it, however long it takes.

A master candidate that hangs delays luxid for a minute and more while it stores jobs.  A round
waits for a part of that only; the call goes on in a thread of its own, and what it has returned is
known to a later round.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.maintenance.task import Task
from ganeti_steward.core.safe_files import open_own, read_own
from ganeti_steward.core.typed_json import from_json, to_json

_LONGEST: Final = 2**20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class _Noted(NamedTuple):
    """What the file has."""

    calls: frozenset[str]
    """ids of the submissions that are being handed over"""
    complete: bool
    """whether there can be no others"""


class CallNotes:
    """The calls of this daemon, and those of the one before at its end."""

    def __init__(self, path: str, *, writes: bool = True) -> None:
        """``writes``: false where another process may be the daemon."""
        self._path, self._writes = path, writes
        self._before = _read(path)
        """what the daemon before was handing over at its end; None: that is not known"""
        self._own: frozenset[str] = frozenset()

    def may_go_on(self, submission: str) -> bool:
        """Whether the daemon before may have been handing this over at its end."""
        return self._before is None or submission in self._before

    @property
    def any_before(self) -> bool:
        """Whether it may have been handing over anything."""
        return self._before is None or bool(self._before)

    def forget_before(self) -> None:
        """The calls of the daemon before are over."""
        self._before = frozenset()
        # What stays noted is waited for without need.
        with suppress(StewardError):
            self._write()

    def begin(self, submissions: Iterable[str]) -> None:
        """Note what is handed over from now on; raises StewardError."""
        before = self._own
        self._own |= frozenset(submissions)
        try:
            self._write()
        except StewardError:
            self._own = before
            raise

    def end(self, submissions: Iterable[str]) -> None:
        """Note that the calls of these are over."""
        self._own -= frozenset(submissions)
        with suppress(StewardError):
            self._write()

    def _write(self) -> None:
        if not self._writes:
            return
        noted = _Noted(self._own | (self._before or frozenset()), self._before is not None)
        text = json.dumps(to_json(_Noted, noted))
        new = f"{self._path}.new"
        try:
            with open(open_own(new, _FLAGS), "w", encoding="ascii") as file:
                file.write(text)
            os.replace(new, self._path)
        except OSError as err:
            raise StewardError(f"{self._path} cannot be written: {reason_of(err)}") from None


def _read(path: str) -> frozenset[str] | None:
    """What a file says; None where it says nothing that can be relied on."""
    try:
        found = from_json(_Noted, load_json(read_own(path, _LONGEST)))
    except (OSError, ValueError, StewardError):
        return None
    return found.calls if found.complete else None


#: Seconds for which a round waits.
ROUND_WAIT: Final = 20.0

_log: Final = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """What became of one task."""

    numbers: tuple[int, ...] = ()
    """of its jobs"""
    refused: str = ""
    """why luxid did not take all of its jobs; empty when it did"""
    withdrawn: str = ""
    """why it was not handed over, without being at fault; empty when it was: it is planned again"""
    unknown: str = ""
    """why it is not known whether luxid has its jobs; empty when it is"""


class AnyStarted(Protocol):
    """A task to be handed over."""

    @property
    def submission(self) -> str:
        """The id of its submission."""

    @property
    def task(self) -> Task:
        """What it is."""


class _Call:
    """One call, in a thread of its own."""

    def __init__(
        self,
        started: Collection[AnyStarted],
        make: Callable[[], Mapping[str, Outcome]],
        ended: Callable[[], None],
    ) -> None:
        self.started = {one.submission: one for one in started}
        self._make, self._ended = make, ended
        self._outcomes: Mapping[str, Outcome] = {}
        self._thread = threading.Thread(target=self._run, name="submit", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcomes = self._make()
        except Exception as err:
            _log.exception("jobs cannot be handed over")
            text = f"{type(err).__name__}: {err}"
            self._outcomes = {one: Outcome(unknown=text) for one in self.started}
        self._ended()

    def outcomes(self, wait: float) -> Mapping[str, Outcome] | None:
        """What it returned; None while it goes on, after so many seconds."""
        self._thread.join(wait)
        return None if self._thread.is_alive() else self._outcomes


class Calls:
    """The calls of this process that hand jobs over."""

    def __init__(
        self,
        wait: float = ROUND_WAIT,
        wake: Callable[[], None] = lambda: None,
        notes: CallNotes | None = None,
    ) -> None:
        """``wait``: seconds; ``wake`` is called by another thread when a call has ended."""
        self._wait, self._wake, self._notes = wait, wake, notes
        self._running: list[_Call] = []
        self._known: dict[str, Outcome] = {}
        """submission id -> what became of it, until its record says so"""

    def make(
        self, started: Collection[AnyStarted], call: Callable[[], Mapping[str, Outcome]]
    ) -> dict[str, Outcome]:
        """The outcome of each submission, unknown where the call goes on."""
        if self._notes:
            try:
                self._notes.begin(one.submission for one in started)
            except StewardError as err:
                return {one.submission: Outcome(withdrawn=str(err)) for one in started}
        made = _Call(started, call, self._wake)
        outcomes = made.outcomes(self._wait)
        if outcomes is None:
            self._running.append(made)
            text = f"luxid has not answered within {self._wait:g} s; the answer is waited for"
            return {one: Outcome(unknown=text) for one in made.started}
        self._end(outcomes)
        return dict(outcomes)

    def _end(self, outcomes: Mapping[str, Outcome]) -> None:
        self._known |= outcomes
        if self._notes:
            self._notes.end(outcomes)

    def withdraw(self, submission: str, reason: str) -> None:
        """Note that a submission that may be recorded is not handed over."""
        self._known[submission] = Outcome(withdrawn=reason)

    def running(self) -> tuple[AnyStarted, ...]:
        """What is being handed over now."""
        left: list[_Call] = []
        for call in self._running:
            outcomes = call.outcomes(0)
            if outcomes is None:
                left.append(call)
            else:
                self._end(outcomes)
        self._running = left
        return tuple(one for call in left for one in call.started.values())

    def outcome(self, submission: str) -> Outcome | None:
        """What became of a submission whose call has ended; None where none did in here."""
        return self._known.get(submission)

    def forget(self, left: Iterable[str]) -> None:
        """Keep the outcomes of these submissions only: the records have the others."""
        kept = set(left)
        self._known = {key: one for key, one in self._known.items() if key in kept}
