"""A lab with DRBD and node agents, for the tests of the daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..conftest import lacking
from .faults.watched import Runs
from .maintained_lab import MaintainedLab

#: Half of the scenarios take minutes.
_LONG = [
    "test_harep_differences.py",
    "test_harep_parity.py",
    "test_cancel.py",
    "test_crashes.py",
    "test_disturbances.py",
    "test_even_out.py",
    "test_faulty_storage.py",
    "faults/test_long_evacuations.py",
    "faults/test_killed_and_stopped.py",
]
collect_ignore = [] if os.environ.get("STEWARD_THOROUGH") else _LONG


@pytest.fixture(scope="session")
def maintained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLab]:
    if reason := lacking():
        pytest.skip(reason)
    lab = MaintainedLab(f"ganetistewarddrbd-{os.getpid()}")
    try:
        lab.make(Path())
        lab.install_steward()
        lab.start_agents()
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module", autouse=True)
def _as_found() -> None:
    """In place of the fixture of that name for the usual lab, which is not needed here."""


@pytest.fixture(autouse=True)
def runs(maintained: MaintainedLab, _clean: None) -> Iterator[Runs]:
    """Where instances really ran; in no test does one run on two nodes at any moment."""
    with maintained.watched() as found:
        yield found
    assert found.double == []


@pytest.fixture(autouse=True)
def _clean(maintained: MaintainedLab) -> Iterator[None]:
    yield
    # Shown where the test failed.
    print(maintained.story())
    maintained.reset()
