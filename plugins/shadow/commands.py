"""The command of shadows: ``gnt-steward shadow``."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; it is a module of `cli`.
_COMMANDS: Final = {"shadow": "sum up how often shadows would have answered better or worse"}


@hookimpl
def steward_commands() -> list[Command]:
    """The command of this room."""
    return commands_of(f"{__package__}.cli", _COMMANDS)
