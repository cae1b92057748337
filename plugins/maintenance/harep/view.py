"""What the plugin sees of each instance in one round."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.maintenance.disks import DiskHealth
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.harep.policy import Policy, policy_of
from ganeti_steward.plugins.maintenance.harep.standing import standing_of

NAME: Final = "harep"

#: ns in one s.
SECOND: Final = 10**9


class View:
    """The world by instance."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = world.now // SECOND
        """s since the epoch"""
        self.nodes = {node.name: node for node in world.cluster.nodes}
        """by name"""
        self._jobs: dict[str, list[RoutineJob]] = {}
        for job in world.routine:
            if job.plugin == NAME:
                self._jobs.setdefault(job.subject, []).append(job)

    def jobs(self, instance: Instance) -> list[RoutineJob]:
        """The jobs of the plugin about an instance, by number."""
        return self._jobs.get(instance.name, [])

    def policy(self, instance: Instance) -> Policy | None:
        """Which repairs of an instance are allowed; None: none is enabled."""
        group = self.world.groups.get(self.nodes[instance.primary].group)
        objects = [
            (f"instance {instance.name}", instance.tags),
            *([(f"node group {group.name}", group.tags)] if group else []),
            ("the cluster", self.world.cluster_tags),
        ]
        return policy_of(objects, self.now)

    def disks(self, instance: Instance) -> DiskHealth | None:
        """What is known of its disks; a check from before its last repair says nothing.

        Raises Contradiction.
        """
        found = self.world.disks.get(instance.name)
        if found is None:
            return None
        mark = standing_of(instance.tags).mark
        repaired = mark.time * SECOND if mark and mark.jobs else 0
        return found if found.at >= repaired else None

    def are_outdated(self, instance: Instance) -> bool:
        """Whether its disks were degraded, and not checked since its last repair.

        Raises Contradiction.
        """
        before = self.world.disks.get(instance.name)
        return before is not None and bool(before.faults) and self.disks(instance) is None

    def answers(self, node: str) -> bool:
        """Whether a node is known, in use and answers."""
        return self.world.answers(node)
