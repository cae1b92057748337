"""Calling a plugin so that nothing it does can hang or crash the caller.

Its exceptions become `PluginError` with its name; it is stopped after a time limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from itertools import chain, cycle
from types import FrameType
from typing import Final, TypeVar

from ganeti_steward.core.errors import PluginError

_T = TypeVar("_T")

#: Seconds a plugin has to clean up after its time-out before it is stopped again.
_CLEANING_UP: Final = 0.5

#: Seconds until a signal is repeated that came just before the process began to wait for
#: something: Python would not look at it before that wait is over.
_REPEATED: Final = 0.25

#: Seconds between the times it is stopped after that.  A plugin that swallows its time-out
#: in a loop is inside a ``try`` nearly always: it is stopped in quick succession, at ever
#: other moments of its handler, until one of them lies outside.
_SUCCESSION: Final = tuple(1e-6 * (5 + number * 7 % 150) for number in range(150))

#: The plugins being called, the innermost last.
_running: list[str] = []


class TimeLimitError(BaseException):
    """Raised inside an overrunning plugin; no ``except Exception`` stops it."""

    plugin = ""
    """the innermost plugin when the time was up"""


def call(plugin: str, limit: float, function: Callable[..., _T], /, **arguments: object) -> _T:
    """Call a plugin's function.

    ``limit`` is in seconds.  Calls may be nested; the limit that ends first counts.
    Raises PluginError when the plugin raises or overruns; a PluginError of an inner
    call passes through.  Without the main thread there is no limit.
    """
    _running.append(plugin)
    try:
        if threading.current_thread() is not threading.main_thread():
            return function(**arguments)
        return _call_timed(plugin, limit, function, arguments)
    except (PluginError, TimeLimitError, KeyboardInterrupt):
        raise
    except BaseException as err:
        # Also what is no Exception, as SystemExit: it must not end the caller unanswered.
        raise PluginError(plugin, f"failed: {sentence(err)}") from err
    finally:
        _running.pop()


def sentence(err: BaseException) -> str:
    """An exception on one line, whatever its own text does."""
    try:
        text = " ".join(str(err).split())
    except Exception:
        text = ""
    # Names of files may hold what cannot be written in an answer.
    text = text.encode(errors="backslashreplace").decode()
    return f"{type(err).__name__}: {text or 'no message'}"


def shown(value: object) -> str:
    """A plugin's value in a sentence, whatever its ``repr`` does."""
    try:
        text = ascii(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def _call_timed(
    plugin: str, limit: float, function: Callable[..., _T], arguments: dict[str, object]
) -> _T:
    outer = signal.setitimer(signal.ITIMER_REAL, 0)[0]
    if 0 < outer <= limit:
        signal.setitimer(signal.ITIMER_REAL, outer, _REPEATED)
        return function(**arguments)
    overrun, ended = TimeLimitError(), False
    # Nothing but C code: a ring that interrupts another one finds it in order.
    pauses = chain((_CLEANING_UP,), cycle(_SUCCESSION))

    def ring(number: int, frame: FrameType | None) -> None:
        if ended:
            return
        signal.setitimer(signal.ITIMER_REAL, next(pauses), _REPEATED)
        # The plugin's code is stopped, not this function around it.
        if frame is not None and frame.f_code not in (_call_timed.__code__, ring.__code__):
            overrun.plugin = overrun.plugin or _running[-1]
            raise overrun

    started = time.monotonic()
    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit, _REPEATED)
    try:
        result = function(**arguments)
    except TimeLimitError as err:
        if err is not overrun:
            raise
    finally:
        ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if outer:
            left = max(outer - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, _REPEATED)
    # What a plugin returns that swallowed its time-out is half done.
    if overrun.plugin:
        raise PluginError(overrun.plugin, _too_late(overrun.plugin, plugin, limit)) from None
    return result


def _too_late(stopped: str, owner: str, limit: float) -> str:
    if stopped == owner:
        return f"took longer than its {limit:g} s and was stopped"
    return f"was running when the {limit:g} s of {owner} were over and was stopped"
