"""How far the repair of an incident is, in one line: ``3 of 6 moved, moving inst16``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.model.finding import EVACUATIONS
from ganeti_steward.plugins.model import task
from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Submission

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance

#: Instances that are named of one submission.
_NAMED: Final = 3
#: Step -> what it does, where its word alone would not say it.
_DOING: Final = {
    task.MOVE: "moving",
    task.HOME: "moving back",
    task.REPLACE_DISKS: "copying the disks of",
    task.ACTIVATE: "activating the disks of",
    task.START: "starting",
    task.STOP: "stopping",
    task.CLEAN_UP: "cleaning up",
}


class Emptied(NamedTuple):
    """How far a node is emptied."""

    left: int
    """number of instances that are still on it"""
    total: int
    """the same when it began, as far as the daemon has seen"""


def empties(incident: Incident) -> bool:
    """Whether instances leave the node of an incident now."""
    return incident.state.under_repair and incident.action in (*EVACUATIONS, MAINTENANCE)


def still_there(incident: Incident, instances: Iterable[Instance]) -> int:
    """How many instances are on its node: all of them, for a maintenance the primaries."""
    name = incident.node_name
    primaries = incident.action == MAINTENANCE
    return sum(name in (one.nodes[:1] if primaries else one.nodes) for one in instances)


def progress(incident: Incident, emptied: Emptied | None = None) -> str:
    """What has been done and what is being done; empty where nothing is known of either."""
    parts = [_moved(emptied)] if emptied else []
    parts += [_doing(one) for one in incident.open]
    return ", ".join(filter(None, parts))


def _moved(emptied: Emptied) -> str:
    if emptied.total > emptied.left:
        return f"{emptied.total - emptied.left} of {emptied.total} moved"
    return f"{emptied.left} to be moved" if emptied.left else ""


def _doing(one: Submission) -> str:
    if one.command:
        return f"running {one.command}"
    names = one.instances or one.nodes
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    doing = _DOING.get(one.step, one.step) if one.instances else one.step
    return f"{doing} {', '.join(names[:_NAMED])}{more}".rstrip()
