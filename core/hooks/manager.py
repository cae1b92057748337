"""The plugins of one run: loaded by name, registered with pluggy, configured.

A built-in plugin is loaded when a request needs it, every other one when the configuration
names it.  Calling them is `ganeti_steward.core.hooks.calls`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import pluggy

from ganeti_steward.core import PROJECT
from ganeti_steward.core.builtins import ALLOCATORS, BUILT_INS, HOOKSPECS, built_in, module
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.hooks.loading import configure, is_configured, load_plugin
from ganeti_steward.core.needed import Needed

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.cluster import Cluster, Instance


@cache
def hook_names() -> tuple[str, ...]:
    """Every hook there is."""
    found = chain.from_iterable(vars(module(room)) for room in HOOKSPECS)
    return tuple(name for name in found if name.startswith("steward_"))


class _Manager(pluggy.PluginManager):
    """Does not look for hooks among what every object of Python has, which takes long."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """The options of a hook's implementation; None for what is none."""
        return None if name.startswith("__") else super().parse_hookimpl_opts(plugin, name)


class Plugins:
    """The plugins of one run."""

    def __init__(self, config: Config, load: Sequence[str] | None = None) -> None:
        """Load what the configuration names, or ``load``; raises PluginError."""
        self._config = config
        self._waiting = {one.name: one.needed for one in BUILT_INS if one.needed}
        """plugins whose site rules count once they are needed -> when that is"""
        self._known: Cluster | None = None
        """the cluster by whose tags those needed were chosen"""
        self._manager = _Manager(PROJECT)
        for room in HOOKSPECS:
            self._manager.add_hookspecs(module(room))
        self._named = tuple(config.plugins.load if load is None else load)
        for name in self._named:
            self._load(name)
            if built_in(name):
                self._waiting.pop(name, None)

    # -- loading

    def _load(self, name: str) -> object:
        limit = self._config.plugins.time_limit
        plugin = timed_call.call(name, limit, load_plugin, name=name)
        timed_call.call(name, limit, self._register, name=name, plugin=plugin)
        timed_call.call(name, limit, configure, config=self._config, name=name, plugin=plugin)
        return plugin

    def _register(self, name: str, plugin: object) -> None:
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as err:
            text = " ".join(str(err).split())
            raise PluginError(name, f"cannot be registered: {text}") from None
        _check_marked(name, plugin, self.hooks(name))
        for caller in self._manager.get_hookcallers(plugin) or ():
            mine = [one for one in caller.get_hookimpls() if one.plugin is plugin]
            if any(one.wrapper or one.hookwrapper for one in mine):
                raise PluginError(name, f"{caller.name} is a wrapper, which is never called")
        self._wait(name, getattr(plugin, "NEEDED", None))

    def _wait(self, name: str, needed: object) -> None:
        if isinstance(needed, Needed):
            self._waiting[name] = needed
        elif needed is not None:
            raise PluginError(name, f"NEEDED is {timed_call.shown(needed)}, not a Needed")

    def _plugin(self, name: str) -> object:
        plugin = self._manager.get_plugin(name)
        if plugin is None and built_in(name):
            plugin = self._load(name)
        if plugin is None:
            known = ", ".join(dict.fromkeys([*ALLOCATORS, *self._named]))
            raise PluginError(name, f"is not a loaded allocator (loaded: {known})")
        return plugin

    # -- those that are only needed now and then

    def wake(self, cluster: Cluster, instance: Instance | None = None) -> None:
        """Have the plugins take part that this cluster or instance needs; raises PluginError."""
        if not self._waiting:
            return
        if self._known is not cluster:
            self._wake(tuple(_tags(cluster)), configured=True)
            self._known = cluster
        if instance is not None and instance.tags:
            self._wake(instance.tags)

    def _wake(self, tags: Collection[str], *, configured: bool = False) -> None:
        for name, needed in tuple(self._waiting.items()):
            if needed.by(tags) or (
                configured and needed.section and is_configured(self._config, name)
            ):
                self._plugin(name)
                del self._waiting[name]

    # -- looking up

    def hooks(self, name: str) -> list[str]:
        """The hooks a plugin implements, a built-in one loaded now; raises PluginError."""
        callers = self._manager.get_hookcallers(self._plugin(name)) or []
        found = {caller.name for caller in callers}
        return [hook for hook in hook_names() if hook in found]

    def implementation(self, name: str, hook: str) -> pluggy.HookImpl:
        """A plugin's implementation of a hook; raises PluginError when there is none."""
        plugin = self._plugin(name)
        for found in self._implementations(hook):
            if found.plugin is plugin:
                return found
        raise PluginError(name, f"does not implement {hook}")

    def implementations(self, hook: str) -> Iterator[pluggy.HookImpl]:
        """All implementations of a hook that take part, in the order of the configuration.

        Raises PluginError for a built-in plugin that cannot be loaded.
        """
        for name in _WITH_HOOK.get(hook, ()):
            self._plugin(name)
        for found in self._implementations(hook):
            if found.plugin_name not in self._waiting or hook not in _IF_NEEDED:
                yield found

    def _implementations(self, hook: str) -> Iterable[pluggy.HookImpl]:
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        return caller.get_hookimpls()


#: Hook -> the built-in plugins that are loaded whenever it is called.
_WITH_HOOK: Final = {
    hook: tuple(one.name for one in BUILT_INS if hook in one.hooks)
    for hook in dict.fromkeys(chain.from_iterable(one.hooks for one in BUILT_INS))
}

#: Hooks of a plugin that are called only where the plugin is needed for a request.
_IF_NEEDED: Final = ("steward_constrain", "steward_weigh", "steward_annotate")


def _check_marked(name: str, plugin: object, hooks: Collection[str]) -> None:
    """A hook that is never called must not pass for one that returns nothing."""
    for hook in hook_names():
        if callable(getattr(plugin, hook, None)) and hook not in hooks:
            raise PluginError(name, f"{hook} is not marked with @hookimpl")
    if not hooks:
        raise PluginError(name, "implements no hook")


def _tags(cluster: Cluster) -> Iterator[str]:
    """The tags of the cluster, its groups and its nodes."""
    yield from cluster.tags
    for group in cluster.groups:
        yield from group.tags
    for node in cluster.nodes:
        yield from node.tags
