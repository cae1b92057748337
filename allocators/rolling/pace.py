"""How long the moves of a round take, by how fast disks and memory are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.roll import Leave, Round


class Pace(NamedTuple):
    """How fast instances move; what the network and the disks of a cluster give differs."""

    copied_per_second: float = 100
    """MiB of disks"""
    migrated_per_second: float = 400
    """MiB of memory"""
    failover_seconds: float = 60
    """of a failover, or of shutting an instance down and starting it again"""
    set_up_seconds: float = 15
    """of a migration, or of a copy of disks, beside what it copies"""
    short_seconds: float = 3
    """of any other operation, such as setting a tag"""
    at_once: int = 4
    """instances of one node that move at the same time"""


def seconds_of(one: Round, pace: Pace, *, returns: bool) -> float:
    """Seconds until its nodes are empty, and until all are home again where they return.

    The nodes are emptied side by side; the work on them, and the synchronization of their disks
    afterwards, come on top.
    """
    by_node: dict[str, list[float]] = {}
    for leave in one.leaves:
        by_node.setdefault(leave.source, []).append(_seconds(leave, pace))
    # As many at once as that allows, and never faster than the longest move.
    nodes = (max(*each, sum(each) / pace.at_once) for each in by_node.values())
    leaving = max(nodes, default=0.0) * (2 if returns else 1)
    copied: dict[str, float] = {}
    for copy in one.copies:
        copied[copy.source] = copied.get(copy.source, 0.0) + copy.copied / pace.copied_per_second
    return leaving + max(copied.values(), default=0.0) / pace.at_once


def _seconds(leave: Leave, pace: Pace) -> float:
    if leave.how == "migrate":
        return pace.set_up_seconds + leave.memory / pace.migrated_per_second
    return pace.failover_seconds + leave.copied / pace.copied_per_second
