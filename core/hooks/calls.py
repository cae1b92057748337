"""Calling the hooks of the loaded plugins, each by its name and within its time limit."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.hooks.checks import check_ban, check_cost, check_list, check_text

if TYPE_CHECKING:
    from pluggy import HookImpl

    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.hooks.manager import Plugins
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.requests import Request
    from ganeti_steward.core.model.site_rules import Ban, NoPlace

_ANNOTATE: Final = "steward_annotate"

_log = logging.getLogger(__name__)


def wanted(implementation: HookImpl, **arguments: object) -> dict[str, Any]:
    """Those arguments of a hook that one implementation takes."""
    return {name: arguments[name] for name in implementation.argnames}


def call(implementation: HookImpl, limit: float, **arguments: object) -> Any:
    """Call one implementation for at most ``limit`` seconds; raises PluginError.

    A generator is run to its end within the limit.
    """
    name, hook = implementation.plugin_name, implementation.function.__name__
    taken = wanted(implementation, **arguments)

    def collected() -> object:
        result = implementation.function(**taken)
        return list(result) if isinstance(result, Iterator) else result

    _log.debug("plugin=%s hook=%s called", name, hook)
    result = timed_call.call(name, limit, collected)
    _log.debug("plugin=%s hook=%s done", name, hook)
    return result


class PluginRules:
    """The site rules of the plugins for one request, and their notes on its answer."""

    def __init__(self, plugins: Plugins, config: Config, request: Request) -> None:
        self._plugins, self._config, self._request = plugins, config, request
        self._checked: dict[str, tuple[Cluster, tuple[Any, ...]]] = {}
        """plugin -> the last bans that were checked, and for which cluster"""

    def bans(self, cluster: Cluster, instance: Instance) -> tuple[Ban | NoPlace, ...]:
        """What the constrain hooks return; raises PluginError, also for unusable results."""
        found: tuple[Ban | NoPlace, ...] = ()
        for name, given in self._results("steward_constrain", cluster, instance):
            # The same value again, as for instances with equal tags, needs no other check.
            bans, last = tuple(given), self._checked.get(name)
            if last is None or last[0] is not cluster or last[1] is not bans:
                for ban in bans:
                    check_ban(name, ban, cluster)
                self._checked[name] = cluster, bans
            found = (*found, *bans) if found else bans
        return found

    def costs(self, cluster: Cluster, instance: Instance) -> Mapping[tuple[str, str, str], float]:
        """What the weigh hooks return, weighted and added up; raises PluginError."""
        total: dict[tuple[str, str, str], float] = {}
        for name, given in self._results("steward_weigh", cluster, instance):
            weight = self._config.weigh.get(name, 1.0)
            for one in given:
                place, cost = check_cost(name, one, cluster)
                total[*place, name] = total.get((*place, name), 0.0) + weight * cost
        return total

    def annotating(self, cluster: Cluster) -> list[str]:
        """The plugins that may have notes; raises PluginError."""
        self._plugins.wake(cluster)
        return [one.plugin_name for one in self._plugins.implementations(_ANNOTATE)]

    def notes(self, name: str, cluster: Cluster, outcome: Outcome) -> list[str]:
        """The notes of one plugin on an outcome; raises PluginError."""
        one = self._plugins.implementation(name, _ANNOTATE)
        given = self._call(one, cluster=cluster, outcome=outcome)
        if given is None:
            return []
        check_list(name, _ANNOTATE, given)
        return [check_text(name, "a note", note) for note in given]

    def _results(
        self, hook: str, cluster: Cluster, instance: Instance
    ) -> Iterator[tuple[str, Sequence[Any]]]:
        self._plugins.wake(cluster, instance)
        for one in self._plugins.implementations(hook):
            given = self._call(one, cluster=cluster, instance=instance)
            if given is not None:
                check_list(one.plugin_name, hook, given)
                yield one.plugin_name, given

    def _call(self, one: HookImpl, **arguments: object) -> Any:
        limit = self._config.plugins.time_limit
        return call(one, limit, request=self._request, **arguments)


def log_failure(err: PluginError) -> None:
    """Log a plugin's failure with the traceback of its cause."""
    _log.error("%s", err, exc_info=err.__cause__)
