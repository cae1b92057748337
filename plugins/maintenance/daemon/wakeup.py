"""What wakes the loop: signals, and news from other threads."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

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

    def __init__(self, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self._interruptible = False
        self.stopping = False
        self.reload_requested = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals meanwhile; in the main thread only."""
        handlers = dict.fromkeys(_ENDING, self._end) | {signal.SIGHUP: self._reload}
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
