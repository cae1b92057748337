"""Loading plugins and asking them, each by its name and under its own guard.

Built-in plugins are dotted names, imported when a request needs them.  Others are loaded
when the configuration names them; all installed entry points are only looked through by
``gnt-steward plugins`` and ``check-config``, because that costs more than an allocation.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

import pluggy

from ganeti_steward.core import PROJECT
from ganeti_steward.core.builtins import ALLOCATORS, RULES
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks import hookspecs
from ganeti_steward.core.hooks import timed_call as guard
from ganeti_steward.core.json_reader import LIMIT
from ganeti_steward.core.model.site_rules import ROLES, TAG_PREFIX, Ban, Cost, NoPlace

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.requests import Request

#: Every hook there is.
HOOK_NAMES: Final = tuple(name for name in vars(hookspecs) if name.startswith("steward_"))

_log = logging.getLogger(__name__)


class Plugins:
    """The plugins of one run."""

    def __init__(self, config: Config, request: Request | None = None) -> None:
        """Load what the configuration names; raises PluginError naming the plugin.

        ``request``: what the plugins are loaded for; None where nothing is to be answered.
        """
        self._config, self._request = config, request
        self._speaking: tuple[Cluster, bool] | None = None
        self._checked: dict[str, tuple[Cluster, tuple[Any, ...]]] = {}
        """plugin -> the last bans that were looked at, and for which cluster"""
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        for name in config.plugins.load:
            self._load(name)

    def _load(self, name: str) -> object:
        limit = self._config.plugins.time_limit
        plugin = guard.call(name, limit, load_plugin, name=name)
        if name in RULES:
            make = getattr(plugin, "plugin")  # noqa: B009 - only these modules have it
            plugin = make(self._config, self._request)
        guard.call(name, limit, self._register, name=name, plugin=plugin)
        configure = getattr(plugin, "configure", None)
        if configure is not None:
            settings = self._config.plugin.get(name, {})
            guard.call(name, limit, configure, settings=settings)
        return plugin

    def _register(self, name: str, plugin: object) -> None:
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as err:
            text = " ".join(str(err).split())
            raise PluginError(name, f"cannot be registered: {text}") from None
        _check_heard(name, plugin, self.hooks(name))
        for caller in self._manager.get_hookcallers(plugin) or ():
            mine = [one for one in caller.get_hookimpls() if one.plugin is plugin]
            if any(one.wrapper or one.hookwrapper for one in mine):
                raise PluginError(name, f"{caller.name} is a wrapper, which is never called")

    def hooks(self, name: str) -> list[str]:
        """The hooks a plugin implements, a built-in one loaded now; raises PluginError."""
        callers = self._manager.get_hookcallers(self._plugin(name)) or []
        found = {caller.name for caller in callers}
        return [hook for hook in HOOK_NAMES if hook in found]

    def _plugin(self, name: str) -> object:
        plugin = self._manager.get_plugin(name)
        if plugin is None and (name in ALLOCATORS or name in RULES):
            plugin = self._load(name)
        if plugin is None:
            known = ", ".join(dict.fromkeys([*ALLOCATORS, *self._config.plugins.load]))
            raise PluginError(name, f"is no allocator that is loaded (loaded: {known})")
        return plugin

    def allocator(self, name: str, hook: str) -> pluggy.HookImpl:
        """The allocator's implementation of a hook; raises PluginError when there is none."""
        plugin = self._plugin(name)
        for implementation in self.implementations(hook):
            if implementation.plugin is plugin:
                return implementation
        raise PluginError(name, f"does not implement {hook}")

    def implementations(self, hook: str) -> Iterator[pluggy.HookImpl]:
        """All loaded implementations of a hook, in the order of the configuration."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        yield from caller.get_hookimpls()

    def call(self, implementation: pluggy.HookImpl, limit: float, **arguments: object) -> Any:
        """Call one implementation under its guard; raises PluginError."""
        wanted = {name: arguments[name] for name in implementation.argnames}
        _log.debug("plugin=%s hook=%s called", implementation.plugin_name, _hook(implementation))
        result = guard.call(implementation.plugin_name, limit, _collected(implementation), **wanted)
        _log.debug("plugin=%s hook=%s done", implementation.plugin_name, _hook(implementation))
        return result

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        """What the constrain hooks say; raises PluginError, also for unusable answers."""
        found: tuple[Ban | NoPlace, ...] = ()
        for name, given in self._ask("steward_constrain", cluster, instance):
            # The same value again, as for instances that ask the same, needs no other look.
            bans, last = tuple(given), self._checked.get(name)
            if last is None or last[0] is not cluster or last[1] is not bans:
                for ban in bans:
                    _check_ban(name, ban, cluster)
                self._checked[name] = cluster, bans
            found = (*found, *bans) if found else bans
        return found

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str], float]:
        """What the weigh hooks say, weighted and added up; raises PluginError."""
        total: dict[tuple[str, str], float] = {}
        for name, given in self._ask("steward_weigh", cluster, instance):
            weight = self._config.weigh.get(name, 1.0)
            for cost in given:
                if not isinstance(cost, Cost):
                    fault = f"steward_weigh must give costs, not {guard.shown(cost)}"
                    raise PluginError(name, fault)
                _check_place(name, cost.node, cost.role, cluster)
                place = (cost.node, cost.role)
                total[place] = total.get(place, 0.0) + weight * _checked_cost(name, cost)
        return total

    def notes(self, cluster: Cluster, outcome: Outcome) -> list[str]:
        """What the program's own rules say of an answer besides; raises PluginError."""
        self._engage(cluster)
        found: list[str] = []
        for name in RULES:
            rule: Any = self._manager.get_plugin(name)
            if rule is not None:
                limit = self._config.plugins.time_limit
                found += guard.call(name, limit, rule.notes, cluster=cluster, outcome=outcome)
        return found

    def _engage(self, cluster: Cluster, instance: Instance | None = None) -> None:
        """Load the program's own rules where something speaks of them."""
        for name in RULES:
            if self._manager.get_plugin(name) is None and self._spoken_of(cluster, instance):
                self._load(name)

    def _spoken_of(self, cluster: Cluster, instance: Instance | None) -> bool:
        """Whether the configuration or a tag that matters says anything."""
        if self._speaking is None or self._speaking[0] is not cluster:
            self._speaking = cluster, _configured(self._config) or _tagged(cluster)
        return self._speaking[1] or (instance is not None and _ours(instance.tags))

    def _ask(
        self, hook: str, cluster: Cluster, instance: Instance
    ) -> Iterator[tuple[str, Sequence[Any]]]:
        limit = self._config.plugins.time_limit
        self._engage(cluster, instance)
        for implementation in self.implementations(hook):
            name = implementation.plugin_name
            given = self.call(implementation, limit, cluster=cluster, instance=instance)
            if given is None:
                continue
            if type(given) not in (list, tuple):
                raise PluginError(name, f"{hook} must give a list, not {guard.shown(given)}")
            yield name, given


def _check_heard(name: str, plugin: object, hooks: Collection[str]) -> None:
    """A rule that is never asked must not pass for one that has nothing to say."""
    for hook in HOOK_NAMES:
        if callable(getattr(plugin, hook, None)) and hook not in hooks:
            raise PluginError(name, f"{hook} is not marked with @hookimpl")
    if not hooks:
        raise PluginError(name, "implements no hook")


def _configured(config: Config) -> bool:
    """Whether the configuration says anything about the program's own rules."""
    return any(name in config.sections for name in RULES)


def _tagged(cluster: Cluster) -> bool:
    """Whether the cluster, a group or a node has a tag of the program's own."""
    if _ours(cluster.tags) or any(_ours(group.tags) for group in cluster.groups):
        return True
    return any(_ours(node.tags) for node in cluster.nodes)


def _ours(tags: tuple[str, ...]) -> bool:
    return any(tag.startswith(TAG_PREFIX) for tag in tags)


def _hook(implementation: pluggy.HookImpl) -> str:
    return implementation.function.__name__


def _collected(implementation: pluggy.HookImpl) -> Any:
    """The function, running a generator to its end inside the guard."""

    def function(**arguments: object) -> object:
        result: Any = implementation.function(**arguments)
        return list(result) if isinstance(result, Iterator) else result

    return function


def _check_ban(name: str, ban: object, cluster: Cluster) -> None:
    if isinstance(ban, NoPlace):
        _check_text(name, "the reason for no place", ban.reason)
        return
    if not isinstance(ban, Ban):
        raise PluginError(name, f"steward_constrain must give bans, not {guard.shown(ban)}")
    _check_place(name, ban.node, ban.role, cluster)
    _check_text(name, f"the rule for {ban.node}", ban.rule)
    _check_text(name, f"the reason for {ban.node}", ban.reason)


def _check_place(name: str, node: object, role: object, cluster: Cluster) -> None:
    if not isinstance(node, str) or node not in cluster.node_index:
        raise PluginError(
            name, f"names the node {guard.shown(node)}, which the cluster does not have"
        )
    if role not in ROLES:
        raise PluginError(name, f"names the role {guard.shown(role)} (known: {', '.join(ROLES)})")


def _check_text(name: str, what: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise PluginError(name, f"{what} is {guard.shown(text)}, not a text")


def _checked_cost(name: str, cost: Cost) -> float:
    # Real rather than float: whoever computes with numpy gives its numbers.
    if not isinstance(cost.cost, Real) or not -LIMIT <= cost.cost <= LIMIT:
        fault = f"the cost of {cost.node} is {guard.shown(cost.cost)}, not a number up to {LIMIT:g}"
        raise PluginError(name, fault)
    return float(cost.cost)


def rule_faults(config: Config) -> list[str]:
    """What the program's own rules find wrong with their section; raises PluginError."""
    found: list[str] = []
    for name in RULES if _configured(config) else ():
        rule: Any = load_plugin(name)
        found += rule.faults(config)
    return found


def load_plugin(name: str) -> object:
    """Import a plugin by module path or entry point; raises PluginError."""
    try:
        try:
            return importlib.import_module(ALLOCATORS.get(name) or RULES.get(name, name))
        except ModuleNotFoundError as err:
            if err.name is None or not (name == err.name or name.startswith(err.name + ".")):
                raise
            return _entry_point(name)
    except PluginError:
        raise
    except Exception as err:
        raise PluginError(name, f"cannot be loaded: {guard.sentence(err)}") from err


def _entry_point(name: str) -> object:
    for point in entry_points():
        if point.name == name:
            return point.load()
    raise PluginError(name, f"is neither a module nor an entry point of the group {PROJECT}")


def entry_points() -> list[Any]:
    """All installed entry points of the program's group; slow, off the allocator's path."""
    from importlib.metadata import entry_points as installed

    return list(installed(group=PROJECT))
