"""Nodes taken from one aggregate into another under a closed prefix: all of them, or none.

Nothing keeps two commands from running at the same time, and Ganeti changes one object at a
time.  Two things help: Ganeti refuses to take off a tag that is not there, so only one of two
commands gets a node out of the free pool; and before that the node gets a *guard*, an aggregate
of the command's own under the same prefix, so that it is closed at every moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Jobs
from ganeti_steward.core.ganeti.run_jobs import Result
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.cli.tagging import (
    NODE,
    Change,
    complaint,
    run_stages,
    succeeded,
    uncertain,
)
from ganeti_steward.plugins.aggregates.tags import AGGREGATE, aggregate_tag

#: What guards are called behind the prefix; a random word follows.
GUARD: Final = "moving-"

#: Node -> its tags.
Tags = Mapping[str, Collection[str]]


class Live(Jobs, Protocol):
    """A cluster that runs jobs and tells its tags: luxid or RAPI."""

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
    """makes the guard the command's own"""
    inside: tuple[str, ...] = ()
    """nodes that are in the target already"""

    @property
    def guard(self) -> str:
        """The aggregate the nodes are in meanwhile."""
        return f"{self.prefix}{GUARD}{self.word}"

    def changes(self, aggregate: str, *, removed: bool) -> list[Change]:
        """One aggregate for every node."""
        tag = (aggregate_tag(aggregate),)
        return [Change(NODE, node, tag, removed) for node in self.nodes]

    @property
    def stages(self) -> list[list[Change]]:
        """Guard, leave, enter, guard off."""
        return [
            self.changes(self.guard, removed=False),
            self.changes(self.source, removed=True),
            self.changes(self.target, removed=False) if self.target else [],
            self.changes(self.guard, removed=True),
        ]


def node_tags(live: Live) -> Tags:
    """The tags of all nodes at this moment; raises StewardError."""
    return {row["name"]: row["tags"] for row in live.rows("node", ("name", "tags"))}


def run_transfer(
    live: Live, transfer: Transfer, reason: str, interrupts: Callable[[], int] = lambda: 0
) -> None:
    """Do it; raises StewardError when it cannot be done, after undoing what was done."""
    result = run_stages(live, transfer.stages, reason, interrupts)
    if result.complete:
        return
    faults = complaint(result)
    try:
        undone = not uncertain(result) and _undo(live, transfer, result, reason)
        ending = "nothing is changed" if undone else _left(transfer, live)
    except StewardError as err:
        ending = f"{err}; look at the tags of {', '.join(transfer.nodes)}"
    raise StewardError(f"{faults}; {ending}")


def _undo(live: Live, transfer: Transfer, result: Result, reason: str) -> bool:
    """Whether everything is as it was."""
    _, leaving, entering, _ = transfer.stages
    left = {change.name for change in succeeded(result, leaving)}
    entered = {change.name for change in succeeded(result, entering)}
    back = recovery(transfer, node_tags(live), left, entered)
    return run_stages(live, back, f"{reason}: undone").complete


def recovery(
    transfer: Transfer, tags: Tags, left: Collection[str], entered: Collection[str]
) -> list[list[Change]]:
    """What takes everything back.

    ``tags``: as they are now; ``left``: the nodes this command took out of the source;
    ``entered``: those it put into the target.  Only what it did itself is undone: a node that
    somebody else took is left to him.
    """
    source, guard = aggregate_tag(transfer.source), aggregate_tag(transfer.guard)
    back, leave, open_up = [], [], []
    for node in transfer.nodes:
        if node in left:
            back.append(Change(NODE, node, (source,)))
        if node in entered and (target := aggregate_tag(transfer.target)) in tags[node]:
            leave.append(Change(NODE, node, (target,), removed=True))
        if guard in tags[node]:
            open_up.append(Change(NODE, node, (guard,), removed=True))
    return [back, leave, open_up]


def _left(transfer: Transfer, live: Live) -> str:
    """What an administrator has to know when undoing did not work either."""
    guarded = [
        node for node, tags in node_tags(live).items() if aggregate_tag(transfer.guard) in tags
    ]
    if not guarded:
        return f"look at the tags of {', '.join(transfer.nodes)}"
    return (
        f"aggregate {transfer.guard} keeps closed: {', '.join(guarded)}; when no job goes on, "
        f"'gnt-steward reserve release {transfer.guard}' ends that"
    )


def strangers(transfer: Transfer, tags: Tags) -> list[str]:
    """Nodes that came into the target otherwise, or are in another reservation besides."""
    target = aggregate_tag(transfer.target)
    inside = f"{TAG_PREFIX}{AGGREGATE}:{transfer.prefix}"
    passing = f"{inside}{GUARD}"
    found = {node for node, theirs in tags.items() if target in theirs}
    found -= {*transfer.nodes, *transfer.inside}
    for node in transfer.nodes:
        others = [tag for tag in tags.get(node, ()) if tag.startswith(inside) and tag != target]
        if any(not tag.startswith(passing) for tag in others):
            found.add(node)
    return sorted(found)
