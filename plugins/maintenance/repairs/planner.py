"""The planners of the engine: call the plugins of ``steward_plan`` and ``steward_routine``.

With built-in plugins only, they are called here.  Otherwise each incident, and each plugin's
routine work, is planned by a process of its own, which is ended at the plugin's time limit.  What
they return is checked: nothing reaches Ganeti that collides.  That all values are of their types
was checked when they left the process of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import PluginRules, call, log_failure
from ganeti_steward.core.hooks.child import program_child
from ganeti_steward.core.hooks.isolation import Isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.iallocator.dispatch import reserved
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.requests import EVAC_ALL, Balance, NodeEvacuate, Request
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import (
    OPEN,
    TAG,
    UNTAG,
    Failed,
    Plan,
    RoutinePlan,
    Task,
    Wait,
)
from ganeti_steward.plugins.model.world import World

_Value = TypeVar("_Value")

#: A failure of these fails no repair, so no repair is called so.
_OWN_STEPS: Final = (TAG, UNTAG)


class BadPlan(Exception):
    """Something a plugin may not plan; the text says what, without the plugin's name."""


def _check_plans(given: Sequence[Plan], incident: Incident, world: World) -> None:
    """Raise BadPlan unless these are tasks, or one of Done, Failed and Wait."""
    if not given:
        raise BadPlan("steward_plan gave an empty list")
    for plan in given:
        _check_text("a reason", plan.reason)
        if isinstance(plan, Task):
            _check_task(plan, incident, world)
        elif len(given) > 1:
            raise BadPlan(f"gave {type(plan).__name__} together with something else")
        if isinstance(plan, Failed):
            for name, reason in plan.unmovable:
                _check_text("the name of an unmovable instance", name)
                _check_text("the reason of an unmovable instance", reason)
    if len(given) > 1:
        _check_shared([plan for plan in given if isinstance(plan, Task)], world, incident)


def _check_text(what: str, text: str) -> None:
    """Raise BadPlan unless there is something in a text; ``what``: what it is."""
    if not text:
        raise BadPlan(f"gave '' as {what}, not a text")


def _check_task(task: Task, incident: Incident, world: World) -> None:
    _check_text("a step", task.step)
    if task.step in _OWN_STEPS or (task.step == OPEN and not incident.state.reopens):
        raise BadPlan(f"the step {task.step} is the daemon's own, after a repair")
    own = _own(incident, world)
    _check_names("node", task.nodes, {node.name for node in world.cluster.nodes})
    _check_names("instance", task.instances, world.instances)
    if own not in task.nodes:
        raise BadPlan(f"its task leaves out {own}, the node of the incident")
    used = (task.nodes - {own}) & world.reserved_nodes | task.instances & world.reserved_instances
    if used:
        raise BadPlan(f"its task uses what another task uses: {', '.join(sorted(used))}")
    if bool(task.jobs) == bool(task.command):
        raise BadPlan("its task needs either jobs or a command")
    if task.command and not is_name(task.command):
        raise BadPlan(f"its command {shown(task.command)} is not a command name")
    _check_jobs(task.jobs)
    if task.each and (len(task.each) != len(task.jobs) or not task.instances >= set(task.each)):
        raise BadPlan("its task does not name one of its instances for each of its jobs")


def _own(incident: Incident, world: World) -> str:
    node = world.nodes.get(incident.node)
    return node.name if node else incident.node_name


def _check_names(what: str, names: frozenset[str], known: Iterable[str]) -> None:
    """Raise BadPlan unless all these names are known; ``what``: what they name."""
    unknown = sorted(map(shown, names - set(known)))
    if unknown:
        raise BadPlan(f"its task names {what}s that do not exist: {', '.join(unknown)}")


def _check_jobs(jobs: Sequence[Job]) -> None:
    """Raise BadPlan unless these are jobs that can be handed over."""
    for job in jobs:
        if not job:
            raise BadPlan(f"gave {shown(job)} as a job, not a list of operations")
        for one in job:
            if not isinstance(one.get("OP_ID"), str):
                raise BadPlan(f"gave {shown(one)} as an operation, not an object with OP_ID")


def _check_shared(tasks: Sequence[Task], world: World, incident: Incident) -> None:
    seen: set[str] = set()
    for task in tasks:
        used = (task.nodes - {_own(incident, world)}) | task.instances
        shared = seen & used
        if shared:
            raise BadPlan(f"two of its tasks share {', '.join(sorted(shared))}")
        seen |= used


def _check_routine(given: Sequence[RoutinePlan], world: World) -> None:
    """Raise BadPlan unless these are tasks and waits for this cluster."""
    for plan in given:
        _check_text("a reason", plan.reason)
        if isinstance(plan, Task):
            _check_routine_task(plan, world)


def _check_routine_task(task: Task, world: World) -> None:
    _check_text("a step", task.step)
    _check_names("node", task.nodes, {node.name for node in world.cluster.nodes})
    _check_names("instance", task.instances, world.instances)
    if task.command or not task.jobs:
        raise BadPlan("its task needs jobs, and no command")
    _check_jobs(task.jobs)


class _Called:
    """Calls the plugins; in a process of its own where some are not built in."""

    def __init__(self, config: Config, names: tuple[str, ...]) -> None:
        self._config, self._plugins = config, Plugins(config, names)

    def plans(self, incident: Incident, world: World) -> tuple[str, Sequence[Plan]]:
        """What the first plugin returns that handles the incident; an empty name without any.

        Those that are not built in come first.
        """
        found, world = self._plugins.implementations("steward_plan"), self._reserving(world)
        # With the site rules for an evacuation of the node.
        node = world.nodes.get(incident.node)
        names = [one.name for one in world.instances_on(node.name)] if node else []
        context = self._context(NodeEvacuate(tuple(names), EVAC_ALL))
        for one in sorted(found, key=lambda one: built_in(one.plugin_name) is not None):
            given = call(one, self._limit, incident=incident, world=world, context=context)
            if given is not None:
                return one.plugin_name, given
        return "", ()

    def routine(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What a plugin of routine work returns; an empty list for None."""
        one = self._plugins.implementation(plugin, "steward_routine")
        world, context = self._reserving(world), self._context(Balance())
        given = call(one, self._limit, world=world, context=context)
        plans: Sequence[RoutinePlan] = [] if given is None else given
        return plans

    def gates(self, world: World) -> Sequence[str]:
        """Why no maintenance may begin now, by each plugin that has a reason."""
        found = []
        for one in self._plugins.implementations("steward_gate"):
            given = call(one, self._limit, world=world)
            if given is not None and not isinstance(given, str):
                raise PluginError(one.plugin_name, "steward_gate gave no text")
            found += [given] if given else []
        return found

    @property
    def _limit(self) -> float:
        return self._config.section(Maintd).plan_time_limit

    def _reserving(self, world: World) -> World:
        """The world with the configured reserves of its cluster."""
        return world._replace(cluster=reserved(world.cluster, self._config)[0])

    def _context(self, request: Request) -> Context:
        return Context(site_rules=PluginRules(self._plugins, self._config, request))


class _Plugins:
    """Calls these plugins: here where all are built in, and otherwise in a process of their own."""

    def __init__(self, config: Config, names: tuple[str, ...]) -> None:
        self._names, self._make = names, partial(_Called, config, names)
        self._here: _Called | None = None

    def ask(self, method: Callable[..., _Value], *arguments: object) -> _Value:
        """What a method of `_Called` returns; raises PluginError."""
        if all(map(built_in, self._names)):
            self._here = self._here or self._make()
            return method(self._here, *arguments)
        with Isolated(self._make, self._names, program_child) as child:
            return child.ask(method, *arguments)


class PluginPlanner:
    """Plans one incident at a time; a fault of a plugin makes that incident wait."""

    def __init__(self, config: Config) -> None:
        self._plugins = _Plugins(config, config.plugins.load)

    def __call__(self, incident: Incident, world: World) -> list[PluginPlan]:
        """What the first plugin that handles the incident plans."""
        try:
            name, given = self._plugins.ask(_Called.plans, incident, world)
            if not name:
                return [PluginPlan("", Wait(f"no plugin handles the action {incident.action}"))]
            with _checking(name):
                _check_plans(given, incident, world)
        except PluginError as err:
            log_failure(err)
            return [PluginPlan(err.plugin, Wait(str(err)))]
        return [PluginPlan(name, plan) for plan in given]


class PluginRoutine:
    """Plans one plugin's routine work at a time; a fault of it makes that work wait."""

    def __init__(self, config: Config) -> None:
        # Those whose site rules count, and those of routine work.
        names = dict.fromkeys((*config.plugins.load, *config.section(Maintd).routine))
        self._plugins = _Plugins(config, tuple(names))

    def __call__(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What the plugin plans."""
        try:
            given = self._plugins.ask(_Called.routine, plugin, world)
            with _checking(plugin):
                _check_routine(given, world)
        except PluginError as err:
            log_failure(err)
            return [Wait(str(err))]
        return given


class PluginGates:
    """Calls the plugins before a maintenance begins; one that fails does not agree."""

    def __init__(self, config: Config) -> None:
        self._plugins = _Plugins(config, config.plugins.load)

    def __call__(self, world: World) -> tuple[str, ...]:
        """Why none may begin now, a sentence each."""
        try:
            return tuple(self._plugins.ask(_Called.gates, world))
        except PluginError as err:
            log_failure(err)
            return (str(err),)


@contextmanager
def _checking(plugin: str) -> Iterator[None]:
    """Around the checks of what a plugin has planned."""
    try:
        yield
    except BadPlan as err:
        raise PluginError(plugin, str(err)) from None
