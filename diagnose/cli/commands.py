"""The commands that run on the nodes."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "agent": "serve this node's report and run repair commands, in the foreground",
    "diagnose": "report what is wrong with this node, as one object",
}


@hookimpl
def steward_commands() -> list[Command]:
    """The commands of this room."""
    return commands_of(__package__, _COMMANDS)
