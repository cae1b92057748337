"""A synchronization that makes no progress: the maintenance that waits for it says so."""

from __future__ import annotations

from ...cluster import until
from ..faults.findings import says
from ..maintained_lab import MaintainedLab
from .rolling import homes, running
from .test_unfinished import ran

NODE = "node3.lab"
NAME = "inst1.lab"
#: The shortest time that can be configured, s; and so long a synchronization that Ganeti's steps of
#: 0.1 % do not move meanwhile.
STALLED_AFTER, ENDLESS = 60, 10**7


def test_a_maintenance_names_what_stalls_and_goes_on_after_it(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.place((NAME, "drbd", f"{NODE}:node2.lab"))
    before, where = homes(lab), running(lab)
    with lab.daemon(f"sync-stalled-after = {STALLED_AFTER}\nhealthy-delay = 1"):
        ran(lab, "start", NODE)
        assert f"{NODE}: ready" in ran(lab, "wait", NODE, "--timeout", "300")
        lab.storage("sync-time", str(ENDLESS))
        lab.storage("disconnect", NAME, node="node2.lab")
        ran(lab, "done", NODE)
        says(lab, f"{NAME}: its disks are being synchronized, for", "it stalls: no progress for")
        says(lab, "see /proc/drbd: minor", "before anything else")
        waits = ran(lab, "list", "--no-headers", "-o", "waits")
        assert "it stalls: no progress for" in waits
        assert "what helps:" in waits
        # A person has it begin again.
        lab.storage("sync-time", "1")
        lab.storage("disconnect", NAME, node="node2.lab")
        until(lambda: (homes(lab), running(lab)) == (before, where))
        until(lambda: lab.node(NODE, "drained") == [False])
