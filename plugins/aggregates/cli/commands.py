"""The commands about aggregates and reservations."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "aggregate": "show aggregates, their members and who may go where; add, remove members",
    "reserve": "reserve nodes of the free pool, release them, list reservations",
}


@hookimpl
def steward_commands() -> list[Command]:
    """The commands of this room."""
    return commands_of(__package__, _COMMANDS)
