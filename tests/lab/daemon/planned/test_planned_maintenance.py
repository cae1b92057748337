"""All nodes but the master are rebooted one after the other, and no instance stops."""

from __future__ import annotations

import pytest

from ganeti_steward.plugins.model.incident import Incident

from ...cluster import until
from ...drbd_lab import NODES
from ..maintained_lab import MaintainedLab

pytestmark = pytest.mark.thorough

INSTANCES = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "drbd", "node3.lab:node4.lab"),
    ("inst3.lab", "diskless", "node4.lab"),
    ("inst4.lab", "sharedfile", "node5.lab"),
    ("inst5.lab", "ext", "node6.lab"),
)


def states(lab: MaintainedLab) -> dict[str, str]:
    """Node -> how far its maintenance is, as the command prints it."""
    done = lab.steward(
        "maintenance", "list", "--no-headers", "--separator", "|", "-o", "node,state"
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("|") for line in done.stdout.splitlines())


def reboot(lab: MaintainedLab, node: str) -> None:
    """What an admin does; nothing runs there."""
    assert lab.running(node) == set()
    lab.power_off(node)
    lab.power_on(node)
    done = lab.steward("maintenance", "done", node)
    assert done.returncode == 0, done.stdout + done.stderr


def homes(lab: MaintainedLab) -> dict[str, list[object]]:
    """Node -> its primaries, and whether it is drained."""
    return {name: lab.node(name, "pinst_list", "drained") for name in NODES}


def test_a_roll(maintained: MaintainedLab) -> None:
    lab, rebooted, seen = maintained, list[str](), dict[str, Incident]()
    lab.place(*INSTANCES)
    before = homes(lab)
    with lab.daemon():
        done = lab.steward("maintenance", "roll", "--all", "--reason", "kernel")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "node1.lab is left out: it is the master" in done.stderr

        def over() -> bool:
            seen.update(lab.incidents)
            now = states(lab)
            assert not {"failed", "canceled"} & {*now.values()}, now
            for node in (one for one, state in now.items() if state == "ready"):
                if node not in rebooted:
                    rebooted.append(node)
                    reboot(lab, node)
            return len(rebooted) == len(NODES) - 1 and {*now.values()} <= {"done"}

        until(over, 1200)
    assert sorted(rebooted) == [*NODES[1:]]
    assert homes(lab) == before
    assert {kind for one in seen.values() for kind in lab.operations(one)} <= {
        "OP_NODE_SET_PARAMS",
        "OP_INSTANCE_MIGRATE",
        "OP_INSTANCE_ACTIVATE_DISKS",
        "OP_TAGS_DEL",
    }
    assert {(one, state) for one in NODES for state in lab.running(one)} == {
        (nodes.partition(":")[0], name) for name, _, nodes in INSTANCES
    }
