"""The daemon does harep's work on a real cluster, and repairs disks."""

from __future__ import annotations

from typing import Final

from ..cluster import tagged, until
from .harep_runs import A, disks, dry_run, planned, tags_of
from .maintained_lab import MaintainedLab

_DAEMON: Final = """
routine = ["harep"]
[harep]
iallocator = "hail"
job-delay = 1
disk-check-interval = 1
"""


def test_a_node_that_is_down_and_a_degraded_disk(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node3.lab"),
        ("inst2.lab", "plain", "node2.lab"),
        ("inst3.lab", "drbd", "node1.lab:node3.lab"),
    )
    lab.do(*(tagged("instance", f"inst{at}.lab", f"{A}failover") for at in (1, 2, 3)))
    lab.storage("detach", "inst3.lab", node="node3.lab")
    lab.configure_daemon(_DAEMON)
    with lab.without_power("node2.lab"):
        held = lab.steward("maintd", "plan").stdout
        assert "node2.lab is offline, and whether inst1.lab still runs there is not known" in held
        assert [*planned(held)] == ["inst2.lab"]
        lab.confirm_off("node2.lab")
        text = lab.steward("maintd", "plan").stdout
        assert "check the disks of instances on node1.lab" in text
        plan = planned(text)
        assert plan == dry_run(lab.ok("harep -L --dry-run --job-delay=1").text)
        assert [*plan] == ["inst1.lab", "inst2.lab"]
        with lab.daemon(_DAEMON):
            until(lambda: "result:failover:ID:TIME:success:JOBS" in tags_of(lab, "inst1.lab"))
            until(lambda: "result:fix-storage:ID:TIME:success:JOBS" in tags_of(lab, "inst3.lab"))
        # Its secondary is lost now, and may have been replaced meanwhile.
        assert lab.nodes_of("inst1.lab")[0] == "node3.lab"
        assert tags_of(lab, "inst2.lab") == ["failover", "result:reinstall:ID:TIME:enoperm:"]
        assert not disks(lab, "inst3.lab")["inst3.lab"].faults
