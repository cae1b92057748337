"""What is left of incidents that people have canceled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Require = Callable[[str, bool, str], None]

#: Rounds after which nothing of it may be queued.
_ROUNDS: Final = 3
#: Faults by which that may not be possible.
_LOSING: Final = frozenset(("lost-answers", "slow-calls", "late-storing", "lost-submissions"))


class Canceled:
    """The canceled incidents of one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self.recorded: set[str] = set()
        """uuids of those that a daemon has recorded as canceled"""
        self._over: dict[str, str] = {}
        """uuid of an incident that nothing may be begun for any more -> why"""
        self._rounds: Counter[int] = Counter()
        """number of a queued job of one -> the rounds that have ended since"""

    def written(self, uuid: str, record: Mapping[str, Any]) -> None:
        """A daemon has written a record."""
        if record["status"] == "canceled":
            self._over[uuid] = "was canceled"
        elif record["status"] == "pending":
            why = self._over.get(uuid)
            self._require("not-again", not why, f"{uuid}, which {why}, is under repair again")

    def removed(self, uuid: str) -> None:
        """A daemon has removed a record."""
        self._over[uuid] = "was forgotten"

    def begins(self, uuid: str, what: str) -> None:
        """A daemon hands over something for an incident, apart from tags."""
        why = self._over.get(uuid)
        self._require("not-again", not why, f"{what} for {uuid}, which {why}")

    def round(self, daemon: Daemon) -> None:
        """A daemon has ended a round in which it could cancel jobs."""
        checks, rows = self._world.checks, self._world.luxid.queue.rows
        known = {uuid: one for uuid, one in checks.known().items() if one["status"] == "canceled"}
        self.recorded |= known.keys()
        if any(one.kind in _LOSING for one in self._world.faults.active):
            return
        for job in checks.jobs.open:
            row = rows.get(job.number)
            # What luxid has not answered yet the daemon cannot cancel.
            noted = job.number in known.get(job.incident, {"jobs": ()})["jobs"]
            if noted and job.acts and row and row["status"] == "queued":
                self._rounds[job.number] += 1
                text = f"job {job.number} of {job.incident} is queued still"
                self._require("canceled", self._rounds[job.number] <= _ROUNDS, text)
