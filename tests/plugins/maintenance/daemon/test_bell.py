"""What ends a wait, and where a signal may end the work."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from ganeti_steward.plugins.maintenance.daemon.bell import Bell, Signals, Stopped


def test_a_ring_ends_one_wait() -> None:
    bell = Bell()
    for _ in range(100_000):
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)
    threading.Timer(0.1, bell.ring).start()
    began = time.monotonic()
    assert bell.wait(300)
    assert time.monotonic() - began < 100
    bell.close()


def test_a_signal_raises_only_where_it_may() -> None:
    signals = Signals(Bell())
    with signals.handled():
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.stopping
        with pytest.raises(Stopped), signals.interruptible():
            pytest.fail("nothing is begun any more")
        signals.stopping = False
        with pytest.raises(Stopped), signals.interruptible():
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.reload_requested
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
