"""What the tasks of a round, and those still running, use: reserved all or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.maintenance.incident import OPT_OUT_TAG, Incident
from ganeti_steward.core.maintenance.task import Task
from ganeti_steward.core.maintenance.world import Reported, World
from ganeti_steward.core.model.finding import LIVE_REPAIR

_SECOND: Final = 10**9


class Book:
    """The nodes and instances that are reserved, by name."""

    def __init__(self, incidents: Iterable[Incident], world: World, hold_time: float = 0) -> None:
        """What runs already is reserved: of ``incidents``, of routine work, and of no record.

        ``hold_time``: s, see `Maintd`.
        """
        self._hold_time = hold_time
        self._nodes: dict[str, set[str]] = {}
        """name -> the plugins of routine work whose tasks use it; empty: a repair"""
        self._instances: set[str] = set()
        for each in incidents:
            for submission in each.open:
                self._use("", submission.nodes, submission.instances)
        for job in world.routine:
            if job.open:
                self._use(job.plugin, job.nodes, job.instances)
        for orphan in world.orphans:
            on = (world.instances[one].nodes for one in orphan.instances if one in world.instances)
            nodes = {*orphan.nodes, *(name for names in on for name in names)}
            self._use("", nodes, orphan.instances)
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
            passing_nodes=passing_nodes(world, self._hold_time),
        )


def avoided_nodes(world: World) -> dict[str, str]:
    """Nodes nothing is moved to -> why: ill, under repair, their repair failed, or excluded."""
    found = dict.fromkeys(sorted(world.excluded_nodes()), f"is excluded by the tag {OPT_OUT_TAG}")
    for incident in sorted(world.incidents.values(), key=lambda one: one.uuid):
        if incident.node in world.nodes and (why := incident.state.avoided):
            name = world.nodes[incident.node].name
            found[name] = f"has {why} incident {incident.uuid} ({incident.action})"
    for uuid, report in sorted(world.observations.items()):
        if isinstance(report, Reported) and report.ill and uuid in world.nodes:
            found.setdefault(world.nodes[uuid].name, f"reports {report.status}")
    return found


def passing_nodes(world: World, hold_time: float) -> frozenset[str]:
    """Names of nodes that `avoided_nodes` has for a time that ends without anybody's doing.

    A command of a live-repair is running there, or what the node reports may be a false alarm:
    nothing is done about it before the hold time (s) has passed.
    """
    lasting: set[str] = set()
    passing: set[str] = set()
    for one in world.incidents.values():
        if one.node in world.nodes and one.state.avoided:
            young = world.now - one.observed_since <= hold_time * _SECOND
            ends = bool(one.open) if one.action == LIVE_REPAIR else False
            waits = not one.state.begun and young
            (passing if one.active and (ends or waits) else lasting).add(one.node)
    known = {(one.node, one.original) for one in world.incidents.values()}
    for uuid, seen in world.observations.items():
        if isinstance(seen, Reported) and seen.ill and uuid in world.nodes:
            new = (uuid, seen.original) not in known
            if uuid not in passing:
                (passing if new else lasting).add(uuid)
    names = frozenset(world.nodes[uuid].name for uuid in passing - lasting)
    return names - world.excluded_nodes()
