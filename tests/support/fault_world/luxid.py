"""luxid in the simulated world: the product's model of its queue, and calls that can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fault_world.clock import SECOND, Killed
from fault_world.operations import Operations
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi, NotReached
from ganeti_steward.plugins.maintenance.queue.calls import Connections
from ganeti_steward.plugins.model.incident import JOB_SOURCE
from ganeti_steward.plugins.simulation.jobs import Operation
from ganeti_steward.plugins.simulation.luxid import Luxid

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World


class Behaviour(NamedTuple):
    """How one call goes."""

    before: float = 0.002
    """seconds until luxid does what is requested"""
    after: float = 0.002
    """seconds from then to the answer"""
    lost: bool = False
    """whether the connection is closed instead of the answer"""
    never: bool = False
    """whether it is closed before anything was done"""
    late: float = 0.0
    """seconds from the answer, or its loss, until the jobs of a submission are stored"""


class WorldLuxid(Luxid):
    """The master's luxid."""

    def __init__(self, world: World) -> None:
        operations = Operations(world)
        super().__init__(world.ganeti, operations, world.clock.schedule, lambda: world.clock.now)
        self.world = world
        self.late = 0.0
        """seconds until the jobs of the submission that is under way are stored"""
        self._storing: list[tuple[Sequence[int], Callable[[], None]]] = []
        """numbers of jobs, and what stores them later"""
        self.never_stored = set[int]()
        """numbers of the jobs that a restart has lost"""
        self.starts = 1
        """how many times it was started; connections of the times before are closed"""
        self.purged: dict[int, Any] = {}
        """number -> row of the jobs that left the archive"""
        self.running = True
        self.ended_at = 0
        """when it was stopped last, ns since the epoch"""
        self.connections: dict[int, int] = {}
        """number of an open connection -> the start of luxid that it was made to"""
        self.made = 0
        """how many connections there were"""
        self.caller: Daemon | None = None
        """whose call is being answered; None: that of others"""

    def answer(self, raw: bytes) -> bytes:
        """The answer to one request; both are well formed, and only one thread runs."""
        request = orjson.loads(raw)
        return orjson.dumps(self.call(request["method"], request["args"]))

    def advance(self) -> None:
        """One pass of the scheduler; everything else happens by itself."""
        if self.queue.unfinished:
            self._obey()
            self.queue.advance()

    def job(self, number: int) -> Any | None:
        """The row of a job that was stored, also where luxid does not know it any more."""
        return self.queue.rows.get(number) or self.purged.get(number)

    def purge(self) -> None:
        """Remove all jobs from the archive."""
        rows = self.queue.rows
        for number in [number for number, row in rows.items() if row["archived"]]:
            self.purged[number] = rows.pop(number)

    def stop(self) -> None:
        """End it; its queue is on disk."""
        self.running, self.ended_at = False, self.world.clock.now
        self.connections.clear()
        # What it was storing is in the queue now, or never will be.
        for numbers, stored in [*self._storing]:
            if self.world.draw("storing").random() < 0.5:
                stored()
            else:
                self.never_stored.update(numbers)
        self._storing.clear()

    def start(self) -> None:
        """Start it again."""
        if not self.running:
            self.running, self.starts = True, self.starts + 1

    def _store(self, numbers: Sequence[int], jobs: Sequence[Sequence[Operation]]) -> None:
        late, store = self.late, super()._store
        self.world.checks.submitted(numbers, jobs, self.caller)
        if not late:
            store(numbers, jobs)
            return

        def stored() -> None:
            if (numbers, stored) in self._storing:
                self._storing.remove((numbers, stored))
                store(numbers, jobs)
                self.queue.advance()

        self._storing.append((numbers, stored))
        self.world.clock.after(late, stored)

    def replace_filter(
        self, uuid: str | None, priority: int, predicates: Any, action: Any, reason: list[Any]
    ) -> str:
        written = super().replace_filter(uuid, priority, predicates, action, reason)
        self.world.ganeti.changed()
        self.world.checks.rule_written(self.filters[written], self.caller)
        return written

    def delete_filter(self, uuid: str) -> None:
        rule = self.filters.get(uuid)
        super().delete_filter(uuid)
        self.world.ganeti.changed()
        if rule:
            self.world.checks.rule_deleted(rule, self.caller)


class WorldLuxi(Luxi):
    """The daemon's own client, but for the socket."""

    def __init__(self, daemon: Daemon, clock: Callable[[], int]) -> None:
        super().__init__("/luxid", clock=clock, reason_source=JOB_SOURCE)
        self._daemon, self._world, self._node = daemon, daemon.world, daemon.node

    def _exchange(self, method: str, request: bytes) -> bytes:
        world, luxid = self._world, self._world.luxid
        if old := world.old_luxids.get(self._node):
            self._wait(world.faults.of_call(method).before)
            return old.answer(request)
        if self._node != world.ganeti.master or not luxid.running:
            self._wait(0.001)
            raise NotReached(f"luxid is stopped: nothing listens at {self._path}")
        how = world.faults.of_call(method, request)
        luxid.made += 1
        connection, start = luxid.made, luxid.starts
        luxid.connections[connection] = start
        try:
            return self._answered(method, request, how, start)
        finally:
            # Where the caller is gone, luxid notices only at the end of the call.
            gone = 0.0 if self._daemon.process.alive else how.before
            world.clock.after(how.late + gone, partial(_close, luxid, connection))

    def _answered(self, method: str, request: bytes, how: Behaviour, start: int) -> bytes:
        luxid = self._world.luxid
        left = self._time_limit
        try:
            self._within(method, how.before, left)
        except Killed:
            # luxid has the request of a caller that is gone, and does what it requests for.
            self._world.clock.after(how.before, partial(self._do, request, how, start))
            raise
        if how.never or luxid.starts != start or not luxid.running:
            raise self._error(method, "the connection was closed before the answer")
        answer = self._done(request, how, start)
        due = self._world.clock.now + int(how.after * SECOND)
        self._within(method, how.after, None if left is None else left - how.before)
        # What has come while the daemon was stopped is there.
        ended = luxid.starts != start or not luxid.running
        if how.lost or (ended and luxid.ended_at <= due):
            raise self._error(method, "the connection was closed before the answer")
        return answer

    def _done(self, request: bytes, how: Behaviour, start: int) -> bytes:
        """Have luxid do what is requested for; its answer."""
        luxid = self._world.luxid
        if how.never or luxid.starts != start or not luxid.running:
            return b""
        luxid.late, luxid.caller = how.late, self._daemon
        try:
            return luxid.answer(request)
        finally:
            luxid.late, luxid.caller = 0.0, None

    def _do(self, request: bytes, how: Behaviour, start: int) -> None:
        self._done(request, how, start)

    def _within(self, method: str, seconds: float, limit: float | None) -> None:
        if limit is not None and seconds > limit:
            self._wait(limit)
            raise self._error(method, f"no answer within {self._time_limit:g} s")
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        thread = self._world.clock.thread
        assert thread is not None, "only the daemon calls luxid"
        thread.wait(seconds)


def _close(luxid: WorldLuxid, connection: int) -> None:
    luxid.connections.pop(connection, None)


class WorldConnections(Connections):
    """What the kernel shows of the connections to luxid."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: frozenset[int] | None = None

    def awaited(self) -> str:
        luxid = self._world.luxid
        if not luxid.running:
            raise StewardError("luxid is stopped")
        now = frozenset(luxid.connections)
        self._open = now if self._open is None else self._open & now
        return f"{len(self._open)} connections to luxid must be closed" if self._open else ""
