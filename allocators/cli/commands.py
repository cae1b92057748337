"""The commands about placement, moves and capacity."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "balance": "show, or make, the moves that even out each node group",
    "capacity": "count how many more instances fit, and where",
    "check": "show what is wrong with a cluster and whether balancing would correct it",
    "explain": "show why a request is (or was) answered the way it is",
    "group-evacuate": "move the instances of a node group to other groups",
    "install-iallocator": "make Ganeti find the allocator under the name steward",
    "place": "show where a new instance would go, and why",
    "replay": "answer a recorded request again and compare",
}


@hookimpl
def steward_commands() -> list[Command]:
    """The commands of this room."""
    return commands_of(__package__, _COMMANDS)
