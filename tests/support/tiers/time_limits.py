"""One time limit for each test, so that a fault that hangs a test fails it."""

from __future__ import annotations

import faulthandler
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Some tests replace the functions in their module.
from time import monotonic, sleep
from typing import Final

import pytest
from thorough import often

#: Seconds, with what the test's fixtures need; far more than any test takes under load.
LIMIT: Final = often(900, 36_000, 600)
#: Seconds more after which the process ends that hangs where Python cannot interrupt it.
GRACE: Final = 60


class Limits:
    """Watches the tests of this process.

    An alarm would be simpler, but it is what the program itself uses for calls with a limit.
    """

    def __init__(self) -> None:
        self._end = math.inf
        self._limit: float = LIMIT

    def start(self) -> None:
        """Watch from now on; called by the thread that runs the tests."""
        signal.signal(signal.SIGUSR2, self._fail)
        main = threading.get_ident()
        threading.Thread(target=self._watch, args=(main,), name="test limits", daemon=True).start()

    @contextmanager
    def limited(self, seconds: float = LIMIT) -> Iterator[None]:
        """Fail what has not ended within a number of seconds."""
        self._limit, self._end = seconds, monotonic() + seconds
        faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=2)
        try:
            yield
        finally:
            self._end = math.inf
            faulthandler.cancel_dump_traceback_later()

    def _watch(self, main: int) -> None:
        while True:
            sleep(0.5)
            if monotonic() > self._end:
                signal.pthread_kill(main, signal.SIGUSR2)

    def _fail(self, *_: object) -> None:
        if monotonic() > self._end:
            self._end = math.inf
            pytest.fail(f"the test has not ended after {self._limit:g} s")
