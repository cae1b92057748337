"""The thread of the agent that has the node diagnosed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from programs import wait_until

from ganeti_steward.diagnose.agent.launcher import Diagnosing

if TYPE_CHECKING:
    import pytest


def test_it_goes_on_without_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever one run ends by, the next one is begun."""
    monkeypatch.setattr(logging.getLogger("ganeti_steward"), "propagate", True)
    taken: list[bytes] = []

    def take(raw: bytes) -> None:
        taken.append(raw)
        raise MemoryError

    thread = Diagnosing(lambda: b"report", take, 0.01)
    thread.start()
    try:
        wait_until(lambda: len(taken) > 2, "another run")
    finally:
        thread.stop()
        thread.join()
    assert "the self-diagnosis failed: MemoryError: no message" in caplog.messages
