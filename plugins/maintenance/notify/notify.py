"""Notifies plugins of changes of incidents (hook ``steward_incident_changed``).

Each plugin has a queue of its own, so that none delays another one, and none the daemon.
Plugins that are not built in run in a child process for each change.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import call, log_failure
from ganeti_steward.core.hooks.isolation import Isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.hooks.program import program_child
from ganeti_steward.plugins.maintenance.engine.decision import Change
from ganeti_steward.plugins.maintenance.notify.background import Background

if TYPE_CHECKING:
    from pluggy import HookImpl

    from ganeti_steward.core.config.values import Config

HOOK: Final = "steward_incident_changed"

#: Seconds the last notifications have when the daemon ends.
LAST: Final = 5.0

_log = logging.getLogger(__name__)


class Notifier:
    """Notifies all plugins, in the background."""

    def __init__(self, config: Config) -> None:
        """Load the built-in plugins; raises PluginError.

        Others are loaded for each change, so that they cannot keep the daemon from starting.
        """
        limit = config.plugins.time_limit
        built = Plugins(config, ()).implementations(HOOK)
        own = [_receiver(one.plugin_name, partial(_deliver, one, limit)) for one in built]
        names = [name for name in config.plugins.load if not built_in(name)]
        self._receivers = [*own, *(_receiver(name, _Foreign(config, name)) for name in names)]

    def notify(self, changes: Iterable[Change]) -> None:
        """Have every plugin notified of these changes, in this order; never waits."""
        for change in changes:
            for receiver in self._receivers:
                receiver.put(change)

    def finish(self, seconds: float = LAST) -> None:
        """Wait until all are notified, for some seconds at most."""
        last = time.monotonic() + seconds
        for receiver in self._receivers:
            receiver.finish(max(last - time.monotonic(), 0))


def _receiver(name: str, deliver: Callable[[Change], object]) -> Background[Change]:
    def work(change: Change) -> None:
        try:
            deliver(change)
        except PluginError as err:
            log_failure(err)

    return Background(f"notifying {name}", work)


def _deliver(implementation: HookImpl, limit: float, change: Change) -> None:
    """Call a plugin; raises PluginError."""
    call(implementation, limit, **change._asdict())


class _Foreign:
    """A plugin that is not built in."""

    def __init__(self, config: Config, name: str) -> None:
        self._config, self._names = config, (name,)
        self._implements = True

    def __call__(self, change: Change) -> None:
        """Call it in a child process; raises PluginError."""
        if self._implements:
            serve = partial(_Called, self._config, self._names)
            with Isolated(serve, self._names, program_child) as child:
                self._implements = child.ask(_Called.notify, change)


class _Called:
    """The same in the child."""

    def __init__(self, config: Config, load: tuple[str, ...]) -> None:
        self._limit = config.plugins.time_limit
        found = Plugins(config, load).implementations(HOOK)
        self._found = [one for one in found if one.plugin_name in load]

    def notify(self, change: Change) -> bool:
        """Whether it implements the hook."""
        for one in self._found:
            _deliver(one, self._limit, change)
        return bool(self._found)
