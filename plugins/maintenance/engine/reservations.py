"""What the tasks of a round, and those still running, use: reserved all or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Incident, Submission
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import Reported, World

_SECOND: Final = 10**9


class Reservations:
    """The nodes and instances that are reserved, by name."""

    def __init__(
        self, incidents: Iterable[Incident], world: World, config: Maintd | None = None
    ) -> None:
        """What runs already is reserved: of ``incidents``, of routine work, and of no record."""
        self._config = config or Maintd()
        self._nodes: dict[str, set[str]] = {}
        """name -> the plugins of routine work whose tasks use it; empty: a repair"""
        self._instances: set[str] = set()
        for each in incidents:
            for submission in each.open:
                self._use("", _nodes(submission), submission.instances)
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
        nodes = {name for name in _nodes(task) if self._nodes.get(name, set()) - own}
        return ", ".join([*sorted(nodes), *sorted(task.instances & self._instances)])

    def reserve(self, task: Task, plugin: str = "") -> None:
        """Reserve everything the task uses."""
        self._use(plugin, _nodes(task), task.instances)

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
            passing_nodes=passing_nodes(world, self._config),
        )


def _nodes(one: Task | Submission) -> set[str]:
    """What it uses of nodes: an agent runs one hook at a time, and its node is free meanwhile."""
    return {*one.nodes, *([f"the agent of {one.agent}"] if one.agent else [])}


def avoided_nodes(world: World) -> dict[str, str]:
    """Nodes nothing is moved to -> why: ill, under repair, their repair failed, or excluded."""
    found = dict.fromkeys(sorted(world.excluded_nodes()), f"is excluded by the tag {OPT_OUT_TAG}")
    for incident in sorted(world.incidents.values(), key=lambda one: one.uuid):
        if incident.maintenance and not incident.state.begun:
            continue  # its node is healthy
        if incident.node in world.nodes and (why := incident.state.avoided):
            name = world.nodes[incident.node].name
            found[name] = f"has {why} incident {incident.uuid} ({incident.action})"
    for uuid, report in sorted(world.observations.items()):
        if isinstance(report, Reported) and report.needs_repair and uuid in world.nodes:
            found.setdefault(world.nodes[uuid].name, f"reports {report.status}")
    return found


def passing_nodes(world: World, config: Maintd) -> frozenset[str]:
    """Names of nodes that `avoided_nodes` has for a time that ends by itself.

    A command of a live-repair is running there, or has succeeded and the node was not diagnosed
    since; or the report may be a false alarm, or is over: nothing is done about it.
    """
    incidents = [
        one
        for one in world.incidents.values()
        if one.node in world.nodes and (one.state.begun or not one.maintenance)
    ]
    passing = {one.node for one in incidents if _ends_soon(one, world.now, config)}
    lasting = {one.node for one in incidents if one.state.avoided} - passing
    known = {
        (one.node, one.object_id)
        for one in incidents
        if not _is_repaired(one, world.now, config.report_max_age)
    }
    for uuid, seen in world.observations.items():
        if (
            isinstance(seen, Reported)
            and seen.needs_repair
            and uuid in world.nodes
            and uuid not in passing
        ):
            (lasting if (uuid, seen.object_id) in known else passing).add(uuid)
    names = frozenset(world.nodes[uuid].name for uuid in passing - lasting)
    return names - world.excluded_nodes()


def _ends_soon(incident: Incident, now: int, config: Maintd) -> bool:
    """Whether an incident keeps its node from being a target for a short time only."""
    young = now - incident.observed_since <= config.hold_time * _SECOND
    runs = incident.action == LIVE_REPAIR and bool(incident.open)
    # Its node reports something else: it is forgotten after healthy-delay.
    clears = incident.healthy_since is not None and incident.silent_since is None
    return incident.active and (runs or ((young or clears) and not incident.state.begun))


def _is_repaired(incident: Incident, now: int, max_age: float) -> bool:
    """Whether what the node reports may be from before its repair; ``max_age``: s."""
    done = incident.action == LIVE_REPAIR and incident.state.succeeded
    return done and now - incident.changed <= max_age * _SECOND
