"""The values the page shows, sorted and in words; the template only arranges them."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.drawing.amounts import KINDS, Filled, percent
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.task import Held
from ganeti_steward.core.units import utc_time
from ganeti_steward.core.version import VERSION
from ganeti_steward.plugins.maintenance.edges.history import Entry
from ganeti_steward.plugins.maintenance.edges.status import RoundLine, Status

_SECOND: Final = 10**9

#: Seconds from which on a unit is used, the unit in seconds, and its name.
_UNITS: Final = ((2 * 86400, 86400, "days"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


class Moment(NamedTuple):
    """A time, and how long ago it was when the page was made."""

    iso: str
    """UTC, to the second"""
    age: str
    """``5 min ago``"""


def duration(seconds: float) -> str:
    """``45 s``, ``5 min``, ``3 h``, ``2 days``; rounded down."""
    whole = max(int(seconds), 0)
    return next(f"{whole // unit} {name}" for least, unit, name in _UNITS if whole >= least)


def moment(at: int | None, now: int) -> Moment | None:
    """``at``, ``now``: ns since the epoch; None for no time."""
    if not at:
        return None
    return Moment(utc_time(at), f"{duration((now - at) // _SECOND)} ago")


class Event(NamedTuple):
    """An entry of the history."""

    at: Moment | None
    entry: Entry


class Work(NamedTuple):
    """A task that was submitted and has not ended."""

    since: Moment | None
    subject: str
    step: str
    what: str
    """its jobs or its command"""
    uses: tuple[str, ...]
    """nodes and instances"""


class EndedJob(NamedTuple):
    """A job of routine work that has ended."""

    ended: Moment | None
    job: RoutineJob


class IncidentView(NamedTuple):
    """An incident with everything about it."""

    incident: Incident
    look: str
    """``bad``, ``warn``, ``good`` or empty"""
    seen: Moment | None
    changed: Moment | None
    progressed: Moment | None
    healthy: Moment | None
    reported: str
    """the reported object, as JSON in lines"""
    work: tuple[Work, ...]
    held: tuple[Held, ...]
    history: tuple[Event, ...]
    """the latest first"""


class NodeView(NamedTuple):
    """A node: its last report, and how full it is."""

    name: str
    word: str
    look: str
    detail: str
    """what it reports, or why there is no report"""
    at: Moment | None
    filled: Filled | None

    @property
    def well(self) -> bool:
        """Whether there is nothing to look at."""
        return self.look == "good" and not (self.filled and self.filled.notes)


class GroupView(NamedTuple):
    """A node group; without figures all nodes are in one."""

    name: str
    whole: Filled | None
    nodes: tuple[NodeView, ...]
    """those to look at first"""

    @property
    def to_look_at(self) -> int:
        """Number of nodes that are not well."""
        return sum(not node.well for node in self.nodes)

    @property
    def summary(self) -> str:
        """The group in one line: its nodes and how full they are."""
        parts = [f"{len(self.nodes)} nodes"]
        if self.to_look_at:
            parts.append(f"{self.to_look_at} to look at")
        if self.whole:
            amounts = zip(KINDS, self.whole.now, strict=True)
            parts += [f"{kind} {percent(amount)}" for kind, amount in amounts]
        return ", ".join(parts)


class HeldView(NamedTuple):
    """Everything that one brake holds back."""

    brake: str
    sentences: tuple[tuple[str, str], ...]
    """what is held back, and the sentence"""


class RoundView(NamedTuple):
    """A round that has ended."""

    ended: Moment | None
    line: RoundLine


class View(NamedTuple):
    """The whole page."""

    status: Status
    fault: str
    """why the daemon does not count as healthy; empty when it does"""
    made: str
    """when the page was made, UTC"""
    round_ended: Moment | None
    poll_ended: Moment | None
    started: Moment | None
    incidents: tuple[IncidentView, ...] | None
    """those with something to do or to look at first; None: not read yet"""
    work: tuple[Work, ...]
    ended: tuple[EndedJob, ...]
    """jobs of routine work that ended within the last hour, the latest first"""
    held: tuple[HeldView, ...]
    groups: tuple[GroupView, ...]
    observed: tuple[tuple[str, str, int], ...]
    """look, word and number of nodes"""
    folded: bool
    """whether groups without a node to look at are closed: there are many nodes"""
    planned: bool
    """whether the bars show something planned"""
    rounds: tuple[RoundView, ...]
    history: tuple[Event, ...]
    version: str = VERSION
