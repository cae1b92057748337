"""Ctrl-C ends a lab, whether it is up or not yet."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from interrupted import Interrupted

from ..conftest import lacking

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


def labs(run: Interrupted) -> list[Path]:
    """Directories and network namespaces of the run's labs."""
    name = f"ganetistewardhanging-{run.process.pid}-*"
    return [*Path("/var/lib").glob(name), *Path("/run/netns").glob(name)]


@pytest.mark.parametrize("whom", ["contrib/test", "the main process of pytest"])
@pytest.mark.parametrize("is_up", [True, False])
def test_an_interrupt_ends_the_lab(tmp_path: Path, whom: str, is_up: bool) -> None:
    with Interrupted(tmp_path / "notes", "test_hangs_in_a_lab") as run:
        if is_up:
            run.wait_until_started(1)
        while len(labs(run)) < 2:
            assert run.process.poll() is None, run.process.communicate()[0]
            time.sleep(0.02)
        run.interrupt(whom)
        run.end()
        assert labs(run) == []
        assert run.left() == []
