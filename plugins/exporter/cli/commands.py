"""The command that exports figures of a cluster."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "exporter": "serve scores, N+1 faults and free capacity of a cluster to Prometheus",
}


@hookimpl
def steward_commands() -> list[Command]:
    """The commands of this room."""
    return commands_of(__package__, _COMMANDS)
