"""The master dies: a person has another node be it, and the daemon there does the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED, DEAD

from ..conftest import brought_up
from ..maintained_lab import MaintainedLab
from ..node_files import FENCING
from .breaking import power_program, unreachable
from .findings import ignores_consistency, witnessed
from .watched import Runs

pytestmark = pytest.mark.thorough

OLD: Final = "node1.lab"
NEW: Final = "node2.lab"


@pytest.fixture(scope="module")
def maintained() -> Iterator[MaintainedLab]:
    """A lab of its own: others begin with the first master."""
    with brought_up(MaintainedLab("master")) as lab:
        yield lab


def test_the_instances_of_a_dead_master_come_back(maintained: MaintainedLab, runs: Runs) -> None:
    lab = maintained
    lab.place(("inst1.lab", "ext", OLD), ("inst2.lab", "ext", "node4.lab"))
    info = lab.luxi.info()
    own = lab.on(NEW, "getent", "hosts", info["name"]).split()[0]
    with power_program(lab) as power, unreachable(lab, OLD):
        lab.on(NEW, str(power / "oob"), "power-off", OLD)
        # The address of the cluster goes with its master.
        lab.on(NEW, "ip", "addr", "del", f"{own}/24", "dev", info["master_netdev"])
        lab.fail_over(NEW)
        with lab.daemon(f"dead-after = 5\n{FENCING}", node=NEW):
            witnessed(lab, OLD, lambda: runs.now("inst1.lab") not in ([], [OLD]))
            incident = lab.ended(OLD, COMPLETED)
        assert incident.action == DEAD
        assert lab.node(OLD, "offline", "pinst_cnt") == [True, 0]
        assert runs.nodes("inst2.lab") == {"node4.lab"}
        assert ignores_consistency(lab) == []
