"""Keeps for commands on the master how busy the nodes are, by their last reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ganeti_steward.allocators.loads.agent_loads import KEPT, KeptLoads, NodeLoad, write_loads
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.plugins.model.world import Reported, World


def reported_loads(world: World) -> dict[str, NodeLoad]:
    """Name of a node -> its load by its last report, where that has it."""
    return {
        node.name: seen.load
        for uuid, seen in world.observations.items()
        if (node := world.nodes.get(uuid)) and isinstance(seen, Reported) and seen.load
    }


class LoadKeeper:
    """Writes the file after a round, where its figures would become old."""

    def __init__(
        self,
        max_age: Callable[[], float],
        call_disk: CallDisk = without_timeout,
        *,
        path: str = KEPT,
    ) -> None:
        """``max_age``: see `KeptLoads`; ``call_disk``: writes the file."""
        self._max_age, self._call_disk, self._path = max_age, call_disk, path
        self._kept = KeptLoads("", 0, {})
        """as it was written last"""

    def __call__(self, world: World) -> None:
        """Keep what is known by now; raises OSError, StewardError."""
        now = KeptLoads(world.cluster.name, self._max_age(), reported_loads(world))
        if _is_due(self._kept, now):
            self._call_disk(partial(write_loads, now, self._path))
            self._kept = now


def _is_due(before: KeptLoads, now: KeptLoads) -> bool:
    """Newer figures of the same nodes wait until those before are a third of the way to too old."""
    if before._replace(nodes={}) != now._replace(nodes={}):
        return bool(now.nodes)
    if before.nodes.keys() != now.nodes.keys():
        return True
    limit = now.max_age * 10**9 / 3
    return any(load.at - before.nodes[name].at > limit for name, load in now.nodes.items())
