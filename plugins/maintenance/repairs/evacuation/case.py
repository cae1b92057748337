"""One evacuation: what its steps and the judgement of each instance depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.units import utc_time
from ganeti_steward.plugins.maintenance.config import Maintd

SECOND: Final = 10**9

#: Ganeti's word for an instance that was seen running.
RUNNING: Final = "running"

#: Instances, each with the reason why it is not moved.
Reasons = tuple[tuple[str, str], ...]

#: Names of instances that a sentence gives; the others are only counted.
_NAMED: Final = 5


class Evacuation(NamedTuple):
    """One incident, its node, and the world."""

    incident: Incident
    node: Node
    world: World
    context: Context
    settings: Maintd

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name

    @property
    def here(self) -> tuple[Instance, ...]:
        """The instances that have the node as primary or secondary, by name."""
        return tuple(self.world.instances_on(self.name))

    @property
    def answers(self) -> bool:
        """Whether Ganeti can ask the node to stop an instance."""
        if self.node.offline:
            return False
        running = (one.status == RUNNING and one.primary == self.name for one in self.here)
        return self.world.answers(self.name) or any(running)


def runs_on(instance: Instance, node: str) -> bool:
    """Whether an instance is meant to run on a node."""
    return instance.up and instance.primary == node


def last_synced(case: Evacuation, instance: str) -> str:
    """When the copies of its disks were last seen in sync, for a sentence."""
    at = dict(case.incident.synced).get(instance)
    if at is None:
        return "were not seen in sync since the incident began"
    return f"were last seen in sync at {utc_time(at)}"


def counted(names: Sequence[str]) -> str:
    """The first few names, the others counted."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def listed(reasons: Iterable[tuple[str, str]]) -> str:
    """The first few in words, the others counted."""
    found = list(reasons)
    shown = "; ".join(f"{name}: {reason}" for name, reason in found[:_NAMED])
    more = len(found) - _NAMED
    return f"{shown}; and {more} more" if more > 0 else shown
