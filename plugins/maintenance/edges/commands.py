"""Runs repair commands of node agents in the background, each submission once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.maintenance.incident import Submission
from ganeti_steward.core.maintenance.world import diagnose_object
from ganeti_steward.core.node_agent.protocol import Outcome
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.poll import Target, agent_client
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult

#: Characters of a command's output that are kept.
_OUTPUT: Final = 1000

#: Results that are kept.
_KEPT: Final = 1000

_log = logging.getLogger(__name__)

#: Has a command run on a node, with the diagnose object that requests it; raises StewardError.
Repair = Callable[[Target, str, Mapping[str, Any]], Outcome]


def agent_repairs(settings: Maintd, key: KeyFile) -> Repair:
    """Has commands run by the real agents."""

    def repair(target: Target, command: str, diagnose: Mapping[str, Any]) -> Outcome:
        client = agent_client(target, settings, key)
        # Each node knows its own name; its uuid only if it is a master candidate.
        return client.repair(target.name, command, diagnose, settings.command_time_limit)

    return repair


class RepairRunner:
    """Commands that are running, and the results of those that have ended."""

    def __init__(self, repair: Repair, wake: Callable[[], None]) -> None:
        """``wake`` is called when a result is there."""
        self._repair, self._wake = repair, wake
        self._lock = threading.Lock()
        self._started = set[str]()
        """ids of all submissions there ever were in this process"""
        self._running = set[str]()
        self._results: dict[str, CommandResult] = {}

    def start(self, submission: str, target: Target, command: str, original: bytes) -> None:
        """Run a command in the background, unless it is or was run for this submission already.

        ``submission``: its id; ``original``: the diagnose object that requests it, as JSON.
        """
        with self._lock:
            if submission in self._started:
                return
            self._started.add(submission)
            self._running.add(submission)
        arguments = (submission, target, command, diagnose_object(original))
        try:
            threading.Thread(target=self._run, args=arguments, name="repair", daemon=True).start()
        except RuntimeError as err:
            self._end(submission, CommandResult(False, f"{command} was not run: {err}"))

    def results(self, open_submissions: Iterable[Submission]) -> dict[str, CommandResult]:
        """Submission id -> result, of those commands that are not running any more.

        A command that another process of the daemon has started, before a restart, is not
        running any more, and what came of it is not known.
        """
        with self._lock:
            return {
                one.id: self._results.get(one.id) or _lost(one.command)
                for one in open_submissions
                if one.command and one.id not in self._running
            }

    def _run(
        self, submission: str, target: Target, command: str, diagnose: Mapping[str, Any]
    ) -> None:
        try:
            result = _result(self._repair(target, command, diagnose))
        except StewardError as err:
            result = CommandResult(False, str(err))
        except Exception as err:
            _log.exception("the repair command %s failed", command)
            result = CommandResult(False, f"{err}; whether {command} was run is not known")
        self._end(submission, result)

    def _end(self, submission: str, result: CommandResult) -> None:
        with self._lock:
            self._running.discard(submission)
            self._results[submission] = result
            if len(self._results) > _KEPT:
                del self._results[next(iter(self._results))]
        self._wake()


def _result(outcome: Outcome) -> CommandResult:
    """What came of a command, in one sentence."""
    output = " ".join(outcome.output.split())
    if len(output) > _OUTPUT:
        output = f"...{output[-_OUTPUT:]}"
    ending = outcome.fault or (
        f"exit status {outcome.status}" if outcome.status is not None else "no exit status"
    )
    text = f"{ending}: {output}" if output else ending
    return CommandResult(not outcome.fault and outcome.status == 0, text)


def _lost(command: str) -> CommandResult:
    return CommandResult(
        False, f"the daemon was restarted meanwhile; whether {command} was run is not known"
    )
