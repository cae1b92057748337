"""luxid of a node that was the master: it goes on with the configuration it had."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from fault_world.clock import SECOND
from fault_world.operations import Operations
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.simulation.jobs import Operation
from ganeti_steward.plugins.simulation.luxid import Luxid

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Row = dict[str, Any]

#: Seconds from the vote before a submission to the submission.
_VOTED: float = 5.0


class _Configuration:
    """A copy of the configuration."""

    def __init__(self, world: World) -> None:
        self.info: Row = deepcopy(world.ganeti.info)
        kinds = ("node", "instance", "group", "network")
        self._rows = {kind: deepcopy(world.ganeti.rows(kind)) for kind in kinds}

    def rows(self, what: str) -> list[Row]:
        """All objects of a kind."""
        return self._rows[what]


class OldLuxid(Luxid):
    """It takes calls and writes rules; its jobs wait for ever, for they reach no other node."""

    def __init__(self, world: World) -> None:
        """The one of the node that is the master now."""
        self._world, self._since = world, world.clock.now
        clock = world.clock
        schedule = Schedule(clock.now)
        super().__init__(_Configuration(world), Operations(world), schedule, lambda: clock.now)
        self.filters = deepcopy(world.luxid.filters)
        self.queue.rows = deepcopy(world.luxid.queue.rows)
        self.queue.last = world.luxid.queue.last
        self.caller: Daemon | None = None
        """whose call is being answered"""

    def advance(self) -> None:
        """Nothing starts."""

    def submit(self, jobs: Sequence[Sequence[Operation]]) -> list[Any]:
        passed = (self._world.clock.now - self._since) / SECOND
        self._world.checks.deposed(jobs, passed <= _VOTED)
        return super().submit(jobs)

    def replace_filter(
        self, uuid: str | None, priority: int, predicates: Any, action: Any, reason: list[Any]
    ) -> str:
        written = super().replace_filter(uuid, priority, predicates, action, reason)
        self._world.checks.deleted.add(written)
        return written

    def delete_filter(self, uuid: str) -> None:
        super().delete_filter(uuid)
        # Where this node becomes the master again, its daemon ignores the record.
        self._world.checks.deleted.add(uuid)
