"""The only wait of the daemon: for a job to end, news of an agent, a signal, or the interval."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ganeti_steward.plugins.maintenance.daemon.bell import Bell, Signals

#: Seconds from the end of one round to the next, at least, however much news there is.
_LEAST_PAUSE: Final = 1.0

#: Seconds between two looks at the jobs that are waited for: at first, and at most.
_FIRST_LOOK: Final = 1.0
_LAST_LOOK: Final = 5.0

#: Seconds a wait takes at most before it is shown that the daemon lives.
_SIGN_OF_LIFE: Final = 30.0


class Waiting:
    """Waits between rounds."""

    def __init__(self, bell: Bell, signals: Signals, alive: Callable[[], None]) -> None:
        """``alive`` is called at least every half minute."""
        self._bell, self._signals, self._alive = bell, signals, alive

    def wait(self, seconds: float, ended: Callable[[], bool] | None) -> None:
        """Wait for so long at most, and for a second at least unless a signal comes.

        ``ended``: whether a job that is waited for has ended; None: there is none.
        """
        began = time.monotonic()
        until, look = began + seconds, _FIRST_LOOK
        while (left := until - time.monotonic()) > 0 and not self._is_called():
            self._alive()
            rung = self._bell.wait(min(left, look if ended else left, _SIGN_OF_LIFE))
            if rung or (ended and ended()):
                break
            look = min(look * 1.3, _LAST_LOOK)
        while (left := began + _LEAST_PAUSE - time.monotonic()) > 0 and not self._is_called():
            self._bell.wait(left)

    def _is_called(self) -> bool:
        return self._signals.stopping or self._signals.reload_requested
