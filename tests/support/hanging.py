"""Tests of what would never end if it were wrong: they run in a child process, which is ended."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from typing import Final, ParamSpec

_P = ParamSpec("_P")

#: Seconds; far more than such a test takes.
_LIMIT: Final = 240


def in_a_child(test: Callable[_P, None]) -> Callable[_P, None]:
    """The test, which fails also where it does not end; its own failures are printed."""

    @functools.wraps(test)
    def run(*arguments: _P.args, **more: _P.kwargs) -> None:
        child = multiprocessing.get_context("fork").Process(
            target=test, args=arguments, kwargs=more
        )
        child.start()
        child.join(_LIMIT)
        running = child.is_alive()
        child.kill()
        child.join()
        assert not running, "it does not end"
        assert child.exitcode == 0

    return run
