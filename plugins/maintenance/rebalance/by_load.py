"""When the load of a node group is uneven for long enough, and what moves it may be evened out by.

The imbalance is the coefficient of variation of how busy the CPUs of the usable nodes are: the
standard deviation of their shares divided by the mean share.  Averages of minutes, rounds with new
reports, and the margin of each move keep noise from moving anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.frame import LOAD_UNIT
from ganeti_steward.plugins.maintenance.edges.loads import reported_loads
from ganeti_steward.plugins.maintenance.rebalance.remaining import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.allocators.loads.agent_loads import NodeLoad
    from ganeti_steward.allocators.state.arrays import Floats, Mask
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.maintenance.config import Rebalance
    from ganeti_steward.plugins.model.world import World

#: The mean share that counts at least: while all nodes idle, no difference matters.
_IDLE: Final = 0.1

_SECOND: Final = 10**9
_MARK: Final = "load"
_SEARCHED: Final = "searched"


def shares(state: State) -> Floats:
    """nodes: how busy the CPUs are, 1 for all of them."""
    busy: Floats = state.now[quantity.CPU_LOAD] / LOAD_UNIT / state.frame.cpus
    return busy


def imbalance(state: State, members: Mask) -> float:
    """That of these nodes; ``members``: nodes, those that are not usable are left out."""
    found = shares(state)[members & state.frame.usable]
    return float(found.std() / max(found.mean(), _IDLE)) if len(found) > 1 else 0.0


def on_busy_nodes(state: State, members: Mask) -> frozenset[str]:
    """Names of the instances whose primary is busier than the mean of these nodes."""
    found = shares(state)
    usable = members & state.frame.usable
    mean = found[usable].mean() if usable.any() else np.inf
    busy = np.flatnonzero(usable & (found > mean)).tolist()
    return frozenset(
        one.demand.instance.name for node in busy for one in state.residents.get(node, ())
    )


def with_one_load(cluster: Cluster) -> Cluster:
    """The cluster where memory and network load of an instance are its CPU load, too.

    Their measured values are not known.  Counted as 1 each, they would keep the number of
    instances even and so the load uneven.
    """
    return cluster.replace(
        instances=(
            one._replace(other_loads=(one.cpu_load, 1.0, one.cpu_load)) for one in cluster.instances
        )
    )


class Rounds(NamedTuple):
    """How often in a row the load of a group was uneven; from round to round it is a mark."""

    number: int
    """rounds, each with newer reports than the one before"""
    at: int
    """the newest report of the last of them, ns since the epoch"""
    searched: bool = False
    """whether no move was found with these reports"""

    @classmethod
    def read(cls, marks: Mapping[str, int]) -> Rounds:
        """What the round before has left; see `World.marked`."""
        for mark in marks:
            words = mark.split()
            if words[0] == _MARK:
                return cls(int(words[1]), int(words[2]), _SEARCHED in words)
        return cls(0, 0)

    @property
    def mark(self) -> str:
        """What the next round reads."""
        return f"{_MARK} {self.number} {self.at}{f' {_SEARCHED}' if self.searched else ''}"

    def counted(self, loads: Mapping[str, NodeLoad]) -> Rounds:
        """With one more, if all nodes of the group have reported since; ``loads``: theirs."""
        times = [load.at for load in loads.values()]
        if not times or min(times) <= self.at:
            return self
        return Rounds(self.number + 1, max(times))


def group_loads(world: World, group: str) -> dict[str, NodeLoad]:
    """Name -> load of each live node of a group (by uuid) that has reported it."""
    live = {one.name for one in world.cluster.nodes if one.group == group and one.live}
    return {name: load for name, load in reported_loads(world).items() if name in live}


def moved_lately(world: World) -> dict[str, str]:
    """Name of an instance that was moved within the last hour -> a clause that says so."""
    return {
        name: f"was moved by job {job.number} within the last hour"
        for job in world.routine
        if job.plugin == NAME and not job.open and not job.failed
        for name in job.instances
    }


def unsettled(world: World, loads: Mapping[str, NodeLoad]) -> str:
    """Why the loads are not yet those after the last moves; empty where they are."""
    for job in sorted(world.routine, key=lambda one: one.number):
        if job.plugin != NAME or job.open or job.failed:
            continue
        ended = job.ended or job.submitted
        for name in job.nodes:
            if name in loads and loads[name].at - loads[name].seconds * _SECOND < ended:
                return f"the load of {name} still covers a time before job {job.number} ended"
    return ""


def sentence(value: float, settings: Rebalance, rounds: int | None = None) -> str:
    """That the load is uneven, and for how many rounds it has been, in words."""
    limit, wanted = settings.load_threshold, settings.load_rounds
    begin = f"load is unbalanced ({value:.2f} > {limit:g})"
    return begin if rounds is None else f"{begin} for {min(rounds, wanted)} of {wanted} rounds"
