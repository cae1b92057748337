"""The planner of routine work: calls one plugin of the hook ``steward_routine``.

With built-in plugins only, it is called here.  Otherwise a process of its own calls it, which is
ended at the plugin's time limit.
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
from ganeti_steward.core.maintenance.task import RoutinePlan, Wait
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.checks import BadPlan
from ganeti_steward.plugins.maintenance.routine.checks import check_routine

_HOOK: Final = "steward_routine"


class PluginRoutine:
    """Plans one plugin's routine work at a time; a fault of it makes that work wait."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._here: _Called | None = None

    def __call__(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What the plugin plans."""
        try:
            given = self._planned(plugin, world)
            check_routine(given, world)
        except BadPlan as err:
            fault = PluginError(plugin, str(err))
        except PluginError as err:
            fault = err
        else:
            return given
        log_failure(fault)
        return [Wait(str(fault))]

    def _planned(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        names = _names(self._config)
        if all(map(built_in, names)):
            self._here = self._here or _Called(self._config, names)
            return self._here.plans(plugin, world)
        with Isolated(partial(_Called, self._config, names), names, program_child) as child:
            return child.ask(_Called.plans, plugin, world)


def _names(config: Config) -> tuple[str, ...]:
    """The plugins to be loaded: those whose site rules count, and those of routine work."""
    return tuple(dict.fromkeys((*config.plugins.load, *config.section(Maintd).routine)))


class _Called:
    """Calls the plugins."""

    def __init__(self, config: Config, load: tuple[str, ...]) -> None:
        self._config, self._plugins = config, Plugins(config, load)

    def plans(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What the plugin returns; an empty list for None."""
        one = self._plugins.implementation(plugin, _HOOK)
        limit = self._config.section(Maintd).plan_time_limit
        context = Context(site_rules=PluginRules(self._plugins, self._config, Balance()))
        given = call(one, limit, world=world, context=context)
        plans: Sequence[RoutinePlan] = [] if given is None else given
        return plans
