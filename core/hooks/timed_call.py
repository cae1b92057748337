"""Calls of plugins, each with a time limit; whatever a plugin raises becomes `PluginError`.

In the process that answers by itself only built-in plugins run: an alarm ends the outermost
call.  In a child (`ganeti_steward.core.hooks.isolation`) every call is reported to the parent,
which ends the child.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, Protocol, TypeVar

from ganeti_steward.core.errors import PluginError

_T = TypeVar("_T")


class Reporter(Protocol):
    """Reports the calls of this process to its parent."""

    def begin(self, plugin: str, limit: float) -> None:
        """A plugin is called; it may take ``limit`` seconds."""

    def end(self) -> None:
        """The call that began last has ended."""


#: Where calls are reported, in a child whose parent keeps the limits.
_reporter: Reporter | None = None


class _TimeIsUp(BaseException):
    """Raised by the alarm; no ``except Exception`` stops it."""


def report_to(reporter: Reporter) -> None:
    """Report all calls of this process; the parent alone limits them."""
    global _reporter  # noqa: PLW0603 - a process has one parent
    _reporter = reporter


def call(plugin: str, limit: float, function: Callable[..., _T], /, **arguments: object) -> _T:
    """Call a plugin's function.

    ``limit`` is in seconds.  Raises PluginError when the plugin raises or overruns; a
    PluginError of an inner call passes through.  Outside the main thread there is no limit.
    """
    try:
        end = _begin(plugin, limit)
        try:
            return function(**arguments)
        finally:
            end()
    except PluginError:
        raise
    except _TimeIsUp:
        raise PluginError(plugin, too_late(plugin, plugin, limit)) from None
    except BaseException as err:
        if isinstance(err, KeyboardInterrupt) and not _reporter:
            # The user's.  A child has no terminal: there it is the plugin's.
            raise
        # Also SystemExit: it must not end the caller unanswered.
        raise PluginError(plugin, f"failed: {sentence(err)}") from err


def _begin(plugin: str, limit: float) -> Callable[[], object]:
    """Report a call, or set the alarm of the outermost one; what is called at its end."""
    if _reporter:
        _reporter.begin(plugin, limit)
        return _reporter.end
    nested = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    if nested or threading.current_thread() is not threading.main_thread():
        return lambda: None
    previous = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, limit)

    def end() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)

    return end


def _ring(number: int, frame: FrameType | None) -> NoReturn:
    raise _TimeIsUp


def too_late(stopped: str, owner: str, limit: float) -> str:
    """Why a plugin was stopped: the ``limit`` seconds of ``owner`` were over."""
    if stopped == owner:
        return f"took longer than its {limit:g} s and was stopped"
    return f"was running when the {limit:g} s of {owner} were over and was stopped"


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
