"""What of the cluster balancing may use: nodes and instances that nothing else is about."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.core.model.job_state import CANCELED
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.world import World

#: The name of the plugin.
NAME: Final = "rebalance"

#: How many things of one kind a sentence names.
_NAMED: Final = 5

_MIB_PER_GIB: Final = 1024


class Remaining(NamedTuple):
    """What is left out of one node group, each with the reason."""

    nodes: dict[str, str]
    """name -> why"""
    instances: dict[str, str]
    """name -> why; those on the nodes above are not among them"""

    @property
    def text(self) -> str:
        """Everything left out in one clause; empty for nothing."""
        parts = [f"{name} {why}" for name, why in sorted(self.nodes.items())]
        parts += [f"{name} {why}" for name, why in sorted(self.instances.items())]
        more = len(parts) - _NAMED
        parts = parts[:_NAMED] + ([f"{more} more"] if more > 0 else [])
        return f"left out: {', '.join(parts)}" if parts else ""


def remaining(
    world: World, group: str, others: Mapping[str, str] = MappingProxyType({})
) -> Remaining:
    """What is left out of a node group (by uuid); ``others``: further instances -> why."""
    members = {one.name for one in world.cluster.nodes if one.group == group}
    nodes = dict.fromkeys(members & world.reserved_nodes, "is in use by another task")
    nodes |= {name: why for name, why in world.avoided_nodes.items() if name in members}
    # Ganeti would fail one that is down over, while its watcher starts it where it is.
    stays = dict(others) | {one.name: "is down" for one in world.down_on_live_nodes()}
    stays |= {
        name: f"could not be moved by job {job.number} within the last hour"
        for job in world.routine
        if job.plugin == NAME and job.failed and not _made_way(world, job)
        for name in job.instances
    }
    reasons = {
        name: _reason(world, name, stays)
        for name, one in world.instances.items()
        if members.intersection(one.nodes) and not nodes.keys() & set(one.nodes)
    }
    return Remaining(nodes, {name: why for name, why in reasons.items() if why})


def _made_way(world: World, job: RoutineJob) -> bool:
    """Whether it was canceled for a repair; one that an admin has canceled has failed."""
    with_incidents = {one.node_name for one in world.incidents.values()}
    return job.status == CANCELED and not with_incidents.isdisjoint(job.nodes)


def _reason(world: World, name: str, stays: dict[str, str]) -> str:
    if name in world.reserved_instances:
        return "is in use by another task"
    if OPT_OUT_TAG in world.instances[name].tags:
        return f"has the tag {OPT_OUT_TAG}"
    return stays.get(name, "")


def copied_gib(world: World) -> float:
    """What routine work has copied within the last hour, and is copying now."""
    begun = (job for job in world.routine if job.status != CANCELED)
    return sum(job.copied for job in begun) / _MIB_PER_GIB
