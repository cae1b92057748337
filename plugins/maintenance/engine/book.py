"""What the tasks of a round, and those still running, use: reserved all or nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti_steward.core.maintenance.incident import FAILED, OPT_OUT_TAG, Incident
from ganeti_steward.core.maintenance.task import Task
from ganeti_steward.core.maintenance.world import Reported, World


class Book:
    """The nodes and instances that are reserved, by name."""

    def __init__(self, incidents: Iterable[Incident], world: World) -> None:
        """What runs already is reserved: of ``incidents`` and of routine work."""
        self._nodes: dict[str, set[str]] = {}
        """name -> the plugins of routine work whose tasks use it; empty: a repair"""
        self._instances: set[str] = set()
        for each in incidents:
            for submission in each.open:
                self._use("", submission.nodes, submission.instances)
        for job in world.routine:
            if job.open:
                self._use(job.plugin, job.nodes, job.instances)
        self.observed: list[Task] = []
        """the tasks that nothing but observe mode holds"""

    def _use(self, plugin: str, nodes: Iterable[str], instances: Iterable[str]) -> None:
        for name in nodes:
            self._nodes.setdefault(name, set()).add(plugin)
        self._instances.update(instances)

    def conflict(self, task: Task, plugin: str = "") -> str:
        """The names of what the task uses that is reserved; empty when it is free.

        ``plugin``: the plugin of routine work that planned it.
        """
        own = {plugin} if task.shares_nodes else set()
        nodes = {name for name in task.nodes if self._nodes.get(name, set()) - own}
        return ", ".join([*sorted(nodes), *sorted(task.instances & self._instances)])

    def reserve(self, task: Task, plugin: str = "") -> None:
        """Reserve everything the task uses."""
        self._use(plugin, task.nodes, task.instances)

    def observe(self, task: Task, plugin: str = "") -> None:
        """Reserve what a task would use that observe mode holds: nothing shown collides."""
        self.reserve(task, plugin)
        self.observed.append(task)

    def world(self, world: World) -> World:
        """The world for a plugin: with what is reserved and what is to be avoided."""
        return world._replace(
            reserved_nodes=frozenset(self._nodes),
            reserved_instances=frozenset(self._instances),
            avoided_nodes=avoided_nodes(world),
        )


def avoided_nodes(world: World) -> dict[str, str]:
    """Nodes nothing is moved to -> why: ill, under repair, their repair failed, or excluded."""
    found = {
        node.name: f"is excluded by the tag {OPT_OUT_TAG}"
        for node in world.nodes.values()
        if OPT_OUT_TAG in node.tags
        or (node.group in world.groups and OPT_OUT_TAG in world.groups[node.group].tags)
    }
    for incident in sorted(world.incidents.values(), key=lambda one: one.uuid):
        if incident.node in world.nodes and (incident.active or incident.status == FAILED):
            word = "has a failed" if incident.status == FAILED else "has an active"
            name = world.nodes[incident.node].name
            found[name] = f"{word} incident {incident.uuid} ({incident.action})"
    for uuid, report in sorted(world.observations.items()):
        if isinstance(report, Reported) and report.ill and uuid in world.nodes:
            found.setdefault(world.nodes[uuid].name, f"reports {report.status}")
    return found
