"""Nodes taken from one aggregate into another under a closed prefix: all of them, or none.

Nothing keeps two commands from running at the same time, and Ganeti changes one object at a
time.  Two things help: Ganeti refuses to take off a tag that is not there, so only one of two
commands gets a node out of the free pool; and before that the node gets a *transit aggregate*
of the command's own under the same prefix, so that it is closed at every moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ganeti_steward.allocators.jobs.run_jobs import Result
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Jobs
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.cli import tagging
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster
from ganeti_steward.plugins.aggregates.language.expression import ExpressionError
from ganeti_steward.plugins.aggregates.language.limits import Clock, day
from ganeti_steward.plugins.aggregates.language.tags import (
    AGGREGATE,
    UNTIL,
    Declared,
    aggregate_tag,
    read_tag,
    until_tag,
)
from ganeti_steward.plugins.aggregates.reservations import TRANSIT

#: Node -> its tags.
Tags = Mapping[str, Collection[str]]


class LiveCluster(Jobs, Protocol):
    """A cluster that runs jobs and whose tags can be read: luxid or RAPI."""

    def rows(self, what: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """All objects of one kind."""


class Transfer(NamedTuple):
    """What is to be done."""

    prefix: str
    nodes: tuple[str, ...]
    source: str
    target: str
    """an aggregate; empty: none, the nodes stay in what else they are in"""
    word: str
    """makes the transit aggregate the command's own"""
    inside: tuple[str, ...] = ()
    """nodes that are in the target already"""

    @property
    def transit(self) -> str:
        """The aggregate the nodes are in while they are moved."""
        return f"{self.prefix}{TRANSIT}{self.word}"

    def changes(self, aggregate: str, *, removed: bool) -> list[tagging.TagChange]:
        """One aggregate for every node."""
        tag = (aggregate_tag(aggregate),)
        return [tagging.TagChange(tagging.NODE, node, tag, removed) for node in self.nodes]

    @property
    def stages(self) -> list[list[tagging.TagChange]]:
        """Enter the transit aggregate, leave the source, enter the target, leave the first."""
        return [
            self.changes(self.transit, removed=False),
            self.changes(self.source, removed=True),
            self.changes(self.target, removed=False) if self.target else [],
            self.changes(self.transit, removed=True),
        ]


def node_tags(live: LiveCluster) -> Tags:
    """The tags of all nodes at this moment; raises StewardError."""
    return {row["name"]: row["tags"] for row in live.rows("node", ("name", "tags"))}


def run_transfer(
    live: LiveCluster, transfer: Transfer, reason: str, interrupts: Callable[[], int] = lambda: 0
) -> None:
    """Do it; raises StewardError when it cannot be done, after undoing what was done."""
    result = tagging.run_stages(live, transfer.stages, reason, interrupts)
    if result.complete:
        return
    faults = tagging.complaint(result)
    try:
        undone = not tagging.uncertain(result) and _undo(live, transfer, result, reason)
        ending = "nothing is changed" if undone else _left(transfer, live)
    except StewardError as err:
        ending = f"{err}; look at the tags of {', '.join(transfer.nodes)}"
    raise StewardError(f"{faults}; {ending}")


def _undo(live: LiveCluster, transfer: Transfer, result: Result, reason: str) -> bool:
    """Whether everything is as it was."""
    _, leaving, entering, _ = transfer.stages
    left = {change.name for change in tagging.succeeded(result, leaving)}
    entered = {change.name for change in tagging.succeeded(result, entering)}
    back = recovery(transfer, node_tags(live), left, entered)
    return tagging.run_stages(live, back, f"{reason}: undone").complete


def recovery(
    transfer: Transfer, tags: Tags, left: Collection[str], entered: Collection[str]
) -> list[list[tagging.TagChange]]:
    """What takes everything back.

    ``tags``: as they are now; ``left``: the nodes this command took out of the source;
    ``entered``: those it put into the target.  Only what it did itself is undone: a node that
    another command took is left to that command.
    """
    source, transit = aggregate_tag(transfer.source), aggregate_tag(transfer.transit)
    back, leave, open_up = [], [], []
    for node in transfer.nodes:
        if node in left:
            back.append(tagging.TagChange(tagging.NODE, node, (source,)))
        if node in entered and (target := aggregate_tag(transfer.target)) in tags[node]:
            leave.append(tagging.TagChange(tagging.NODE, node, (target,), removed=True))
        if transit in tags[node]:
            open_up.append(tagging.TagChange(tagging.NODE, node, (transit,), removed=True))
    return [back, leave, open_up]


def _left(transfer: Transfer, live: LiveCluster) -> str:
    """What an administrator has to know when undoing did not work either."""
    closed = [
        node for node, tags in node_tags(live).items() if aggregate_tag(transfer.transit) in tags
    ]
    if not closed:
        return f"look at the tags of {', '.join(transfer.nodes)}"
    return (
        f"aggregate {transfer.transit} keeps these nodes closed: {', '.join(closed)}; when no "
        f"job runs any more, 'gnt-steward reserve release {transfer.transit}' opens them"
    )


def foreign_members(transfer: Transfer, tags: Tags) -> list[str]:
    """Nodes that another command put in the target, or that are in another reservation as well."""
    target = aggregate_tag(transfer.target)
    inside = f"{TAG_PREFIX}{AGGREGATE}:{transfer.prefix}"
    passing = f"{inside}{TRANSIT}"
    found = {node for node, theirs in tags.items() if target in theirs}
    found -= {*transfer.nodes, *transfer.inside}
    for node in transfer.nodes:
        others = [tag for tag in tags.get(node, ()) if tag.startswith(inside) and tag != target]
        if any(not tag.startswith(passing) for tag in others):
            found.add(node)
    return sorted(found)


def checked_end(name: str, date: str | None, clock: Clock) -> str:
    """The tag for the last day of a reservation, empty without one; raises StewardError."""
    if date is None:
        return ""
    try:
        tag = until_tag(name, date)
    except ExpressionError as err:
        raise StewardError(f"--until: {err}") from None
    if date < day(clock):
        raise StewardError(f"--until: {date} is over")
    return tag


def end_changes(tagged: TaggedCluster, name: str, tag: str) -> list[tagging.TagChange]:
    """What gives a reservation the end ``tag`` names; empty: none."""
    old = [one for one in tagged.cluster.tags if one != tag and _is_end(one, name)]
    changes = [tagging.TagChange(tagging.CLUSTER, "", tuple(old), removed=True)] if old else []
    if tag and tag not in tagged.cluster.tags:
        changes.append(tagging.TagChange(tagging.CLUSTER, "", (tag,)))
    return changes


def write_end(
    tagged: TaggedCluster,
    changes: list[tagging.TagChange],
    reason: str,
    interrupts: Callable[[], int] = lambda: 0,
) -> None:
    """Write it; raises StewardError."""
    # One after the other: both are of the cluster.
    result = tagging.run_stages(tagged.jobs, [[change] for change in changes], reason, interrupts)
    if not result.complete:
        wanted = "; ".join(change.sentence for change in changes)
        raise StewardError(f"{tagging.complaint(result)}; perhaps not done: {wanted}")


def _is_end(tag: str, name: str) -> bool:
    if not tag.startswith(f"steward:{UNTIL}:"):
        return False
    try:
        declared = read_tag(tagging.CLUSTER, tag)
    except ExpressionError:
        return False
    return isinstance(declared, Declared) and declared.name == name
