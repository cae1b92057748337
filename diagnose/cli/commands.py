"""The commands that run on the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "agent": "serve this node's report and run repair commands, in the foreground",
    "diagnose": "report what is wrong with this node, as one object",
}


@hookimpl
def steward_commands() -> Iterator[Command]:
    """The commands of this room."""
    for name, description in _COMMANDS.items():
        module = name.replace("-", "_")
        yield Command(name, description, f"ganeti_steward.diagnose.cli.{module}")
