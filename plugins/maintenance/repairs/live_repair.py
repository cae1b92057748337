"""The repair ``live-repair``: the node's agent runs the command that the diagnose object names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name
from ganeti_steward.plugins.maintenance.repairs.case import no_node
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.kept_object import beginning_of
from ganeti_steward.plugins.model.task import COMMAND, Done, Failed, Plan, Task
from ganeti_steward.plugins.model.world import World, diagnose_object

_NO_COMMAND: Final = "the diagnose object names no repair command"
#: Characters of the report's details that a note shows.
_SHOWN: Final = 200


@hookimpl
def steward_plan(incident: Incident, world: World) -> list[Plan] | None:
    """The command; the incident ends with it, so it is planned once.

    Without a command it is left to people: nothing is to be done here, and nothing has failed.
    """
    if incident.action != LIVE_REPAIR:
        return None
    node = world.nodes.get(incident.node)
    if not node:
        return no_node(incident)
    found = diagnose_object(incident.original)
    command = found.get("command")
    if not isinstance(command, str) or not command:
        return [Done(_left_to_people(node.name, found))]
    if not is_name(command):
        return [Failed(f"{_NO_COMMAND}: {command!a} is not a command name")]
    reason = f"run the repair command {command} on node {node.name}"
    return [Task(COMMAND, frozenset({node.name}), frozenset(), reason, command=command)]


def _left_to_people(node: str, found: Mapping[str, Any]) -> str:
    reported = (
        f"no repair command was requested: what node {node} reports ({LIVE_REPAIR}) is left to an "
        "admin"
    )
    shown = beginning_of(found)
    if "details" in found and not shown:
        shown = canonical(found["details"]).decode()
    if not shown:
        return reported
    return f"{reported}: {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}"
