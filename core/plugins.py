"""Loading plugins and asking them, each by its name and under its own guard.

Built-in plugins are dotted names, imported when a request needs them.  Others are loaded
when the configuration names them; all installed entry points are only looked through by
``gnt-steward plugins`` and ``check-config``, because that costs more than an allocation.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pluggy

from ganeti_steward.core import PROJECT, guard, hookspecs
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.site import ROLES, Ban, Cost

if TYPE_CHECKING:
    from ganeti_steward.core.config import Config
    from ganeti_steward.core.model import Cluster, Instance

#: Name -> module of the allocators that come with the program.
BUILT_IN: Final[Mapping[str, str]] = {"balanced": "ganeti_steward.allocators.balanced"}

_log = logging.getLogger(__name__)


class Plugins:
    """The plugins of one run."""

    def __init__(self, config: Config) -> None:
        """Load what the configuration names; raises PluginError naming the plugin."""
        self._config = config
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        for name in config.plugins.load:
            self._register(name, self._load(name))

    def _load(self, name: str) -> object:
        limit = self._config.plugins.time_limit
        return guard.call(name, limit, lambda: load_plugin(name))

    def _register(self, name: str, plugin: object) -> None:
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as err:
            text = " ".join(str(err).split())
            raise PluginError(name, f"cannot be registered: {text}") from None
        configure = getattr(plugin, "configure", None)
        if configure is not None:
            settings = self._config.plugin.get(name, {})
            guard.call(name, self._config.plugins.time_limit, configure, settings=settings)

    def allocator(self, name: str, hook: str) -> pluggy.HookImpl:
        """The allocator's implementation of a hook; raises PluginError when there is none."""
        plugin = self._manager.get_plugin(name)
        if plugin is None:
            if name not in BUILT_IN:
                known = ", ".join([*BUILT_IN, *self._config.plugins.load])
                raise PluginError(name, f"is no allocator that is loaded (loaded: {known})")
            plugin = importlib.import_module(BUILT_IN[name])
            self._register(name, plugin)
        for implementation in self.implementations(hook):
            if implementation.plugin is plugin:
                return implementation
        raise PluginError(name, f"does not implement {hook}")

    def implementations(self, hook: str) -> Iterator[pluggy.HookImpl]:
        """All loaded implementations of a hook, in the order of the configuration."""
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            if not (implementation.wrapper or implementation.hookwrapper):
                yield implementation

    def call(self, implementation: pluggy.HookImpl, limit: float, **arguments: object) -> Any:
        """Call one implementation under its guard; raises PluginError."""
        wanted = {name: arguments[name] for name in implementation.argnames}
        _log.debug("plugin=%s hook=%s called", implementation.plugin_name, _hook(implementation))
        result = guard.call(implementation.plugin_name, limit, _collected(implementation), **wanted)
        _log.debug("plugin=%s hook=%s done", implementation.plugin_name, _hook(implementation))
        return result

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban, ...]:
        """What the constrain hooks say; raises PluginError, also for unusable answers."""
        found: list[Ban] = []
        for name, ban in self._ask("steward_constrain", cluster, instance):
            if not isinstance(ban, Ban):
                raise PluginError(name, f"steward_constrain must give bans, not {ban!r}")
            _check_place(name, ban.node, ban.role, cluster)
            found.append(ban)
        return tuple(found)

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str], float]:
        """What the weigh hooks say, weighted and added up; raises PluginError."""
        total: dict[tuple[str, str], float] = {}
        for name, cost in self._ask("steward_weigh", cluster, instance):
            if not isinstance(cost, Cost):
                raise PluginError(name, f"steward_weigh must give costs, not {cost!r}")
            _check_place(name, cost.node, cost.role, cluster)
            if not isinstance(cost.cost, int | float) or not math.isfinite(cost.cost):
                raise PluginError(name, f"the cost of {cost.node} is {cost.cost!r}, no number")
            place = (cost.node, cost.role)
            weight = self._config.weigh.get(name, 1.0)
            total[place] = total.get(place, 0.0) + weight * cost.cost
        return total

    def _ask(self, hook: str, cluster: Cluster, instance: Instance) -> Iterator[tuple[str, object]]:
        limit = self._config.plugins.time_limit
        for implementation in self.implementations(hook):
            name = implementation.plugin_name
            given = self.call(implementation, limit, cluster=cluster, instance=instance)
            for item in given or ():
                yield name, item


def _hook(implementation: pluggy.HookImpl) -> str:
    return implementation.function.__name__


def _collected(implementation: pluggy.HookImpl) -> Any:
    """The function, running a generator to its end inside the guard."""

    def function(**arguments: object) -> object:
        result: object = implementation.function(**arguments)
        return list(result) if isinstance(result, Iterator) else result

    return function


def _check_place(name: str, node: object, role: object, cluster: Cluster) -> None:
    if node not in cluster.node_index:
        raise PluginError(name, f"names the node {node!r}, which the cluster does not have")
    if role not in ROLES:
        raise PluginError(name, f"names the role {role!r} (known: {', '.join(ROLES)})")


def load_plugin(name: str) -> object:
    """Import a plugin by module path or entry point; raises PluginError."""
    try:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as err:
            if err.name is None or not (name == err.name or name.startswith(err.name + ".")):
                raise
            return _entry_point(name)
    except PluginError:
        raise
    except Exception as err:
        text = " ".join(str(err).split()) or "no message"
        raise PluginError(name, f"cannot be loaded: {type(err).__name__}: {text}") from err


def _entry_point(name: str) -> object:
    for point in entry_points():
        if point.name == name:
            return point.load()
    raise PluginError(name, f"is neither a module nor an entry point of the group {PROJECT}")


def entry_points() -> list[Any]:
    """All installed entry points of the program's group; slow, off the allocator's path."""
    from importlib.metadata import entry_points as installed

    return list(installed(group=PROJECT))
