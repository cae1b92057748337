"""A master that is cut off from some of seven nodes, with the fewer ones or the more ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from ..conftest import brought_up
from ..maintained_lab import MaintainedLab
from ..node_files import FENCING
from .breaking import power_program, unreachable
from .findings import all_well, during, says
from .watched import Runs

pytestmark = pytest.mark.thorough

#: Seconds for which the nodes are looked at while they are cut off.
CUT_OFF: Final = 60


@pytest.fixture(scope="module")
def maintained() -> Iterator[MaintainedLab]:
    """In place of the usual lab, which has six nodes."""
    with brought_up(MaintainedLab("seven", 7)) as lab:
        yield lab


@pytest.mark.parametrize("number", [3, 4])
def test_nothing_is_switched_off_and_all_run_on(
    maintained: MaintainedLab, runs: Runs, number: int
) -> None:
    lab = maintained
    others = lab.nodes[-number:]
    placed = {f"inst{at}.lab": node for at, node in enumerate(lab.nodes, 1)}
    lab.place(*((name, "ext", node) for name, node in placed.items()))
    with power_program(lab), lab.daemon(f"dead-after = 5\n{FENCING}"):
        with unreachable(lab, *others):
            says(lab, f"nothing of {', '.join(others)} answers: this node or a network")
            during(
                CUT_OFF,
                lambda: all(runs.nodes(name) == {node} for name, node in placed.items()),
                lab,
            )
        assert "OP_OOB_COMMAND" not in str(lab.rows("job", "ops"))
    assert lab.incidents == {}
    assert all_well(lab, runs) == {}
