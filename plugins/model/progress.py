"""How far the repair of an incident is, in one line: ``3 of 6 moved, moving inst16``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.model.finding import EVACUATIONS
from ganeti_steward.plugins.model import task
from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Submission

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
    """the same when it began, as far as that is known"""


def empties(incident: Incident) -> bool:
    """Whether instances leave the node of an incident now."""
    return incident.state.under_repair and incident.action in (*EVACUATIONS, MAINTENANCE)


def emptied(
    incident: Incident, homes: Iterable[Sequence[str]], before: Emptied | None = None
) -> Emptied:
    """How far its node is emptied: of all instances, for a maintenance of the primaries.

    ``homes``: names of the nodes of each instance of the cluster, the primary first; ``before``:
    what was found earlier.
    """
    maintenance = incident.maintenance
    name, counted = incident.node_name, 1 if maintenance else None
    left = sum(name in nodes[:counted] for nodes in homes)
    ran = len(maintenance.ran) if maintenance else 0
    return Emptied(left, max(left, ran, before.total if before else 0))


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
