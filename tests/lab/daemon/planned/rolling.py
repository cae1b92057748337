"""What the labs of planned maintenance share: instances, states, reboots, and downtime."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_steward.plugins.model.incident import Incident

from ...cluster import until
from ...drbd_lab import NODES
from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab

#: Those that can migrate: name, template, nodes.
MIGRATED = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "drbd", "node3.lab:node4.lab"),
    ("inst3.lab", "diskless", "node4.lab"),
    ("inst4.lab", "sharedfile", "node5.lab"),
    ("inst5.lab", "ext", "node6.lab"),
)
#: Those that cannot.
FIXED = (("inst6.lab", "plain", "node5.lab"), ("inst7.lab", "file", "node6.lab"))
#: All operations by which an instance that can migrate may be touched.
QUIET = {
    "OP_NODE_SET_PARAMS",
    "OP_INSTANCE_MIGRATE",
    "OP_INSTANCE_ACTIVATE_DISKS",
    "OP_TAGS_DEL",
    "OP_TAGS_SET",
}


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


def roll(lab: MaintainedLab, *options: str) -> None:
    """Request it for all nodes but the master."""
    done = lab.steward("maintenance", "roll", "--all", "--reason", "kernel", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node1.lab is left out: it is the master" in done.stderr


class Admin:
    """Reboots each node once it is ready."""

    def __init__(self, lab: MaintainedLab) -> None:
        self._lab = lab
        self.rebooted: list[str] = []
        self._seen: dict[str, Incident] = {}

    def over(self) -> bool:
        """Whether all nodes are done; what is ready is rebooted."""
        self._seen.update(self._lab.incidents)
        now = states(self._lab)
        assert not {"failed", "canceled"} & {*now.values()}, self._lab.story()
        for node in (one for one, state in now.items() if state == "ready"):
            if node not in self.rebooted:
                self.rebooted.append(node)
                reboot(self._lab, node)
        return len(self.rebooted) == len(NODES) - 1 and {*now.values()} <= {"done"}

    def looks(self, seconds: float) -> None:
        """Go on for so long, or until all is over."""
        last = time.monotonic() + seconds
        while time.monotonic() < last and not self.over():
            time.sleep(0.1)

    @property
    def operations(self) -> Counter[str]:
        """Operation -> how many all maintenances have submitted."""
        return Counter(name for one in self._seen.values() for name in self._lab.operations(one))

    def rolls(self, seconds: float = 1200) -> None:
        """Wait until all is over, each node rebooted once."""
        until(self.over, seconds)
        assert sorted(self.rebooted) == [*NODES[1:]]


def homes(lab: MaintainedLab) -> dict[str, list[object]]:
    """Node -> its primaries, and whether it is drained."""
    return {name: lab.node(name, "pinst_list", "drained") for name in NODES}


def running(lab: MaintainedLab) -> dict[str, str]:
    """Instance -> the node on which it really runs."""
    return {name: node for node in NODES for name in lab.running(node)}


def downtime(lab: MaintainedLab, runs: Runs, instance: str) -> float:
    """Seconds in which an instance ran nowhere, live migrations left out.

    The fake hypervisor ends an instance on the old node just before it begins on the new one.
    """
    own = list(_migrations(lab, instance))
    return sum(
        end - begin
        for begin, end in runs.absences(instance)
        if not any(started <= begin and end <= ended for started, ended in own)
    )


def _migrations(lab: MaintainedLab, instance: str) -> Iterator[tuple[float, float]]:
    """Begin and end of each job that has migrated it, s since the epoch."""
    fields = ("status", "ops", "start_ts", "end_ts")
    for row in lab.luxi.rows("job", fields):
        (operation, *more) = row["ops"]
        named = operation["OP_ID"] == "OP_INSTANCE_MIGRATE" and not more
        if named and operation["instance_name"] == instance and row["status"] == "success":
            yield _seconds(row, "start_ts"), _seconds(row, "end_ts")


def _seconds(row: Mapping[str, Any], field: str) -> float:
    seconds, microseconds = row[field]
    return float(seconds + microseconds / 10**6)
