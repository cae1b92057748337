"""Calls that read a disk, given up after a while: a dead disk may never answer."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

_Result = TypeVar("_Result")

#: Seconds; a disk that is only slow has answered by then.
_TIMEOUT: Final = 0.5


class CallDisk(Protocol):
    """Makes a call that reads a disk."""

    def __call__(self, function: Callable[[], _Result], /) -> _Result:
        """The function's result; raises what it raises."""


def without_timeout(function: Callable[[], _Result], /) -> _Result:
    """Make a call without a limit."""
    return function()


class DiskTimeout:
    """Makes each call in a thread that ends with it, one at a time.

    A call without a result in time raises TimeoutError, which is an OSError; so does every
    further call until the first one has ended: threads that wait for a dead disk cannot be
    ended, so there is never more than one.
    """

    def __init__(self, seconds: float = _TIMEOUT) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._last: Future[Any] | None = None

    def __call__(self, function: Callable[[], _Result], /) -> _Result:
        """The function's result; raises OSError and what the function raises."""
        with self._lock:
            if self._last is not None and not self._last.done():
                raise _no_answer()
            result = _started(function)
            self._last = result
            try:
                return result.result(self._seconds)
            except TimeoutError:
                if result.done():
                    raise
                raise _no_answer() from None


def _started(function: Callable[[], _Result]) -> Future[_Result]:
    """A call that has begun; raises OSError."""
    result: Future[_Result] = Future()
    try:
        threading.Thread(target=_call, args=(function, result), name="disk", daemon=True).start()
    except RuntimeError as err:
        # There are too many threads.
        raise OSError(errno.EAGAIN, str(err)) from None
    return result


def _call(function: Callable[[], _Result], result: Future[_Result]) -> None:
    try:
        result.set_result(function())
    except BaseException as err:
        result.set_exception(err)


def _no_answer() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "no answer")
