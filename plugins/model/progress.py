"""How far the repair of an incident is, in one line: ``3 of 6 moved, moving inst16``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapreplace
from typing import Final, NamedTuple

from ganeti_steward.core.errors import few
from ganeti_steward.plugins.model import task
from ganeti_steward.plugins.model.incident import LEAVING, Incident, Maintenance, Submission
from ganeti_steward.plugins.model.works import misses_deadline, work_began

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
    task.TIDY: "removing tags of",
}


class Home(NamedTuple):
    """Where one instance is."""

    nodes: Sequence[str]
    """names of its nodes, the primary first"""
    up: bool = True
    """whether it is meant to run"""


class Transfer(NamedTuple):
    """A migration whose job copies the memory of an instance now."""

    begun: int
    """when it began to copy, ns since the epoch"""
    percent: float | None = None
    """the share of the memory that is copied; above 100: some of it was copied again, because the
    instance has written it meanwhile.  None: nothing is reported yet"""


class Emptied(NamedTuple):
    """How far a node is emptied."""

    left: int
    """number of instances that are still on it"""
    total: int
    """the same when it began, as far as that is known"""


class RollProgress(NamedTuple):
    """How far a roll is: the nodes that one command has requested."""

    nodes: int
    """of the whole roll"""
    over: int
    """number of nodes whose maintenance has ended, or was canceled"""
    late: int
    """number of nodes that do not begin because of their deadline"""
    seconds: int | None
    """of work that is left, as the forecast expected it; None: not known"""


def rolls(incidents: Iterable[Incident], now: int) -> list[RollProgress]:
    """Each roll that goes on, oldest first; ``now``: ns since the epoch."""
    found: dict[str, list[tuple[Incident, Maintenance]]] = {}
    for one in sorted(incidents, key=lambda one: one.first_seen):
        request = one.maintenance
        if request and request.roll and one.active:
            found.setdefault(request.roll, []).append((one, request))
    return [_roll(left, now) for left in found.values()]


def _roll(left: Sequence[tuple[Incident, Maintenance]], now: int) -> RollProgress:
    """``left``: what has not ended."""
    _, first = left[0]
    begun = [(one, request) for one, request in left if one.state.begun]
    waiting = [request for one, request in left if not one.state.begun]
    coming = [request for request in waiting if not misses_deadline(request, now)]
    spent = [(request.expected, (now - one.changed) // 10**9) for one, request in begun]
    known = all(request.expected for _, request in left) and all(
        expected > seconds for expected, seconds in spent
    )
    # Each place becomes free when a node ends; the next one takes it.
    places = sorted(expected - seconds for expected, seconds in spent)
    places = [0] * (max(1, first.at_once) - len(places)) + places
    for request in coming if known else ():
        heapreplace(places, places[0] + request.expected)
    late, over = len(waiting) - len(coming), first.roll_nodes - len(left)
    seconds = max(places) if known and (begun or coming) else None
    return RollProgress(first.roll_nodes, max(0, over), late, seconds)


def empties(incident: Incident) -> bool:
    """Whether instances leave the node of an incident now."""
    if request := incident.maintenance:
        away = request.ready or request.worked or work_began(incident)
        return incident.state.under_repair and not away
    return incident.state.under_repair and incident.action in LEAVING


def emptied(incident: Incident, homes: Iterable[Home], before: Emptied | None = None) -> Emptied:
    """How far its node is emptied: of all instances, for a maintenance of those that run there.

    ``homes``: of each instance of the cluster; ``before``: what was found earlier.
    """
    maintenance, name = incident.maintenance, incident.node_name
    if maintenance:
        left = sum(home.up and home.nodes[0] == name for home in homes)
    else:
        left = sum(name in home.nodes for home in homes)
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
        return f"running {one.named_command}"
    doing = _DOING.get(one.step, one.step) if one.instances else one.step
    return f"{doing} {few(one.instances or one.nodes, _NAMED)}".rstrip()
