"""The commands about incidents and the maintenance daemon."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.command import Command, commands_of

#: Name -> description; each is a module of this package.
_COMMANDS: Final = {
    "confd": "query the confd of the master candidates",
    "incident": "list incidents of nodes, show, acknowledge and cancel them",
    "leftovers": "list what of a cluster names Steward, before it is uninstalled",
    "maintd": "turn reports of nodes into jobs: the maintenance daemon, and what steers it",
    "volume-groups": "list the room of volume groups that allocators know of; read it again",
}
#: The same, of planned maintenance.
_PLANNED: Final = {
    "maintenance": "take healthy nodes out for a reboot, and back, with instances running on",
}
#: The same, of a package that need not be installed.
_SIMULATION: Final = {
    "demo": "play a cluster with failing hardware on this machine, with its status page",
    "simulate": "show what a configuration of the daemon would do in weeks of failing hardware",
}


@hookimpl
def steward_commands() -> list[Command]:
    """The commands of this room."""
    optional = commands_of("ganeti_steward.plugins.simulation.cli", _SIMULATION)
    return [
        *commands_of(__package__, _COMMANDS),
        *commands_of(f"{__package__}.planned", _PLANNED),
        *(one._replace(package="ganeti-steward-simulation") for one in optional),
    ]
