"""Runs repair commands of node agents in the background, each submission once.

Where the outcome of one is not known, its agent is queried by the submission's id until that is
known: after a lost connection, and for those that another process of the daemon has started.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.node_agent.protocol import CommandEnd
from ganeti_steward.core.node_agent.remembered import (
    ENDED,
    LOST,
    NEVER,
    RUNNING,
    RepairState,
)
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.client import AgentRefused
from ganeti_steward.plugins.maintenance.edges.poll import Target, agent_client
from ganeti_steward.plugins.maintenance.engine.decision import (
    HAS_ENDED,
    NEVER_CAME,
    NOT_KNOWN,
    REFUSED,
    UNCERTAIN,
    CommandResult,
)
from ganeti_steward.plugins.maintenance.runtime import REAL, Runtime
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.texts import utc_time

#: Characters of a command's output that are kept.
_OUTPUT: Final = 1000

#: Results that are kept.
_KEPT: Final = 1000

#: Seconds between two questions about the same command.
_PAUSE: Final = 5.0

#: How many times in a row a command of a node may not reach its agent.
_ATTEMPTS: Final = 5

_SECOND: Final = 10**9

_log = logging.getLogger(__name__)


class SubmittedCommand(NamedTuple):
    """A repair command of one submission."""

    submission: str
    """its id"""
    name: str
    submitted: int
    """s since the epoch"""
    target: Target
    """the node that runs it"""
    takes_over: bool = False
    """whether it makes that node the master, and is no command of the node's own"""


class AgentCalls(NamedTuple):
    """Calls to agents; they raise StewardError."""

    repair: Callable[[SubmittedCommand, bytes], CommandEnd]
    """has a command run, with the diagnose object that requests it, as canonical JSON"""
    ask: Callable[[SubmittedCommand], RepairState]
    """what became of it"""
    time_limit: float
    """s; how long a command may take, and how long it is queried"""


def agent_calls(settings: Maintd, key: KeyFile) -> AgentCalls:
    """Calls to the real agents."""
    limit = settings.command_time_limit

    def repair(command: SubmittedCommand, diagnose: bytes) -> CommandEnd:
        client = agent_client(command.target, settings, key)
        once = (command.submission, command.submitted)
        if command.takes_over:
            return client.take_over(command.target.name, diagnose, limit, once)
        # Each node knows its own name; its uuid only if it is a master candidate.
        return client.repair(command.target.name, command.name, diagnose, limit, once)

    def ask(command: SubmittedCommand) -> RepairState:
        client = agent_client(command.target, settings, key)
        return client.repair_state(command.target.name, command.submission, command.submitted)

    return AgentCalls(repair, ask, limit)


class RepairRunner:
    """Commands that are running, and the results of those that have ended."""

    def __init__(
        self,
        calls: Callable[[], AgentCalls],
        wake: Callable[[], None],
        *,
        runtime: Runtime = REAL,
        pause: float = _PAUSE,
    ) -> None:
        """``calls``: those of this moment; ``wake`` is called when a result is there.

        ``pause``: s between two questions about a command.
        """
        self._calls, self._wake, self._runtime, self._pause = calls, wake, runtime, pause
        self._lock = threading.Lock()
        self._started = set[str]()
        """ids of the submissions that have a thread or a result"""
        self._results: dict[str, CommandResult] = {}
        self._open = set[str]()
        """ids of the submissions that are still open"""
        self._failed = Counter[tuple[str, str]]()
        """uuid of a node and name of a command -> how many times in a row it did not arrive"""

    def start(
        self,
        submission: str,
        target: Target,
        command: str,
        original: bytes,
        *,
        takes_over: bool = False,
    ) -> None:
        """Run a command in the background, unless it is or was run for this submission already.

        ``submission``: its id; ``original``: the diagnose object that requests it, as
        canonical JSON.  ``takes_over``: see `SubmittedCommand`.
        """
        now = self._runtime.clock() // _SECOND
        one = SubmittedCommand(submission, command, now, target, takes_over)
        with self._lock:
            if submission in self._started:
                return
            self._begin(one, self._run, original)

    def results(self, submissions: Iterable[tuple[Submission, Target]]) -> dict[str, CommandResult]:
        """Submission id -> what is known, of those whose command is not running.

        ``submissions``: all open ones, each with the node of its incident.  A command that another
        process of the daemon has started, before a restart, is queried from now on.
        """
        wanted = {one.id: (one, target) for one, target in submissions if one.command}
        with self._lock:
            self._open = {*wanted}
            for one, target in wanted.values():
                if one.id not in self._started:
                    command = SubmittedCommand(one.id, one.command, one.at // _SECOND, target)
                    self._begin(command, self._ask, _lost(one.command))
            return {key: self._results[key] for key in wanted if key in self._results}

    def _begin(self, command: SubmittedCommand, work: Callable[..., None], *more: object) -> None:
        """Do some work for a command in a thread of its own."""
        key = command.submission
        self._started.add(key)
        self._open.add(key)
        try:
            self._runtime.start("repair", partial(work, command, *more))
        except RuntimeError as err:
            if work == self._ask:
                # It is tried again with the next round.
                self._started.discard(key)
            else:
                text = f"{command.name} was not run: {err}"
                self._results[key] = CommandResult(False, text)
                self._wake()

    def _run(self, command: SubmittedCommand, diagnose: bytes) -> None:
        try:
            result = _result(self._calls().repair(command, diagnose))
        except AgentRefused as err:
            state = REFUSED if command.takes_over else HAS_ENDED
            result = CommandResult(False, str(err), state)
        except StewardError as err:
            self._ask(command, str(err))
            return
        except Exception as err:
            _log.exception("the repair command %s failed", command.name)
            self._ask(command, f"{err}; whether {command.name} was run is not known")
            return
        self._end(command, result)

    def _ask(self, command: SubmittedCommand, first: str) -> None:
        """Ask until the outcome of a command is known, or its submission is not open any more.

        ``first``: why it is not known, one sentence.
        """
        begun = self._runtime.monotonic()
        while True:
            result, limit = self._ask_once(command, first), self._calls().time_limit
            if result is not None and result.state != NOT_KNOWN:
                break
            # It may take as long, and is queried as long after that: also over restarts.
            age = self._runtime.clock() // _SECOND - command.submitted
            if self._runtime.monotonic() - begun > limit or age > 2 * limit:
                text = result.text if result else f"{command.name} still ran after {limit:g} s"
                result = CommandResult(False, text, UNCERTAIN)
                break
            self._note(command, result)
            self._runtime.sleep(self._pause)
            with self._lock:
                is_open = command.submission in self._open
            if not is_open:
                result = None
                break
        self._end(command, result)

    def _ask_once(self, command: SubmittedCommand, first: str) -> CommandResult | None:
        """What its agent says; None while it runs."""
        try:
            found = self._calls().ask(command)
        except StewardError as err:
            text = f"whether {command.name} was run is not known: {err}"
            return CommandResult(False, text, NOT_KNOWN)
        except Exception as err:
            _log.exception("the repair command %s failed", command.name)
            text = f"{err}; whether {command.name} was run is not known"
            return CommandResult(False, text, UNCERTAIN)
        if found.state == RUNNING:
            return None
        return self._never_came(command, first) if found.state == NEVER else _judged(command, found)

    def _never_came(self, command: SubmittedCommand, first: str) -> CommandResult:
        """It is started again, but not for ever."""
        with self._lock:
            self._failed[_place(command)] += 1
            times = self._failed[_place(command)]
        if times < _ATTEMPTS:
            return CommandResult(False, f"{command.name} did not reach the agent", NEVER_CAME)
        return CommandResult(
            False, f"{command.name} did not reach the agent {times} times: {first}"
        )

    def _note(self, command: SubmittedCommand, result: CommandResult | None) -> None:
        """Note what is known meanwhile."""
        with self._lock:
            self._results.pop(command.submission, None)
            if result is not None:
                self._results[command.submission] = result

    def _end(self, command: SubmittedCommand, result: CommandResult | None) -> None:
        """Note the result; None where nothing waits for it any more."""
        self._note(command, result)
        with self._lock:
            if result is None:
                self._started.discard(command.submission)
            elif result.state != NEVER_CAME:
                self._failed.pop(_place(command), None)
            if len(self._results) > _KEPT:
                # Should it still be open, its agent is queried.
                oldest = next(iter(self._results))
                del self._results[oldest]
                self._started.discard(oldest)
        self._wake()


def commands_of(
    incidents: Iterable[Incident], targets: Iterable[Target]
) -> Iterator[tuple[Submission, Target]]:
    """All open submissions, each with the node whose agent has, or should have, its command.

    That of a hook is the master of then: another one does not run it a second time.
    """
    known = {name: one for one in targets for name in (one.uuid, one.name)}
    for incident in incidents:
        own = Target(incident.node, incident.node_name, "")
        for one in incident.open:
            target = Target(one.agent, one.agent, "") if one.agent else own
            yield one, known.get(target.uuid, target)


def _place(command: SubmittedCommand) -> tuple[str, str]:
    return command.target.uuid, command.name


def _judged(command: SubmittedCommand, found: RepairState) -> CommandResult:
    """The outcome of a command that its agent knows, or has known."""
    if found.state == ENDED:
        return _result(found.outcome)
    if found.state == LOST:
        started = utc_time(found.started * _SECOND)
        why = "the agent or the node was restarted meanwhile"
        text = f"{command.name} was started at {started}, and how it ended is not known: {why}"
        return CommandResult(False, text, UNCERTAIN)
    why = "the memory of the agent does not go back so far"
    text = f"whether {command.name} was run is not known: {why}"
    return CommandResult(False, text, UNCERTAIN)


def _result(outcome: CommandEnd) -> CommandResult:
    """The outcome of a command, in one sentence."""
    output = " ".join(outcome.output.split())
    if len(output) > _OUTPUT:
        output = f"...{output[-_OUTPUT:]}"
    ending = outcome.fault or (
        f"exit status {outcome.status}" if outcome.status is not None else "no exit status"
    )
    text = f"{ending}: {output}" if output else ending
    if outcome.status is not None and outcome.status < 0 and not outcome.fault:
        # Who reboots a node ends what runs there by a signal.
        return CommandResult(False, text, UNCERTAIN)
    return CommandResult(not outcome.fault and outcome.status == 0, text)


def _lost(command: str) -> str:
    return f"the daemon was restarted meanwhile; whether {command} was run is not known"
