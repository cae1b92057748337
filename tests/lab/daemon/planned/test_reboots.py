"""The daemon has nodes rebooted by a command of their agents, and knows them by their boot ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from ...cluster import until
from ..maintained_lab import MaintainedLab
from .rolling import states

pytestmark = pytest.mark.thorough

ROLLED = ("node2.lab", "node3.lab", "node6.lab")
INSTANCES = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "drbd", "node3.lab:node6.lab"),
    ("inst3.lab", "diskless", "node6.lab"),
)
#: It ends with the node, which the test reboots.
COMMAND = """#!/bin/sh
cat > /etc/ganeti/reboot-wanted
exec sleep 30
"""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_file(lab: MaintainedLab, node: str) -> Path:
    return lab.etc(node) / "boot-id"


@contextmanager
def bootable(lab: MaintainedLab) -> Iterator[None]:
    """The nodes have boot ids of their own, and the command, until the end of the block."""
    for node in ROLLED:
        boot_file(lab, node).write_text(f"{uuid4()}\n")
        lab.on(node, "mount", "--bind", "/etc/ganeti/boot-id", BOOT_ID)
        command = lab.etc(node) / "node-repair-commands/lab-reboot"
        command.write_text(COMMAND)
        command.chmod(0o755)
        diagnose(lab, node)
    try:
        yield
    finally:
        for node in ROLLED:
            lab.on(node, "umount", BOOT_ID)


def diagnose(lab: MaintainedLab, node: str) -> None:
    """What cron does, and systemd after each boot."""
    lab.on(node, str(lab.programs / "gnt-steward"), "diagnose")


def reboot(lab: MaintainedLab, node: str) -> None:
    """Everything on the node ends, and is started again."""
    assert lab.running(node) == set()
    lab.kill_agent(node)
    lab.power_off(node)
    boot_file(lab, node).write_text(f"{uuid4()}\n")
    lab.power_on(node)
    lab.start_agent(node)
    diagnose(lab, node)


def test_one_command_reboots_all(maintained: MaintainedLab) -> None:
    lab, rebooted = maintained, list[str]()
    lab.place(*INSTANCES)
    homes = {name: lab.node(name, "pinst_list", "drained") for name in ROLLED}
    with bootable(lab), lab.daemon():
        done = lab.steward("maintenance", "start", *ROLLED, "--work", "command:lab-reboot")
        assert done.returncode == 0, done.stdout + done.stderr

        def over() -> bool:
            now = states(lab)
            assert not {"failed", "canceled"} & {*now.values()}, lab.story()
            for node in ROLLED:
                wanted = lab.etc(node) / "reboot-wanted"
                if wanted.exists() and wanted.read_text().endswith("}"):
                    assert now[node] == "working", now
                    wanted.unlink()
                    rebooted.append(node)
                    reboot(lab, node)
            return {*now.values()} == {"done"}

        until(over, 600)
    assert sorted(rebooted) == [*ROLLED]
    assert {name: lab.node(name, "pinst_list", "drained") for name in ROLLED} == homes
    assert {(one, name) for one in ROLLED for name in lab.running(one)} == {
        (nodes.partition(":")[0], name) for name, _, nodes in INSTANCES
    }
