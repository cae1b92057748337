"""How long the daemon waits between two rounds, what ends that, and where a signal may."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ganeti_steward.plugins.maintenance.daemon.wakeup import (
    DaemonStopped,
    Signals,
    Waiter,
    Wakeup,
)


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    wakeup = Wakeup()
    yield wakeup
    wakeup.close()


def waited(waiting: Waiter, seconds: float, ended: Callable[[], bool] | None = None) -> float:
    began = time.monotonic()
    waiting.wait(seconds, ended)
    return time.monotonic() - began


def test_the_interval(wakeup: Wakeup) -> None:
    signs: list[None] = []
    waiting = Waiter(Signals(wakeup), lambda: signs.append(None))
    assert 1.9 < waited(waiting, 2) < 10
    assert signs


def test_news_end_it_but_not_within_a_second(wakeup: Wakeup) -> None:
    waiting = Waiter(Signals(wakeup), lambda: None)
    wakeup.wake()
    assert 0.9 < waited(waiting, 60) < 10
    assert 0.9 < waited(waiting, 0) < 10


def test_a_job_that_has_ended_ends_it(wakeup: Wakeup) -> None:
    answers = iter([False, True])
    waiting = Waiter(Signals(wakeup), lambda: None)
    assert 1.9 < waited(waiting, 60, lambda: next(answers)) < 20


@pytest.mark.parametrize("name", ["stopping", "reload_requested"])
def test_a_signal_ends_it_at_once(wakeup: Wakeup, name: str) -> None:
    signals = Signals(wakeup)
    setattr(signals, name, True)
    assert waited(Waiter(signals, lambda: None), 60) < 0.5


def test_a_call_ends_one_wait() -> None:
    wakeup = Wakeup()
    for _ in range(100_000):
        wakeup.wake()
    assert wakeup.wait(0)
    assert not wakeup.wait(0)
    threading.Timer(0.1, wakeup.wake).start()
    began = time.monotonic()
    assert wakeup.wait(300)
    assert time.monotonic() - began < 100
    wakeup.close()


def test_a_signal_raises_only_where_it_may() -> None:
    signals = Signals(Wakeup())
    with signals.handled():
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.stopping
        with pytest.raises(DaemonStopped), signals.interruptible():
            pytest.fail("nothing is begun any more")
        signals.stopping = False
        with pytest.raises(DaemonStopped), signals.interruptible():
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.reload_requested
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
