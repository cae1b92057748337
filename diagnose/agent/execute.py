"""Running one repair command of the whitelist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ganeti_steward.core.node_agent.protocol import Outcome, RepairRequest
from ganeti_steward.core.process import Ended
from ganeti_steward.core.process_group import LADDER
from ganeti_steward.diagnose.sources import whitelist

#: Bytes a command may print before it is stopped.
OUTPUT_LIMIT: Final = 2**20

#: Characters of it that are returned, the last ones.
OUTPUT_RETURNED: Final = 2**16


def executor(directory: str, limit: float) -> Callable[[RepairRequest], Outcome]:
    """What runs the commands of a directory for ``limit`` seconds each.

    It raises `whitelist.Forbidden` for those that must not be run.
    """

    def execute(request: RepairRequest) -> Outcome:
        try:
            ended = whitelist.run(
                request.command,
                directory,
                limit,
                output_limit=OUTPUT_LIMIT,
                ladder=LADDER,
                given=request.given,
            )
        except OSError as err:
            return Outcome(None, fault=f"it could not be started: {err.strerror}")
        return _outcome(ended)

    return execute


def _outcome(ended: Ended) -> Outcome:
    """What it printed, then what it complained about, as Ganeti returns it (diagnose 4)."""
    text = (ended.output + ended.errors).decode(errors="replace")
    status = None if ended.fault else ended.status
    return Outcome(status, text[-OUTPUT_RETURNED:], ended.fault)
