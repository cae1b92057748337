"""Which calls are under way in a child, by its reports, and which of them is overdue.

Times are those of one monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.channel import BadMessageError, Begin, End
from ganeti_steward.core.hooks.timed_call import too_late

#: Seconds the child may take where no plugin is called: it starts, or checks a result.
BETWEEN: Final = 30.0

#: Seconds a call may be given, and a question may take: a plugin can write reports of calls.
LONGEST_CALL: Final = 3600.0
LONGEST: Final = 2 * LONGEST_CALL

#: Calls under way at a time.
_DEEPEST: Final = 100


class _Call(NamedTuple):
    plugin: str
    limit: float
    """seconds"""
    deadline: float


class Watch:
    """The calls of one child, the innermost last."""

    def __init__(self, names: str, built_in: Callable[[str], object]) -> None:
        """``names``: what a fault is about before any plugin was called."""
        self._calls: list[_Call] = []
        self._last, self._built_in = names, built_in
        self._since = self._last_moment = 0.0

    def start(self, now: float) -> None:
        """A question is sent: no call is under way."""
        self._calls.clear()
        self._since, self._last_moment = now, now + LONGEST

    def take(self, message: Begin | End, now: float) -> None:
        """A call has begun, or the innermost one has ended; raises BadMessageError."""
        self._since = now
        if isinstance(message, Begin):
            plugin, limit = message
            if not 0 < limit <= LONGEST_CALL or len(self._calls) >= _DEEPEST:
                raise BadMessageError("it reports a call that cannot be")
            self._calls.append(_Call(plugin, limit, now + limit))
            if not self._built_in(plugin):
                self._last = plugin
        elif self._calls:
            self._calls.pop()

    def deadline(self) -> float:
        """When the child has to be stopped unless it reports something before."""
        first = min((call.deadline for call in self._calls), default=self._since + BETWEEN)
        return min(first, self._last_moment)

    def overdue(self, now: float) -> PluginError | None:
        """Why the child has to be stopped now; None while it need not."""
        if now < self.deadline():
            return None
        if now >= self._last_moment:
            return PluginError(self.suspect, too_late(self.suspect, self.suspect, LONGEST))
        if not self._calls:
            return PluginError(self._last, too_late(self._last, self._last, BETWEEN))
        owner = min(self._calls, key=lambda call: call.deadline)
        stopped = self._calls[-1].plugin
        return PluginError(stopped, too_late(stopped, owner.plugin, owner.limit))

    @property
    def suspect(self) -> str:
        """The plugin a crash is put down to: the innermost call's, unless that is built in.

        A built-in plugin does not crash; a thread of one that was called before may.
        """
        innermost = self._calls[-1].plugin if self._calls else self._last
        return self._last if self._built_in(innermost) else innermost
