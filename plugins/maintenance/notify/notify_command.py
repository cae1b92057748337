"""The built-in plugin that runs a program on each change of an incident."""

from __future__ import annotations

import logging
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import reason_of
from ganeti_steward.core.process.following import ending
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.supervisor import supervisor_program
from ganeti_steward.core.process.trusted_program import Forbidden, opened_program
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.status import change_json
from ganeti_steward.plugins.model.incident import Incident

#: Seconds the program may take; all it has started is ended after them.
TIME_LIMIT: Final = 30.0

#: Bytes of its output, which is dropped.
_OUTPUT: Final = 2**16

_log = logging.getLogger(__name__)


class NotifyCommand:
    """Runs the program without a shell and without arguments; it reads the change on stdin."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        """``time_limit``: seconds."""
        self._command, self._time_limit = "", time_limit

    def configure(self, settings: Maintd) -> None:
        """Take the program's path."""
        self._command = settings.notify_command

    @hookimpl
    def steward_incident_changed(
        self, before: Incident | None, after: Incident | None, event: str, reason: str
    ) -> None:
        """Run the program; a failure of it is logged."""
        if not self._command:
            return
        fault = self._run(change_json(before, after, event, reason))
        if fault:
            _log.warning("the notify command %s %s", self._command, fault)

    def _run(self, given: bytes) -> str:
        """Why it failed; empty when it did not."""
        try:
            with opened_program(self._command) as program:
                ended = run_supervised(
                    [self._command],
                    self._time_limit,
                    executable=program,
                    given=given,
                    output_limit=_OUTPUT,
                    start=supervisor_program,
                )
        except Forbidden as err:
            return f"is not run: {err}"
        except OSError as err:
            return f"cannot be run: {reason_of(err)}"
        if ended.fault:
            return f"was {ended.fault}"
        if ended.status == 0:
            return ""
        printed = " ".join(ended.errors[:500].decode(errors="replace").split())
        return f"{ending(ended.status)}{': ' * bool(printed)}{printed}"
