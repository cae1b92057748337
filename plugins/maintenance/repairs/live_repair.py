"""The repair ``live-repair``: the node's agent runs the command that the diagnose object names."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import COMMAND, Failed, Plan, Task, Wait
from ganeti_steward.core.maintenance.world import World, diagnose_object
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name

_NO_COMMAND: Final = "the diagnose object names no repair command"


@hookimpl
def steward_plan(incident: Incident, world: World) -> list[Plan] | None:
    """The command; the incident ends with it, so it is planned once."""
    if incident.action != LIVE_REPAIR:
        return None
    node = world.nodes.get(incident.node)
    if not node:
        return [Wait(f"node {incident.node_name} is not in the cluster")]
    command = diagnose_object(incident.original).get("command")
    if not isinstance(command, str) or not command:
        return [Failed(_NO_COMMAND)]
    if not is_name(command):
        return [Failed(f"{_NO_COMMAND}: {command!a} is no name of a command")]
    reason = f"run the repair command {command} on node {node.name}"
    return [Task(COMMAND, frozenset({node.name}), frozenset(), reason, command=command)]
