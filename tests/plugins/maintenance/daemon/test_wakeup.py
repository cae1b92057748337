"""What ends a wait, and where a signal may end the work."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from ganeti_steward.plugins.maintenance.daemon.wakeup import DaemonStopped, Signals, Wakeup


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
