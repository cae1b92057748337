"""Asking a disk that may not answer any more, without waiting for it for ever."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

_Answer = TypeVar("_Answer")

#: Seconds; a disk that is only slow has answered by then.
_PATIENCE: Final = 0.5


class Ask(Protocol):
    """Gets the answer to a question."""

    def __call__(self, question: Callable[[], _Answer], /) -> _Answer:
        """The answer; raises what the question raises."""


def at_once(question: Callable[[], _Answer], /) -> _Answer:
    """Ask without a limit."""
    return question()


class Patience:
    """Has its questions answered by a thread of its own, one at a time.

    Where an answer does not come in time, TimeoutError is raised, which is an OSError; and
    at once as long as it has not come: threads that wait for a dead disk cannot be ended, so
    there is never more than one.
    """

    def __init__(self, seconds: float = _PATIENCE) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._questions: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._last: Future[Any] | None = None

    def __call__(self, question: Callable[[], _Answer], /) -> _Answer:
        """The answer; raises TimeoutError and what the question raises."""
        with self._lock:
            if self._last is None:
                threading.Thread(target=self._work, name="patience", daemon=True).start()
            elif not self._last.done():
                raise _no_answer()
            answer: Future[_Answer] = Future()
            self._last = answer
            self._questions.put((question, answer))
            try:
                return answer.result(self._seconds)
            except TimeoutError:
                if answer.done():
                    raise
                raise _no_answer() from None

    def _work(self) -> None:
        while True:
            question, answer = self._questions.get()
            try:
                answer.set_result(question())
            except BaseException as err:
                answer.set_exception(err)


def _no_answer() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "no answer")
