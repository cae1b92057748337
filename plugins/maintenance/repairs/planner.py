"""The planner of the engine: calls the plugins of the hook ``steward_plan``.

With built-in plugins only, they are called here.  Otherwise each incident is planned by a process
of its own, which is ended at the plugin's time limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import PluginRules, call, log_failure
from ganeti_steward.core.hooks.child import program_child
from ganeti_steward.core.hooks.isolation import Isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import Plan, Wait
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import EVAC_ALL, NodeEvacuate
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Planned
from ganeti_steward.plugins.maintenance.repairs.checks import BadPlan, check_plans

_HOOK: Final = "steward_plan"


class PluginPlanner:
    """Plans one incident at a time; a fault of a plugin makes that incident wait."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._here: _Called | None = None

    def __call__(self, incident: Incident, world: World) -> list[Planned]:
        """What the first plugin that handles the incident plans."""
        try:
            name, given = self._planned(incident, world)
        except PluginError as err:
            log_failure(err)
            return [Planned(err.plugin, Wait(str(err)))]
        if not name:
            return [Planned("", Wait(f"no plugin handles the action {incident.action}"))]
        return [Planned(name, plan) for plan in given]

    def _planned(self, incident: Incident, world: World) -> tuple[str, Sequence[Plan]]:
        names = self._config.plugins.load
        if all(map(built_in, names)):
            self._here = self._here or _Called(self._config, names)
            name, given = self._here.plans(incident, world)
        else:
            with Isolated(partial(_Called, self._config, names), names, program_child) as child:
                name, given = child.ask(_Called.plans, incident, world)
        try:
            if name:
                check_plans(given, incident, world)
        except BadPlan as err:
            raise PluginError(name, str(err)) from None
        return name, given


class _Called:
    """Calls the plugins, those that are not built in first."""

    def __init__(self, config: Config, load: tuple[str, ...]) -> None:
        self._config, self._plugins = config, Plugins(config, load)

    def plans(self, incident: Incident, world: World) -> tuple[str, Sequence[Plan]]:
        """The first plugin that returns something, and what; an empty name without any."""
        limit = self._config.section(Maintd).plan_time_limit
        found = self._plugins.implementations(_HOOK)
        context = self._context(incident, world)
        for one in sorted(found, key=lambda one: built_in(one.plugin_name) is not None):
            given = call(one, limit, incident=incident, world=world, context=context)
            if given is not None:
                return one.plugin_name, given
        return "", ()

    def _context(self, incident: Incident, world: World) -> Context:
        """With the site rules for an evacuation of the node."""
        node = world.nodes.get(incident.node)
        names = [one.name for one in world.instances_on(node.name)] if node else []
        request = NodeEvacuate(tuple(names), EVAC_ALL)
        return Context(site_rules=PluginRules(self._plugins, self._config, request))
