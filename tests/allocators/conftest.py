"""What tests beside the htools need."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from installed import need

from ganeti_steward.allocators.state import load as reading
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.frame import Frame


@pytest.fixture
def htools_n1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steward judges N+1 of a cluster that it reads as the installed htools do.

    Before 3.1.0 they compare the memory that a node reports as free, and only there.
    """
    done = subprocess.run([need("hbal"), "--version"], capture_output=True, check=True, text=True)
    found = re.search(r"version ([0-9]+)\.([0-9]+)", done.stdout)
    assert found, done.stdout
    if (int(found[1]), int(found[2])) >= (3, 1):
        return
    fill = reading._fill_memory

    def filled(now: Any, frame: Frame, *rest: Any) -> None:
        fill(now, frame, *rest)
        free = [node.free_memory for node in frame.cluster.nodes]
        now[quantity.FAILS] = free < now[quantity.RESERVED]

    monkeypatch.setattr(reading, "_fill_memory", filled)
