"""What repairs of a whole node have in common: the case they decide about, and their settings."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Plan, Task, Wait
from ganeti_steward.plugins.model.world import World


class NodeCase(NamedTuple):
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

    def disk_health(self, instance: str) -> DiskHealth | None:
        """The state of an instance's disks; None where it was not read lately."""
        return self.world.disk_health(instance)

    def on_node(self, step: str, reason: str, job: Job) -> Task:
        """A task that uses the node alone."""
        return Task(step, frozenset({self.name}), frozenset(), reason, (job,))


def no_node(incident: Incident) -> list[Plan]:
    """The plan for a node that is not there."""
    return [Wait(f"node {incident.node_name} is not in the cluster")]


class NodeRepair:
    """A plugin that has its settings in the section ``[maintd]``."""

    CONFIG: Final = Maintd

    def __init__(self) -> None:
        self._settings = Maintd()

    def configure(self, settings: Maintd) -> None:
        """``settings``: the section ``[maintd]``."""
        self._settings = settings
