"""Nodes with boot ids of their own, and a repair command that ends with the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from ..maintained_lab import MaintainedLab

#: It ends with the node, which the test reboots.
COMMAND: Final = """#!/bin/sh
cat > /etc/ganeti/reboot-wanted
exec sleep 30
"""
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def boot_file(lab: MaintainedLab, node: str) -> Path:
    return lab.etc(node) / "boot-id"


@contextmanager
def bootable(lab: MaintainedLab, *nodes: str) -> Iterator[None]:
    """The nodes have boot ids of their own, and the command, until the end of the block."""
    for node in nodes:
        boot_file(lab, node).write_text(f"{uuid4()}\n")
        lab.on(node, "mount", "--bind", "/etc/ganeti/boot-id", BOOT_ID)
        command = lab.etc(node) / "node-repair-commands/lab-reboot"
        command.write_text(COMMAND)
        command.chmod(0o755)
        diagnose(lab, node)
    try:
        yield
    finally:
        for node in nodes:
            lab.on(node, "umount", BOOT_ID)


def wants_reboot(lab: MaintainedLab, node: str) -> bool:
    """Whether the command runs; once."""
    wanted = lab.etc(node) / "reboot-wanted"
    if not (wanted.exists() and wanted.read_text().endswith("}")):
        return False
    wanted.unlink()
    return True


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
