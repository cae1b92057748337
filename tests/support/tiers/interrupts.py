"""Ctrl-C, also of one process only, ends all workers and leaves nothing of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, Final

import psutil
import pytest

#: Seconds in which the workers end what they have started; then they are killed.  The test of it
#: gives them longer, as it may run on a machine that is busy.
TO_END: Final = float(os.environ.get("STEWARD_TO_END", "6"))

#: What a process does first when it is interrupted, such as ending its lab.
at_interrupt: Final = list[Callable[[], object]]()


class Once:
    """Raises KeyboardInterrupt at the first SIGINT only: another would disturb the cleaning up.

    A worker gets both the terminal's and that of the main process.
    """

    def __init__(self) -> None:
        self._interrupted = False

    def again(self) -> None:
        """Called before each test, as some tests interrupt themselves."""
        self._interrupted = False
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        if not self._interrupted:
            self._interrupted = True
            raise KeyboardInterrupt


class MainProcess:
    """Hands an interrupt on to all workers, wherever it arrived."""

    def __init__(self) -> None:
        self._family: list[psutil.Process] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if getattr(node, "workeroutput", {}).get("exitstatus") == pytest.ExitCode.INTERRUPTED:
            raise KeyboardInterrupt(f"{node.gateway.id} was interrupted")

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._family = psutil.Process().children(recursive=True)
        for worker in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                worker.send_signal(signal.SIGINT)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """xdist waits for the workers meanwhile."""
        if self._family:
            xdist: Any = session.config.pluginmanager.get_plugin("dsession")
            xdist.nodemanager.EXIT_TIMEOUT = TO_END
        yield
        _kill(self._family)


class Worker:
    """Ends first what would take long to end in order; the tests' own cleaning up follows."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for end in [*at_interrupt]:
            with suppress(Exception):
                end()
        _kill(psutil.Process().children(recursive=True))


def _kill(processes: Iterable[psutil.Process]) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.kill()
