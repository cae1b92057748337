"""The built-in plugin that runs a program on each change of an incident."""

from __future__ import annotations

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import PluginError
from ganeti_steward.plugins.maintenance.admin_program import TIME_LIMIT, fault_of
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.status import change_json
from ganeti_steward.plugins.model.incident import Incident


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
        """Run the program; raises PluginError where it fails."""
        if not self._command:
            return
        given = change_json(before, after, event, reason)
        if fault := fault_of(self._command, self._time_limit, given):
            raise PluginError("notify-command", f"{self._command} {fault}")
