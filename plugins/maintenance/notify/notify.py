"""Notifies plugins of changes of incidents (hook ``steward_incident_changed``).

Each plugin has a queue of its own, so that none delays another one, and none the daemon.
Plugins that are not built in run in a child process for each change.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.hooks.calls import call
from ganeti_steward.core.hooks.child import program_child
from ganeti_steward.core.hooks.isolation import Isolated
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.plugins.maintenance.edges.outlet import Outlet
from ganeti_steward.plugins.maintenance.engine.decision import Change
from ganeti_steward.plugins.model.task import Held

if TYPE_CHECKING:
    from pluggy import HookImpl

    from ganeti_steward.core.config.values import Config


_Item = TypeVar("_Item")

#: Things that may wait; those that come then are dropped.
WAITING: Final = 1000


class Background(Generic[_Item]):
    """Notifies one plugin in order, in a thread that comes and goes; used by several threads."""

    def __init__(self, name: str, work: Callable[[_Item], None], waiting: int = WAITING) -> None:
        """``name``: of what is notified; ``waiting``: things that may wait."""
        self._name, self._work, self._limit = name, work, waiting
        self._lock = threading.Lock()
        self._waiting = deque[_Item]()
        self._thread: threading.Thread | None = None
        self._room, self._outlet = (
            Outlet(f"notifying {name} waits"),
            Outlet(f"notifying {name} fails"),
        )

    @property
    def problems(self) -> tuple[Held, ...]:
        """What fails at present."""
        return *self._room.problems, *self._outlet.problems

    def put(self, item: _Item) -> None:
        """Have it done; never waits, raises nothing."""
        with self._lock:
            self._room(partial(self._put, item), None)

    def _put(self, item: _Item) -> None:
        if len(self._waiting) >= self._limit:
            raise StewardError(f"{self._limit} wait already, one is dropped")
        self._waiting.append(item)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"notifying {self._name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as err:
                # There are too many threads; the next item tries it again.
                raise StewardError(str(err)) from None
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                item = self._waiting.popleft()
            self._outlet(partial(self._work, item), None)

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


class Notifier:
    """Notifies all plugins, in the background."""

    def __init__(self, config: Config) -> None:
        """Load the built-in plugins; raises PluginError.

        Others are loaded for each change, so that they cannot keep the daemon from starting.
        """
        limit = config.plugins.time_limit
        built = Plugins(config, ()).implementations(HOOK)
        own = [Background(one.plugin_name, partial(_deliver, one, limit)) for one in built]
        names = [name for name in config.plugins.load if not built_in(name)]
        self._receivers = [*own, *(Background(name, _Foreign(config, name)) for name in names)]

    def notify(self, changes: Iterable[Change]) -> None:
        """Have every plugin notified of these changes, in this order; never waits."""
        for change in changes:
            for receiver in self._receivers:
                receiver.put(change)

    @property
    def problems(self) -> tuple[Held, ...]:
        """The plugins that are not notified at present."""
        return tuple(one for receiver in self._receivers for one in receiver.problems)

    def finish(self, seconds: float = LAST) -> None:
        """Wait until all are notified, for some seconds at most."""
        last = time.monotonic() + seconds
        for receiver in self._receivers:
            receiver.finish(max(last - time.monotonic(), 0))


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
