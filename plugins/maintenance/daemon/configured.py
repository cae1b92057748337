"""Everything of the daemon that depends on the configuration, which can be read again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import Held, RoutinePlan
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.carry_out import NodeAgents
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.engine.decision import Planned
from ganeti_steward.plugins.maintenance.notify.notify import Notifier
from ganeti_steward.plugins.maintenance.rebalance.config import NO_LOAD, Rebalance
from ganeti_steward.plugins.maintenance.rebalance.remaining import NAME
from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner
from ganeti_steward.plugins.maintenance.routine.planner import PluginRoutine

#: Settings that are used at the start only.
_FIXED: Final = ("address", "port", "audit_file", "counters_file", "lock_file")

_log: Final = logging.getLogger(__name__)


class Configured:
    """The parts that change with the configuration."""

    def __init__(self, config: Config, wake: Callable[[], None]) -> None:
        """``wake`` is called by other threads when an agent has news.  Raises PluginError."""
        self.config = config
        self.agents = NodeAgents(self.settings, wake)
        self._planner, self._notifier = PluginPlanner(config), Notifier(config)
        self._routine = PluginRoutine(config)
        self._fault = ""

    @property
    def settings(self) -> Maintd:
        """The section [maintd]."""
        return self.config.section(Maintd)

    def plan(self, incident: Incident, world: World) -> Sequence[Planned]:
        """What the plugins plan for one incident."""
        return self._planner(incident, world)

    def plan_routine(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        """What a plugin of routine work plans."""
        return self._routine(plugin, world)

    def with_loads(self, world: World) -> World:
        """The world with the CPU load that routine work is configured to take into account."""
        settings = self.config.section(Rebalance)
        if NAME not in self.settings.routine or settings.load_data == NO_LOAD:
            return world
        # It imports the engine, which most configurations do not need.
        from ganeti_steward.plugins.maintenance.rebalance.loads import with_load_reports

        return with_load_reports(world, settings)

    def notify(self, outcome: Round) -> None:
        """Have the plugins notified of the changes of a round."""
        self._notifier.notify(outcome.changes)

    def problems(self) -> tuple[Held, ...]:
        """What is wrong with the configuration file, while an older content of it is used."""
        return (Held("cluster", "configuration", self._fault),) if self._fault else ()

    def reload(self, read: Callable[[], Config]) -> bool:
        """Use the configuration that ``read`` returns; one that cannot be used changes nothing."""
        try:
            config = read()
            planner, notifier = PluginPlanner(config), Notifier(config)
        except StewardError as err:
            self._fault = f"the configuration could not be read again, the old one is used: {err}"
            _log.error("%s", self._fault)
            return False
        before = self.settings
        self.config, self._planner, self._notifier, self._fault = config, planner, notifier, ""
        self._routine = PluginRoutine(config)
        self.agents.configure(self.settings)
        _log.info("the configuration was read again")
        for name in _FIXED:
            if getattr(before, name) != getattr(self.settings, name):
                _log.warning("another %s is used only after a restart", name.replace("_", "-"))
        return True

    def stop(self) -> None:
        """End polling; the last notifications have some seconds."""
        self.agents.stop()
        self._notifier.finish()
