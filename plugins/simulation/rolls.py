"""Planned maintenance of the simulated cluster: now and then all its nodes are to be rebooted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final
from uuid import UUID

from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
from ganeti_steward.allocators.rolling.rounds import RoundLimits
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.model.incident import CANCELED, FAILED, Maintenance
from ganeti_steward.plugins.model.works import requested
from ganeti_steward.plugins.simulation.assumptions import DAY, HOUR, Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.daemon import MemoryStore
from ganeti_steward.plugins.simulation.hardware import REBOOT
from ganeti_steward.plugins.simulation.results import Rolled

_OPTIONS: Final = RollOptions(limits=RoundLimits(at_once=1))
_REQUEST: Final = Maintenance(_OPTIONS.choice, work=f"command:{REBOOT}")
_ENDS: Final = (FAILED, CANCELED)


class Rolls:
    """Requests them, as ``gnt-steward maintenance roll --all --with-master`` does."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        store: MemoryStore,
        schedule: Schedule,
        assumed: Assumptions,
        news: Callable[[], None],
    ) -> None:
        """``news`` is called when requests were written."""
        self._cluster, self._store, self._schedule = cluster, store, schedule
        self._assumed, self._news = assumed, news
        self._random = Random(f"rolls {assumed.seed}")
        self._counts = Counter[str]()
        """field of `Rolled` -> how many so far"""
        self._since: int | None = None
        """when the one that goes on was requested"""
        self._longest = 0.0

    def begin(self) -> None:
        """Request the first one later."""
        if self._assumed.roll_days:
            self._schedule.after(self._assumed.roll_days * DAY, self._request)

    def notice(self, outcome: Round) -> None:
        """A round of the daemon is over."""
        for change in outcome.changes:
            before, after = change.before, change.after
            if not (before and before.maintenance and before.active):
                continue
            if after is None or after.status in _ENDS:
                self._counts[after.status if after else CANCELED] += 1
            elif not after.active:
                self._counts["done"] += 1
        if self._since is not None and not self._open():
            self._end(self._since)

    def results(self, reboots: int) -> Rolled:
        """What became of them until now; ``reboots``: of nodes."""
        if self._since is not None:
            self._longest = max(self._longest, (self._schedule.now - self._since) / HOUR)
        count = self._counts
        return Rolled(
            rolls=count["rolls"],
            skipped=count["skipped"],
            left_out=count["left_out"],
            done=count["done"],
            failed=count[FAILED],
            canceled=count[CANCELED],
            open=self._open(),
            reboots=reboots,
            longest=self._longest,
        )

    def _open(self) -> int:
        return sum(bool(one.maintenance and one.active) for one in self._store.incidents.values())

    def _end(self, since: int) -> None:
        self._longest = max(self._longest, (self._schedule.now - since) / HOUR)
        self._since = None

    def _request(self) -> None:
        """The next one, unless the one before goes on."""
        self.begin()
        if self._since is not None:
            self._counts["skipped"] += 1
            return
        cluster, now = self._cluster.cluster, self._schedule.now
        plan = plan_roll(cluster, [node.name for node in cluster.nodes], _OPTIONS)
        names = [name for one in plan.rounds for name in one.nodes]
        self._counts["rolls"] += 1
        self._counts["left_out"] += len(cluster.nodes) - len(names)
        self._since = now
        for number, name in enumerate(names):
            uuid = str(UUID(int=self._random.getrandbits(128), version=4))
            node = cluster.node(name)
            self._store.write(requested(node, _REQUEST, now + number, uuid, "monthly reboot"))
        self._news()
