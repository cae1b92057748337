"""A lab with DRBD and node agents, for the tests of the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ..conftest import lacking
from .faults.watched import Runs
from .maintained_lab import MaintainedLab


@contextmanager
def brought_up(lab: MaintainedLab) -> Iterator[MaintainedLab]:
    """A lab with agents, until the end of the block."""
    if reason := lacking():
        pytest.skip(reason)
    try:
        lab.make()
        lab.install_steward()
        lab.start_agents()
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="session")
def maintained() -> Iterator[MaintainedLab]:
    with brought_up(MaintainedLab("drbd")) as lab:
        yield lab


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
