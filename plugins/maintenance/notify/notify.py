"""Notifies plugins of changes of incidents (hook ``steward_incident_changed``).

Each plugin has a queue of its own, so that none delays another one, and none the daemon.
Plugins that are not built in run in a child process for each change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import call, log_failure
from ganeti_steward.core.hooks.child import program_child
from ganeti_steward.core.hooks.isolation import Isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.plugins.maintenance.engine.decision import Change

if TYPE_CHECKING:
    from pluggy import HookImpl

    from ganeti_steward.core.config.values import Config


_Item = TypeVar("_Item")

#: Things that may wait; those that come then are dropped.
WAITING: Final = 1000


class Background(Generic[_Item]):
    """Does one kind of work in its order, in a thread that comes and goes; for several threads."""

    def __init__(self, name: str, work: Callable[[_Item], None], waiting: int = WAITING) -> None:
        """``name``: what the work is, for the log; ``waiting``: things that may wait."""
        self._name, self._work, self._limit = name, work, waiting
        self._lock = threading.Lock()
        self._waiting = deque[_Item]()
        self._thread: threading.Thread | None = None
        self._dropped = RateLimitedLog(_log)

    def put(self, item: _Item) -> None:
        """Have it done; never waits."""
        with self._lock:
            if len(self._waiting) >= self._limit:
                self._dropped.warning(f"{self._name}: {self._limit} wait already, one is dropped")
                return
            self._waiting.append(item)
            self._start()

    def _start(self) -> None:
        if self._thread:
            return
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as err:
            # It is tried again with the next one.
            self._dropped.warning(f"{self._name}: {err}")
            return
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                item = self._waiting.popleft()
            try:
                self._work(item)
            except Exception:
                _log.exception("%s failed", self._name)

    def finish(self, seconds: float) -> bool:
        """Wait until everything is done, for some seconds at most; whether it is."""
        with self._lock:
            thread = self._thread
        if thread:
            thread.join(seconds)
        return not thread or not thread.is_alive()


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
