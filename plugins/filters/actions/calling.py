"""Calls the plugins of the hook ``steward_filter_action``; a fault of one holds the job.

Built-in actions are called here.  Other names go to the plugins that the configuration names, in a
process of their own, which is ended at the time limit; so such a plugin cannot delay or change a
built-in action.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import partial
from types import TracebackType
from typing import Any, Final

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import call, log_failure
from ganeti_steward.core.hooks.checks import check_text
from ganeti_steward.core.hooks.child import program_child
from ganeti_steward.core.hooks.isolation import Isolated, isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.model.filter_action import (
    Facts,
    Hold,
    Verdict,
)

_HOOK: Final = "steward_filter_action"

#: How often an action may fail in one round; then its jobs are held without further calls, which
#: could each take the whole time limit.
_FAILURES: Final = 3


class Actions:
    """The actions for the time of one round; as a context, so that no process is left."""

    def __init__(self, config: Config) -> None:
        self._here = _Called(config, ())
        self._names = _site_plugins(config)
        self._site = Isolated(partial(_Called, config, self._names), self._names, program_child)
        self._failed = Counter[str]()
        self._last: dict[str, Hold] = {}
        """action -> the verdict of its last failure"""

    def __enter__(self) -> Actions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._site.__exit__(kind, err, tb)

    def __call__(self, action: str, arguments: str, job: Job, facts: Facts) -> Verdict:
        """The verdict; Hold, with a sentence that names the plugin, where there is none."""
        if self._failed[action] >= _FAILURES:
            return self._last[action]
        try:
            name, verdict = self._verdict(action, arguments, job, facts)
            if verdict is None:
                return Hold(self._unknown(action))
            check_text(name, "the reason of a verdict", verdict.reason)
            return verdict
        except PluginError as err:
            log_failure(err)
            self._failed[action] += 1
            self._last[action] = Hold(str(err))
            return self._last[action]

    def _verdict(self, *question: Any) -> tuple[str, Verdict | None]:
        name, verdict = self._here.verdict(*question)
        if name or not self._names:
            return name, verdict
        return self._site.ask(_Called.verdict, *question)

    def _unknown(self, action: str) -> str:
        names = ", ".join(self._names) or "no plugin"
        return (
            f"no plugin knows the action {quoted(action)}; its plugin must be in "
            f"[plugins] load of the master, which has {names}"
        )


class _Called:
    """Calls plugins in this process, built-in ones or those that are named."""

    def __init__(self, config: Config, load: tuple[str, ...]) -> None:
        self._limit = config.plugins.time_limit
        self._found = [
            one
            for one in Plugins(config, load).implementations(_HOOK)
            if bool(load) == (built_in(one.plugin_name) is None)
        ]

    def verdict(
        self, action: str, arguments: str, job: Job, facts: Facts
    ) -> tuple[str, Verdict | None]:
        """The first plugin that returns something, and what; an empty name without any."""
        given = {"action": action, "arguments": arguments, "job": job, "facts": facts}
        for one in self._found:
            # Of its own for each plugin: one that changes it would decide for the others.
            own = given if built_in(one.plugin_name) else deepcopy(given)
            verdict = call(one, self._limit, **own)
            if verdict is not None:
                return one.plugin_name, verdict
        return "", None


def plugins_with_actions(config: Config) -> list[str]:
    """The plugins with actions that are not built in; raises PluginError."""
    names = _site_plugins(config)

    def found() -> list[str]:
        implementations = Plugins(config, names).implementations(_HOOK)
        return [one.plugin_name for one in implementations if one.plugin_name in names]

    return isolated(names, list[str], found) if names else []


def _site_plugins(config: Config) -> tuple[str, ...]:
    return tuple(name for name in config.plugins.load if not built_in(name))
