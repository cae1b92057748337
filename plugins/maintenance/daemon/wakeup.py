"""What wakes the loop, signals and news from other threads, and how it waits between rounds."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: Seconds from the end of one round to the next, at least, however much news there is.
_LEAST_PAUSE: Final = 1.0

#: Seconds between two looks at the jobs that are waited for: at first, and at most.
_FIRST_LOOK: Final = 1.0
_LAST_LOOK: Final = 5.0

#: Seconds a wait takes at most before it is shown that the daemon lives.
_SIGN_OF_LIFE: Final = 30.0

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class DaemonStopped(BaseException):
    """The daemon is to end: raised by a signal where nothing is left half done.

    No Exception, so that no part of a round takes it for a fault of its own.
    """


class Wakeup:
    """Wakes a thread that waits; other threads and signal handlers may use it."""

    def __init__(self) -> None:
        self._receiver, self._sender = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._receiver, select.POLLIN)

    def wake(self) -> None:
        """End the current wait, or the next one at once."""
        with suppress(BlockingIOError):
            os.write(self._sender, b"\0")

    def wait(self, seconds: float) -> bool:
        """Wait until it is woken; False when it was not within the time."""
        woken = bool(self._poll.poll(max(seconds, 0) * 1000))
        with suppress(BlockingIOError):
            while os.read(self._receiver, 4096):
                pass
        return woken

    def close(self) -> None:
        """Free its descriptors."""
        os.close(self._receiver)
        os.close(self._sender)


class Signals:
    """SIGTERM and SIGINT end the daemon, SIGHUP makes it read its configuration again."""

    def __init__(self, wakeup: Wakeup, *, hangup_ends: bool = False) -> None:
        """``hangup_ends``: SIGHUP, of a terminal that is closed, ends it unless it is ignored."""
        self.wakeup = wakeup
        self._hangup_ends = hangup_ends
        self._interruptible = False
        self.stopping = False
        self.reload_requested = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals meanwhile; in the main thread only."""
        handlers = dict.fromkeys(_ENDING, self._end)
        if not self._hangup_ends:
            handlers[signal.SIGHUP] = self._reload
        elif signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            handlers[signal.SIGHUP] = self._end
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A part that changes nothing: a signal that ends the daemon raises Stopped in it."""
        self._interruptible = True
        try:
            self._check()
            yield
            # A plugin may have swallowed what the handler raised.
            self._check()
        finally:
            self._interruptible = False

    def _check(self) -> None:
        if self.stopping:
            raise DaemonStopped

    def _end(self, *_: object) -> None:
        self.stopping = True
        self.wakeup.wake()
        if self._interruptible:
            raise DaemonStopped

    def _reload(self, *_: object) -> None:
        self.reload_requested = True
        self.wakeup.wake()


class Waiter:
    """Waits between rounds."""

    def __init__(
        self,
        signals: Signals,
        alive: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``alive`` is called at least every half minute; ``monotonic``: s."""
        self._signals, self._alive, self._monotonic = signals, alive, monotonic

    def wait(self, seconds: float, ended: Callable[[], bool] | None) -> None:
        """Wait for so long at most, and for a second at least unless a signal comes.

        ``ended``: whether a job that is waited for has ended; None: there is none.
        """
        began = self._monotonic()
        until, look = began + seconds, _FIRST_LOOK
        while (left := until - self._monotonic()) > 0 and not self._is_called():
            self._alive()
            woken = self._signals.wakeup.wait(min(left, look if ended else left, _SIGN_OF_LIFE))
            if woken or (ended and ended()):
                break
            look = min(look * 1.3, _LAST_LOOK)
        while (left := began + _LEAST_PAUSE - self._monotonic()) > 0 and not self._is_called():
            self._signals.wakeup.wait(left)

    def _is_called(self) -> bool:
        return self._signals.stopping or self._signals.reload_requested
