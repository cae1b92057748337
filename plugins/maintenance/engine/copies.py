"""Whether the second copy of a drbd instance may be old, by what was seen of it last.

While the primary of an instance does not answer, Ganeti cannot compare both copies: it starts the
second one, whatever it lacks.  So what the last check of the disks found decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.world import Reported, World
from ganeti_steward.plugins.texts import utc_time

_SECOND: Final = 10**9
#: ns by which the last check may be older than the last answer of the primary.
_CHECK_LIMIT: Final = 1800 * _SECOND

#: Templates whose second copy may be older than what the instance has written.
COPIED: Final = frozenset({"drbd"})


class LastSeen(NamedTuple):
    """What the daemon has seen of nodes and disks since it was started."""

    answered: Mapping[str, int] = MappingProxyType({})
    """name of a node -> when its node daemon answered last, ns since the epoch"""
    disks: Mapping[str, DiskHealth] = MappingProxyType({})
    """name of an instance -> what the last check of its disks found, however old that is"""


def seen_now(before: LastSeen, world: World, stalled_after: float) -> LastSeen:
    """What was seen, with what this round sees; objects that are gone are forgotten.

    ``stalled_after``: s without progress after which a synchronization is stalled.
    """
    answered = {
        node.name: world.now if node.live else before.answered[node.name]
        for node in world.cluster.nodes
        if node.live or node.name in before.answered
    }
    disks = {name: one for name, one in before.disks.items() if name in world.instances}
    for name, found in world.disks.items():
        known = disks.get(name)
        # The clock may have been set back since.
        newer = known is None or known.at < found.at or known.at > world.now
        if name in world.instances and newer:
            disks[name] = found.after(known, stalled_after)
    return LastSeen(answered, disks)


def with_progress(world: World, seen: LastSeen) -> dict[str, DiskHealth]:
    """`World.disks` of a world, with what earlier checks add to them."""
    known = seen.disks
    return {
        name: known[name] if name in known and known[name].at == one.at else one
        for name, one in world.disks.items()
    }


def may_lose_writes(world: World, config: Maintd, node: str) -> bool:
    """Whether copies may be started that lack what was written last; ``node``: uuid of the primary.

    Where its agent answers, or has answered since the node was confirmed to be off, the later data
    are there still.
    """
    reports = isinstance(world.observations.get(node), Reported) or any(
        one.reported for one in world.incidents.values() if one.node == node
    )
    return config.failover_unsynced and not reports


def old_copies(world: World, seen: LastSeen) -> dict[str, str]:
    """`World.old_copies` of a world."""
    return {
        instance.name: why_old(world, seen, instance)
        for instance in world.cluster.instances
        if instance.template in COPIED and not world.answers(instance.primary)
    }


def why_old(world: World, seen: LastSeen, instance: Instance) -> str:
    """Why the copy on the secondary may lack something, in words; empty: it was in sync last."""
    health = seen.disks.get(instance.name)
    if health is None:
        return f"no check of the disks of {instance.name} is known"
    at = f"the disks of {instance.name} were checked last at {utc_time(health.at)}"
    if not health.in_sync:
        return f"{at}: {', '.join(health.faults) or 'they were being synchronized'}"
    if health.nodes and {*health.nodes} != {*instance.nodes}:
        return f"{at}, when its nodes were {' and '.join(health.nodes)}"
    answered = seen.answered.get(instance.primary, 0)
    late = (answered or world.now) - health.at
    if late <= _CHECK_LIMIT:
        return ""
    end = f"before {instance.primary} answered last" if answered else "ago"
    limit = _CHECK_LIMIT // _SECOND
    return f"{at}, {late // _SECOND} s {end}, which is more than {limit} s"
