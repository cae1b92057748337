"""The disks of an instance as a check of Ganeti found them."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import few
from ganeti_steward.core.json_nesting import load_json

_SECOND: Final = 10**9
#: ns that count at most from one check to the next; they are made every few minutes.
_LONGEST_GAP: Final = 600 * _SECOND
#: A fault of a disk whose two copies may both be good.
LOST_CONNECTION: Final = "has lost its connection"
#: As the collector drbd writes it.
_SPLIT_BRAIN: Final = re.compile("split brain: minor ([0-9]{1,7})")


class DiskHealth(NamedTuple):
    """What the last check found of the disks of one instance."""

    at: int
    """when the check was submitted, ns since the epoch"""
    faults: tuple[str, ...] = ()
    """what is wrong, in a few words for each disk and node; empty: nothing"""
    syncing: bool = False
    """whether a disk is being synchronized"""
    primary_good: bool = True
    """whether all disks on the primary node are good"""
    lost_on: tuple[str, ...] = ()
    """names of the nodes on which a disk itself is faulty, sorted"""
    nodes: tuple[str, ...] = ()
    """names of the nodes of the instance then, the primary first; empty: not known"""
    minors: tuple[tuple[str, int], ...] = ()
    """name of a node and minor of a device there, of each that is active"""
    percents: tuple[float, ...] = ()
    """of each disk that is being synchronized, how much of it is; Ganeti has steps of 0.1"""
    seconds_left: int = 0
    """until all are in sync, as DRBD estimates it; 0: no estimate"""
    since: int = 0
    """when the first of the checks was submitted that have found it so, ns since the epoch; 0: not
    known"""
    still: int = 0
    """for how many ns the checks have found no progress"""
    stalled: bool = False
    """whether that is too long"""

    @property
    def in_sync(self) -> bool:
        """Whether both copies are complete."""
        return not self.faults and not self.syncing

    @property
    def progress(self) -> str:
        """What is known of the synchronization, for a sentence."""
        words = "its disks are being synchronized"
        if self.since:
            words += f", for {(self.at - self.since) // _SECOND} s now"
        if self.percents:
            words += f"; {min(self.percents):g} % is done"
        if self.stalled:
            where = few([f"minor {minor} on {node}" for node, minor in self.minors], 4)
            see = f"; see /proc/drbd: {where}" if where else ""
            return f"{words}; it stalls: no progress for {self.still // _SECOND} s{see}"
        return words + (f", {self.seconds_left} s are left" if self.seconds_left else "")

    def after(self, before: DiskHealth | None, limit: float) -> DiskHealth:
        """With how long it has been synchronized without progress.

        ``before``: what the check before found; ``limit``: s without progress after which it is
        stalled.  Between two checks little time counts, so a clock that jumps stalls nothing.
        """
        if not self.syncing:
            return self
        if before is None or not before.syncing or before.nodes != self.nodes:
            return self._replace(since=self.at)
        moved = self.percents != before.percents
        still = 0 if moved else before.still + min(max(self.at - before.at, 0), _LONGEST_GAP)
        return self._replace(
            since=min(before.since, self.at), still=still, stalled=still >= limit * _SECOND
        )


def split_brains(report: bytes) -> frozenset[int]:
    """The minors whose two sides have each written without the other, by a node's report."""
    try:
        given: Any = load_json(report)
        faults = [
            fault
            for one in given["details"]
            if one["source"] == "drbd"
            for fault in one["details"]["faults"]
        ]
        found = [_SPLIT_BRAIN.fullmatch(fault) for fault in faults]
    except (KeyError, RecursionError, TypeError, ValueError):
        return frozenset()
    return frozenset(int(one[1]) for one in found if one)
