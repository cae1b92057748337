"""The commands that belong to no other room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "check-config": "check the configuration file and the plugins it names",
    "confd": "query the confd of the master candidates",
    "plugins": "list the plugins, loaded and installed",
}


@hookimpl
def steward_commands() -> Iterator[Command]:
    """The commands of this room."""
    for name, description in _COMMANDS.items():
        module = name.replace("-", "_")
        yield Command(name, description, f"ganeti_steward.core.commands.{module}")
