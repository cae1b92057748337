"""Calls that hand jobs over: each is waited for until luxid has ended it, however long it takes.

A master candidate that hangs delays luxid for a minute and more while it stores jobs.  A round
waits for a part of that only; the call goes on in a thread of its own, and what it has returned is
known to a later round.

Whether the calls of an earlier daemon still go on, luxid's connections show.  It closes the
connection of a call when the call has ended, or a while later where the caller is gone; the kernel
closes them all when luxid itself ends.  So a call that was made before a moment is over as soon as
every connection that was open at that moment has been closed.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.safe_files import read_own
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.plugins.maintenance.runtime import REAL, Runtime
from ganeti_steward.plugins.model.task import Task

#: The kernel's list of the Unix sockets of this network namespace.
TABLE: Final = "/proc/net/unix"

#: The flag of a socket that listens.
_LISTENS: Final = 0x10000
#: Fields before the path, in a line of the list.
_FIELDS: Final = 7

#: Seconds for which `Connections.awaited` waits, and between two looks: a call that has ended is
#: closed within milliseconds.
_WAIT: Final = 2.0
_LOOK: Final = 0.05
#: How often the list is read for one look.  The kernel makes it in pieces, and leaves a socket out
#: where another one is closed between two of them: beside two busy programs that was seen in up to
#: 1 of 200 readings, and in none of 80,000 pairs of them.
_READINGS: Final = 5


class _Open(NamedTuple):
    """The connections of a socket at one moment, seen from the side of the server."""

    accepted: frozenset[int]
    """inode numbers"""
    unaccepted: int
    """how many the server has not taken yet; these have no inode number"""


class Connections:
    """The connections that were open at the first look."""

    def __init__(
        self,
        path: str,
        *,
        table: str = TABLE,
        wait: float = _WAIT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``path``: luxid's socket; ``wait``: seconds that `awaited` takes at most."""
        self._path, self._table = path, table
        self._wait, self._sleep = wait, sleep
        self._name = ""
        """what the list calls the socket"""
        self._before: frozenset[int] | None = None
        """inode numbers of those that have not been closed since"""

    def awaited(self) -> str:
        """Why a call made before the first look may go on; empty when none does.

        For a process that can be sure that no other one makes calls for the daemon.
        """
        if self._before is not None and not self._before:
            return ""
        try:
            return self._look()
        except OSError as err:
            fault = f"{self._table} cannot be read: {reason_of(err)}"
        except StewardError as err:
            fault = str(err)
        return f"the connections to luxid cannot be listed: {fault}"

    def _look(self) -> str:
        if self._before is None:
            now = self._visible()
            if now.unaccepted:
                return f"luxid has not taken {now.unaccepted} connections yet"
            self._before = now.accepted
        looks = int(self._wait / _LOOK)
        for left in reversed(range(looks + 1)):
            self._before &= self._read().accepted
            if not self._before or not left:
                break
            self._sleep(_LOOK)
        if not self._before:
            return ""
        return (
            f"{len(self._before)} connections to luxid that were open when the daemon began must "
            "be closed: a call is under way, or a command waits for a job (a restart of luxid "
            "closes them)"
        )

    def _visible(self) -> _Open:
        """The connections, once it is certain that the list has those of this socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
            own.settimeout(_WAIT)
            own.connect(self._path)
            # The list has the name that the server gave it, which can be another one than ours.
            self._name = own.getpeername()
            if not list(self._rows()):
                raise StewardError(f"{self._table} does not list the connections of {self._path}")
        # luxid takes connections in their order, and lets go of one without a request.
        for _ in range(int(self._wait / _LOOK)):
            seen = self._read()
            if not seen.unaccepted:
                break
            self._sleep(_LOOK)
        return seen

    def _read(self) -> _Open:
        readings = [list(self._rows()) for _ in range(_READINGS)]
        accepted = frozenset(inode for inodes in readings for inode in inodes if inode)
        return _Open(accepted, max(inodes.count(0) for inodes in readings))

    def _rows(self) -> Iterator[int]:
        """The inode numbers of the connections to the socket; 0 until luxid takes one."""
        with open(self._table, encoding="utf-8", errors="surrogateescape") as file:
            for line in list(file)[1:]:
                fields = line.rstrip("\n").split(None, _FIELDS)
                listens = int(fields[3], 16) & _LISTENS
                if fields[_FIELDS:] == [self._name] and not listens:
                    yield int(fields[6])


_LONGEST: Final = 2**20


class Noted(NamedTuple):
    """What the file has."""

    calls: frozenset[str] = frozenset()
    """ids of submissions that are being handed over"""
    complete: bool = False
    """whether there can be no others"""


class CallNotes:
    """The calls of this daemon, and those of the one before at its end."""

    def __init__(self, path: str, *, writes: bool = True) -> None:
        """``writes``: false where another process may be the daemon."""
        self._path, self._writes = path, writes
        self._before = _read(path)
        """what the daemon before was handing over at its end"""
        self._own: frozenset[str] = frozenset()

    def may_go_on(self, submission: str) -> bool:
        """Whether the daemon before may have been handing this over at its end."""
        return not self._before.complete or submission in self._before.calls

    def without_record(self, recorded: Collection[str]) -> bool:
        """Whether the daemon before was handing over a submission that is not among these."""
        return not self._before.calls <= frozenset(recorded)

    @property
    def any_before(self) -> bool:
        """Whether it may have been handing over anything."""
        return bool(self._before.calls) or not self._before.complete

    def forget_before(self) -> None:
        """The calls of the daemon before are over."""
        self._before = Noted(complete=True)
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

    @property
    def _all(self) -> Noted:
        return self._before._replace(calls=self._own | self._before.calls)

    def _write(self) -> None:
        if self._writes:
            write_file(self._path, json.dumps(to_json(Noted, self._all)).encode())


def _read(path: str) -> Noted:
    """What a file says; nothing, not completely, where it says nothing that can be relied on."""
    try:
        found: Noted = from_json(Noted, load_json(read_own(path, _LONGEST)))
    except (OSError, ValueError, StewardError):
        return Noted()
    return found


#: Seconds for which a round waits.
ROUND_WAIT: Final = 20.0

_log: Final = logging.getLogger(__name__)


class TaskOutcome(NamedTuple):
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
        make: Callable[[], Mapping[str, TaskOutcome]],
        ended: Callable[[], None],
        runtime: Runtime,
    ) -> None:
        self.started = {start.submission: start for start in started}
        self._make, self._ended = make, ended
        self._lock, self._over, self._beside = threading.Lock(), False, False
        self._outcomes: Mapping[str, TaskOutcome] = {}
        self._thread = runtime.start("submit", self._run)

    def _run(self) -> None:
        try:
            self._outcomes = self._make()
        except Exception as err:
            _log.exception("jobs cannot be handed over")
            text = f"{type(err).__name__}: {err}"
            self._outcomes = {one: TaskOutcome(unknown=text) for one in self.started}
        with self._lock:
            self._over, beside = True, self._beside
        # A round that has waited for it knows; woken again it would try at once what was refused.
        if beside:
            self._ended()

    def outcomes(self, wait: float) -> Mapping[str, TaskOutcome] | None:
        """What it returned; None while it goes on, after so many seconds."""
        self._thread.join(wait)
        with self._lock:
            self._beside = not self._over
        return self._outcomes if self._over else None


class Calls:
    """The calls of this process that hand jobs over."""

    def __init__(
        self,
        wait: float = ROUND_WAIT,
        wake: Callable[[], None] = lambda: None,
        notes: CallNotes | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        """``wait``: seconds; ``wake`` is called by another thread when a call ends later."""
        self._wait, self._wake, self._notes, self._runtime = wait, wake, notes, runtime
        self._running: list[_Call] = []
        self._known: dict[str, TaskOutcome] = {}
        """submission id -> what became of it, until its record says so"""

    def make(
        self, started: Collection[AnyStarted], call: Callable[[], Mapping[str, TaskOutcome]]
    ) -> dict[str, TaskOutcome]:
        """The outcome of each submission, unknown where the call goes on."""
        if self._notes:
            try:
                self._notes.begin(start.submission for start in started)
            except StewardError as err:
                return {start.submission: TaskOutcome(withdrawn=str(err)) for start in started}
        made = _Call(started, call, self._wake, self._runtime)
        outcomes = made.outcomes(self._wait)
        if outcomes is None:
            self._running.append(made)
            text = f"luxid has not answered within {self._wait:g} s; the answer is waited for"
            return {one: TaskOutcome(unknown=text) for one in made.started}
        self._end(outcomes)
        return dict(outcomes)

    def _end(self, outcomes: Mapping[str, TaskOutcome]) -> None:
        self._known |= outcomes
        if self._notes:
            self._notes.end(outcomes)

    def withdraw(self, submission: str, reason: str) -> None:
        """Note that a submission that may be recorded is not handed over."""
        self._known[submission] = TaskOutcome(withdrawn=reason)

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
        return tuple(start for call in left for start in call.started.values())

    def outcome(self, submission: str) -> TaskOutcome | None:
        """What became of a submission whose call has ended; None where none did in here."""
        return self._known.get(submission)

    def forget(self, left: Iterable[str]) -> None:
        """Keep the outcomes of these submissions only: the records have the others."""
        kept = set(left)
        self._known = {key: outcome for key, outcome in self._known.items() if key in kept}
