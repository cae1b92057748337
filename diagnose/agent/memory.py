"""What this node did with repair commands, so that the same id is never run twice.

A command is written down before it is started, and again when it has ended.  It is kept in memory
as well: a disk that takes no writing makes nothing run twice while the agent runs, and an agent
that cannot write when it starts takes it that something was lost before.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.model.finding import is_name, is_object_id, object_id
from ganeti_steward.core.node_agent.protocol import CommandEnd, RepairRequest, Seconds, is_id
from ganeti_steward.core.node_agent.remembered import (
    ENDED,
    LOST,
    NEVER,
    RUNNING,
    UNKNOWN,
    RepairState,
)
from ganeti_steward.core.safe_files import read_own
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.core.typed_json import from_json
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.diagnose.run.files import prepare_directory

#: Of the file's form; another one is not understood.
FORM: Final = 1

#: The file's name, and what is put behind it when it is not understood.
FILE: Final = "commands.json"
SET_ASIDE: Final = ".unusable"

#: Commands that are remembered, and characters of the output and the fault of each, the last ones.
KEPT: Final = 200
OUTPUT: Final = 1000

#: The key of the configuration that limits how soon a command is run again.
_AGAIN_AFTER: Final = "agent.repair-again-after"

#: Ids that were queried before they came.
_QUERIED: Final = 1024

#: Seconds the clocks of two nodes may differ; Ganeti warns of more, too.
_APART: Final = 150

#: Bytes of the file; it is far smaller.
_LONGEST: Final = 2**24

_log = logging.getLogger(__name__)


class StartedCommand(NamedTuple):
    """A command that was started."""

    command: str
    """its name"""
    started: int
    """s since the epoch"""
    ended: int = 0
    """s since the epoch; 0 before"""
    outcome: CommandEnd | None = None
    """None until it has ended"""
    object: str = ""
    """the hash of the diagnose object it was run for"""

    @property
    def at(self) -> int:
        """When something was known of it last, s since the epoch."""
        return max(self.started, self.ended)


class Remembered(NamedTuple):
    """All that is remembered, as it is in the file."""

    began: int
    """since when each command that was started is known by its id, s since the epoch"""
    lost: int
    """when something was lost, s since the epoch; 0: never.  A command that was submitted before
    and is not known may have been run"""
    commands: dict[str, StartedCommand]
    """id -> command, the oldest first"""


class _Command(NamedTuple):
    """A command in the file."""

    id: str
    command: str
    started: Seconds
    ended: Seconds
    outcome: CommandEnd | None
    object: str = ""

    def is_good(self) -> bool:
        """Whether its texts are what they have to be."""
        named = is_id(self.id) and is_name(self.command)
        return named and (not self.object or is_object_id(self.object))


class _File(NamedTuple):
    """The content of the file."""

    form: int
    host: str
    """this machine, by the name it has even where no file can be read"""
    began: Seconds
    lost: Seconds
    commands: tuple[_Command, ...]


def written(known: Remembered) -> bytes:
    """What is remembered, as a file."""
    commands = [
        {**each._asdict(), "id": id_, "outcome": each.outcome and each.outcome._asdict()}
        for id_, each in known.commands.items()
    ]
    content = {"form": FORM, "host": os.uname().nodename, "commands": commands}
    return canonical(content | {"began": known.began, "lost": known.lost}) + b"\n"


def parse(raw: bytes) -> Remembered:
    """What a file has; raises StewardError.

    What was run on another machine, whose disk or backup this is, is of no use here.
    """
    try:
        data = load_json(raw)
    except ValueError:
        raise StewardError("it is not JSON") from None
    if not isinstance(data, dict) or data.get("form") != FORM:
        raise StewardError(f"its form is not {FORM}")
    if data.get("host") != os.uname().nodename:
        raise StewardError("it is of another machine")
    try:
        content = from_json(_File, data)
        if not all(map(_Command.is_good, content.commands)):
            raise ValueError
    except ValueError:
        raise StewardError("something in it is of another kind than expected") from None
    commands = {each.id: StartedCommand(*each[1:]) for each in content.commands}
    return Remembered(content.began, content.lost, commands)


class Memory:
    """The commands of this node; may be called by several threads."""

    def __init__(
        self,
        directory: str,
        clock: Callable[[], float],
        again_after: float = 0,
        call_disk: CallDisk = without_timeout,
    ) -> None:
        """``directory``: where the file is; ``clock``: s since the epoch.

        ``again_after``: s in which a command is not run again for the same object; 0: no limit.
        ``call_disk``: reads and writes the file, and may give up.
        """
        self._path, self._clock, self._call_disk = f"{directory}/{FILE}", clock, call_disk
        self._again_after = again_after
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._running = set[str]()
        """ids of those that this process has started"""
        self._queried: OrderedDict[str, str] = OrderedDict()
        """id that was queried before it came -> state that was returned"""
        self._known = self._read()
        if not self._save():
            # It may have been so before this process began, too.
            self._known = self._known._replace(lost=self._now())

    def state(self, id_: str) -> RepairState | None:
        """What is known of a command; None where nothing is."""
        with self._lock:
            return self._state(id_)

    def query(self, id_: str, submitted: int) -> RepairState:
        """The answer to a question: one that has not come by now is not run any more.

        ``submitted``: when the id was given, s since the epoch by the caller's clock.
        """
        with self._lock:
            state = self._state(id_)
            if state is None:
                reaches = submitted >= max(self._known.began, self._known.lost) + _APART
                state = RepairState(NEVER if reaches else UNKNOWN)
                self._queried[id_] = state.state
                if len(self._queried) > _QUERIED:
                    self._queried.popitem(last=False)
            return state

    def begin(self, request: RepairRequest) -> RepairState | None:
        """Note that a command is about to be started: None; or why it must not be.

        One that is too early is not noted: its id may come again.
        """
        with self._lock:
            state = self._found(request)
            if state is None and (fault := self._too_early(request)):
                state = RepairState(ENDED, request.command, 0, CommandEnd(None, fault=fault))
            if state is not None:
                return state
            self._known.commands[request.id] = StartedCommand(
                request.command, self._now(), object=object_id(request.diagnose)
            )
            self._running.add(request.id)
            self._forget()
        self._save()
        return None

    def _found(self, request: RepairRequest) -> RepairState | None:
        """Why a command with its id must not be started."""
        state = self._state(request.id)
        if state is None and self._known.lost and request.submitted < self._known.lost + _APART:
            return RepairState(UNKNOWN)
        return state

    def _too_early(self, request: RepairRequest) -> str:
        """Why the command must not be run yet, one sentence; empty when it may be."""
        limit, same = self._again_after, (request.command, object_id(request.diagnose))
        # The clock may have been set: a caller never waits longer than the limit for that.
        recent = [
            (abs(self._now() - command.at), (command.command, command.object))
            for command in self._known.commands.values()
            if abs(self._now() - command.at) < limit
        ]
        if ages := [age for age, what in recent if what == same]:
            return (
                f"it was not run: {request.command} was run for the same diagnose object "
                f"{min(ages)} s ago, and is not run again for another {limit - min(ages):g} s "
                f"({_AGAIN_AFTER})"
            )
        if len(recent) < KEPT:
            return ""
        return (
            f"it was not run: {KEPT} commands were run within the last {limit:g} s "
            f"({_AGAIN_AFTER}), and the agent remembers no more"
        )

    def end(self, request: RepairRequest, outcome: CommandEnd | None) -> None:
        """Note the outcome of a command; None where it is not known."""
        id_ = request.id
        with self._lock:
            self._running.discard(id_)
            if outcome is not None:
                kept = outcome._replace(
                    output=outcome.output[-OUTPUT:], fault=outcome.fault[-OUTPUT:]
                )
                begun = self._known.commands[id_]
                self._known.commands[id_] = begun._replace(ended=self._now(), outcome=kept)
        self._save()

    def _now(self) -> int:
        return max(int(self._clock()), 0)

    def _state(self, id_: str) -> RepairState | None:
        if id_ in self._queried:
            return RepairState(self._queried[id_])
        found = self._known.commands.get(id_)
        if found is None:
            return None
        if found.outcome is not None:
            return RepairState(ENDED, found.command, found.started, found.outcome)
        state = RUNNING if id_ in self._running else LOST
        return RepairState(state, found.command, found.started)

    def _forget(self) -> None:
        """Keep the newest ones; of what was submitted before the others nothing is known then."""
        commands = self._known.commands
        while len(commands) > KEPT:
            oldest = commands.pop(next(iter(commands)))
            self._known = self._known._replace(lost=max(self._known.lost, oldest.started))

    # The file

    def _read(self) -> Remembered:
        now = self._now()
        try:
            self._call_disk(lambda: _prepare(os.path.dirname(self._path)))
            return parse(self._call_disk(lambda: read_own(self._path, _LONGEST)))
        except FileNotFoundError:
            return Remembered(now, 0, {})
        except (OSError, StewardError) as err:
            reason = reason_of(err) if isinstance(err, OSError) else err
            text = f"{self._path} cannot be used: {reason}"
        with suppress(OSError):
            self._call_disk(lambda: os.replace(self._path, self._path + SET_ASIDE))
            text += f" (the file is {self._path + SET_ASIDE} now)"
        _log.warning("which repair commands were run is not known any more: %s", text)
        return Remembered(now, now, {})

    def _save(self) -> bool:
        """Whether all is on the disk."""
        with self._writing:
            with self._lock:
                content = written(self._known)
            try:
                self._call_disk(lambda: write_file(self._path, content))
            except (OSError, StewardError) as err:
                reason = reason_of(err) if isinstance(err, OSError) else err
                _log.warning("repair commands are remembered in memory only: %s", reason)
                return False
            return True


def _prepare(directory: str) -> None:
    """Make the directory; no other user may exchange it in the one that it is in."""
    prepare_directory(os.path.dirname(directory))
    prepare_directory(directory)
