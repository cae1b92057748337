"""The command about shadows."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {"shadow": "sum up how often shadows would have answered better or worse"}


@hookimpl
def steward_commands() -> list[Command]:
    """The commands of this room."""
    return commands_of(__package__, _COMMANDS)
