"""The daemon has nodes rebooted by a command of their agents, and knows them by their boot ids."""

from __future__ import annotations

import pytest

from ...cluster import until
from ..maintained_lab import MaintainedLab
from .booting import bootable, reboot, wants_reboot
from .rolling import states

pytestmark = pytest.mark.thorough

ROLLED = ("node2.lab", "node3.lab", "node6.lab")
INSTANCES = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "drbd", "node3.lab:node6.lab"),
    ("inst3.lab", "diskless", "node6.lab"),
)


def test_one_command_reboots_all(maintained: MaintainedLab) -> None:
    lab, rebooted = maintained, list[str]()
    lab.place(*INSTANCES)
    homes = {name: lab.node(name, "pinst_list", "drained") for name in ROLLED}
    with bootable(lab, *ROLLED), lab.daemon():
        done = lab.steward("maintenance", "start", *ROLLED, "--work", "command:lab-reboot")
        assert done.returncode == 0, done.stdout + done.stderr

        def over() -> bool:
            now = states(lab)
            assert not {"failed", "canceled"} & {*now.values()}, lab.story()
            for node in ROLLED:
                if wants_reboot(lab, node):
                    assert now[node] == "working", now
                    rebooted.append(node)
                    reboot(lab, node)
            return {*now.values()} == {"done"}

        until(over, 600)
    assert sorted(rebooted) == [*ROLLED]
    assert {name: lab.node(name, "pinst_list", "drained") for name in ROLLED} == homes
    assert {(one, name) for one in ROLLED for name in lab.running(one)} == {
        (nodes.partition(":")[0], name) for name, _, nodes in INSTANCES
    }
