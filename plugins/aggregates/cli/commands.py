"""The commands about aggregates and reservations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "aggregate": "show aggregates, their members and who may go where; add, remove members",
    "reserve": "reserve nodes of the free pool, release them, list reservations",
}


@hookimpl
def steward_commands() -> Iterator[Command]:
    """The commands of this room."""
    for name, description in _COMMANDS.items():
        module = name.replace("-", "_")
        yield Command(name, description, f"ganeti_steward.plugins.aggregates.cli.{module}")
