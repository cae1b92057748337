"""Calling a plugin so that nothing it does can hang or crash the caller.

Its exceptions become `PluginError` with its name; it is stopped after a time limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

from ganeti_steward.core.errors import PluginError, StewardError

_T = TypeVar("_T")

#: A plugin that swallows its time-out is reminded this often, in seconds.
_REMINDER: Final = 0.5


class TimeLimitError(BaseException):
    """Raised inside an overrunning plugin; no ``except Exception`` stops it."""


def call(plugin: str, limit: float, function: Callable[..., _T], **arguments: object) -> _T:
    """Call a plugin's function.

    ``limit`` is in seconds.  Calls may be nested; the limit that ends first counts.
    Raises PluginError when the plugin raises or overruns; a StewardError of an inner
    call passes through.  Without the main thread there is no limit.
    """
    try:
        if threading.current_thread() is not threading.main_thread():
            return function(**arguments)
        return _call_timed(plugin, limit, function, arguments)
    except StewardError:
        raise
    except (Exception, SystemExit) as err:
        text = " ".join(str(err).split()) or "no message"
        raise PluginError(plugin, f"failed: {type(err).__name__}: {text}") from err


def _call_timed(
    plugin: str, limit: float, function: Callable[..., _T], arguments: dict[str, object]
) -> _T:
    outer = signal.getitimer(signal.ITIMER_REAL)[0]
    if 0 < outer <= limit:
        return function(**arguments)
    overrun = TimeLimitError()

    def ring(number: int, frame: FrameType | None) -> None:
        raise overrun

    started = time.monotonic()
    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit, _REMINDER)
    try:
        return function(**arguments)
    except TimeLimitError as err:
        if err is not overrun:
            raise
        raise PluginError(plugin, f"took longer than its {limit:g} s and was stopped") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if outer:
            left = max(outer - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, _REMINDER)
