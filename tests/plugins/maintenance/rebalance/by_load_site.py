"""A cluster whose instances have loads that change, and the daemon's rounds on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from worlds import SECOND, after, instance, node, uuid_of, world

from ganeti_steward.allocators.loads.agent_loads import NodeLoad
from ganeti_steward.core.model.context import Context
from ganeti_steward.plugins.maintenance.config import Maintd, Rebalance
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.rebalance.plugin import Rebalancing
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.world import Reported, World

SETTINGS = Rebalance(load_data="agents", by_load=True, copy_per_hour=0)
CONFIG = Maintd(mode="act", routine=("rebalance",))

#: Of each node.
CPUS = 8

#: Seconds between two rounds, and for which a move runs.
ROUND = 60
_MOVE = 90

#: Minutes that an average covers.
_WINDOW = 15

Loads = Callable[[str, int], float]
"""name of an instance and minute -> its load in CPUs"""


class Move(NamedTuple):
    """A move that was begun."""

    minute: int
    instance: str
    source: str
    target: str


def even_world(nodes: int, each: int) -> World:
    """Instances with shared storage and with drbd, as many on each node."""
    made = []
    for at in range(nodes):
        for number in range(each):
            pair = [f"n{at + 1}", f"n{(at + 1 + number % (nodes - 1)) % nodes + 1}"]
            pair = pair[: 1 + (number % 3 == 0)]
            made.append(instance(f"i{at + 1}-{number}", *pair, memory=512, disk=2048))
    return world([node(f"n{at + 1}", cpus=CPUS) for at in range(nodes)], made)


class Site:
    """Measures, decides, and carries out what was decided."""

    def __init__(
        self, start: World, loads: Loads, settings: Rebalance = SETTINGS, period: int = 5
    ) -> None:
        """``period``: minutes from one report of a node to the next."""
        self.world, self.loads, self.minute, self._period = start, loads, 0, period
        self.moves: list[Move] = []
        self.held: list[str] = []
        self._plugin = Rebalancing()
        self._plugin.configure(settings)
        self._past = {one.name: deque[float](maxlen=_WINDOW) for one in start.cluster.nodes}
        self._since: dict[str, object] = {}
        self._running: list[tuple[RoutineJob, object]] = []

    def share(self, name: str) -> float:
        """How busy a node is in this minute."""
        own = (one for one in self.world.instances.values() if one.primary == name)
        return min(sum(self.loads(one.name, self.minute) for one in own) / CPUS, 1.0)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._measure()
            self._end_jobs()
            self._decide()
            self.minute += 1
            self.world = self.world._replace(now=self.world.now + ROUND * SECOND)

    def _measure(self) -> None:
        seen = dict(self.world.observations)
        for number, (name, past) in enumerate(self._past.items()):
            past.append(self.share(name))
            if (self.minute + number) % self._period == 0:
                now = self.world.now
                seconds, share = max(60 * len(past) - 60, 1), sum(past) / len(past)
                load = NodeLoad(now, seconds, CPUS, share)
                seen[uuid_of(name)] = Reported(b'{"status":"Ok"}', "Ok", "", now, load=load)
        self.world = self.world._replace(observations=seen)

    def _end_jobs(self) -> None:
        now, routine = self.world.now, list(self.world.routine)
        for at, job in enumerate(routine):
            if job.open and now >= job.submitted + _MOVE * SECOND:
                (ended,) = [task for one, task in self._running if one.number == job.number]
                self.world = after(self.world, ended.jobs)  # type: ignore[attr-defined]
                routine[at] = job._replace(status="success", ended=now)
        fresh = (one for one in routine if one.open or now - one.ended < 3600 * SECOND)
        self.world = self.world._replace(routine=tuple(fresh))

    def _decide(self) -> None:
        inputs = Inputs(self.world)._replace(since=self._since)  # type: ignore[arg-type]

        def plan(_: str, seen: World) -> object:
            return self._plugin.steward_routine(seen, Context())

        decision = step(inputs, CONFIG, lambda *_: (), plan)  # type: ignore[arg-type]
        self._since = dict(decision.since)
        self.held += [one.sentence for one in decision.held]
        for started in decision.routine:
            task, number = started.task, len(self.moves) + 1
            job = RoutineJob(
                number, "rebalance", task.step, task.subject, tuple(sorted(task.nodes)),
                tuple(sorted(task.instances)), submitted=self.world.now, status="running",
            )  # fmt: skip
            self._running.append((job, task))
            self.world = self.world._replace(routine=(*self.world.routine, job))
            source = self.world.instances[task.subject].primary
            moved = after(self.world, task.jobs).instances[task.subject].primary
            self.moves.append(Move(self.minute, task.subject, source, moved))
