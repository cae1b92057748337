"""The daemon does harep's work on a real cluster, and repairs disks."""

from __future__ import annotations

from typing import Final

from ..cluster import tagged, until
from .faults.findings import says
from .harep_runs import A, disks, dry_run, last_job, planned, tags_of
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
    lab.do(tagged("instance", "inst1.lab", f"{A}failover"))
    # Jobs before can be checks of another instance that had this name.
    first = last_job(lab)
    with lab.daemon(_DAEMON):
        checked(lab, "inst1.lab", first)
    lab.do(*(tagged("instance", f"inst{at}.lab", f"{A}failover") for at in (2, 3)))
    lab.storage("detach", "inst3.lab", node="node3.lab")
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


#: Routine work of the site that starts what is down on its other node.
_SITE: Final = """
from ganeti_steward.core import hookimpl
from ganeti_steward.plugins.model.task import Task


@hookimpl
def steward_routine(world):
    return [
        Task(
            "start",
            frozenset(one.nodes),
            frozenset({name}),
            f"start {name} elsewhere",
            [[{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": name}]],
            subject=name,
        )
        for name, one in sorted(world.instances.items())
        if one.nodes[0] == "node2.lab"
    ]
"""


def checked(lab: MaintainedLab, name: str, after: int) -> None:
    """Wait until a job after this one that checks the disks of an instance has succeeded."""
    query = ("job", "id", "status", "ops")
    until(
        lambda: any(
            int(number) > after and status == "success" and name in (one.get("instances") or ())
            for number, status, ops in lab.rows(*query)
            for one in ops
            if one["OP_ID"] == "OP_INSTANCE_QUERY_DATA"
        )
    )


def test_no_plugin_starts_an_old_copy(maintained: MaintainedLab) -> None:
    """The connection of inst2 is cut while its owner writes, and then its primary dies."""
    lab = maintained
    both = [
        ("inst1.lab", "drbd", "node2.lab:node3.lab"),
        ("inst2.lab", "drbd", "node2.lab:node3.lab"),
    ]
    lab.place(*both)
    lab.do(*(tagged("instance", name, f"{A}failover") for name, _, _ in both))
    with lab.plugins(site_start=_SITE) as load:
        more = _DAEMON.replace('["harep"]', '["harep", "site_start"]') + load
        with lab.daemon(_DAEMON):
            lab.storage("cut", "inst2.lab", node="node3.lab")
            says(lab, "inst2.lab was repaired", "has lost its connection", "replaced in")
            with lab.without_power("node2.lab"):
                lab.confirm_off("node2.lab")
                until(lambda: lab.nodes_of("inst1.lab")[0] == "node3.lab")
                says(lab, "harep inst2.lab", "old-copy", "gnt-instance failover inst2.lab")
        # A new daemon reads the last checks from the job queue.
        with lab.without_power("node2.lab"), lab.daemon(more):
            says(lab, "site_start inst2.lab", "harep inst2.lab", "has lost its connection")
            assert lab.nodes_of("inst2.lab") == ["node2.lab", "node3.lab"]
