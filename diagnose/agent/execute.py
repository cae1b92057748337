"""Running one repair command of the whitelist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ganeti_steward.core.errors import reason_of
from ganeti_steward.core.node_agent.protocol import Outcome, RepairRequest
from ganeti_steward.core.process import Ended
from ganeti_steward.core.process_group import LADDER
from ganeti_steward.core.supervision.run import unpacked_run
from ganeti_steward.core.trusted_program import Forbidden
from ganeti_steward.diagnose.agent.launcher import Launcher

#: Bytes a command may print before it is stopped.
OUTPUT_LIMIT: Final = 2**20

#: Characters of it that are returned, the last ones.
OUTPUT_RETURNED: Final = 2**16


def executor(
    launcher: Launcher, directory: str, limit: float, is_ending: Callable[[], bool]
) -> Callable[[RepairRequest], Outcome]:
    """What runs the commands of a directory for ``limit`` seconds each.

    ``is_ending``: whether the agent ends, and with it what it has started.  What it gives raises
    `whitelist.Forbidden` for commands that must not be run.
    """

    def execute(request: RepairRequest) -> Outcome:
        work = {
            "work": "repair",
            "command": request.command,
            "directory": directory,
            "seconds": limit,
        }
        around = sum(grace for _, grace in LADDER) + 1
        try:
            outcome = launcher.call(work, limit + around, request.given)
            if outcome.result is not None:
                kind, _, rest = outcome.result.partition(b"\n")
                if kind == b"forbidden":
                    raise Forbidden(rest.decode())
                outcome = outcome._replace(result=rest)
            elif is_ending():
                return Outcome(None, fault="it was stopped, for the agent ended")
            return _outcome(unpacked_run(outcome))
        except OSError as err:
            return Outcome(None, fault=f"it could not be started: {reason_of(err)}")

    return execute


def _outcome(ended: Ended) -> Outcome:
    """What it printed, then what it complained about, as Ganeti returns it."""
    text = (ended.output + ended.errors).decode(errors="replace")
    status = None if ended.fault else ended.status
    return Outcome(status, text[-OUTPUT_RETURNED:], ended.fault)
