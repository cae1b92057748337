"""What the labs of planned maintenance share: instances, states, reboots, and downtime."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ganeti_steward.plugins.model.incident import Incident

from ...cluster import until
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
    printed = typed(lab, "maintenance list --no-headers --separator | -o node,state")
    return dict(line.split("|") for line in printed.splitlines())


def typed(lab: MaintainedLab, line: str) -> str:
    """What a command of gnt-steward prints on the master; it must succeed."""
    done = lab.steward(*line.split(), node=lab.master)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def reboot(lab: MaintainedLab, node: str) -> None:
    """What an admin does; nothing runs there."""
    assert lab.running(node) == set()
    lab.power_off(node)
    lab.power_on(node)
    typed(lab, f"maintenance done {node}")


def roll(lab: MaintainedLab, *options: str) -> None:
    """Request it for all nodes; unless an option says so, not for the master."""
    done = lab.steward("maintenance", "roll", "--all", "--reason", "kernel", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    left_out = "node1.lab is left out: it is the master" in done.stderr
    assert left_out != ("--with-master" in options)


class Admin:
    """Reboots each node once it is ready."""

    def __init__(self, lab: MaintainedLab, *nodes: str) -> None:
        """``nodes``: those for which it was requested; all but the first one: none given."""
        self._lab = lab
        self._nodes = nodes or lab.nodes[1:]
        self.rebooted: list[str] = []
        self._seen: dict[str, Incident] = {}

    def over(self) -> bool:
        """Whether all nodes are done; what is ready is rebooted."""
        found = self._lab.incidents.items()
        self._seen |= {uuid: one for uuid, one in found if one.node_name in self._nodes}
        now = states(self._lab)
        assert not {"failed", "canceled"} & {*now.values()}, self._lab.story()
        for node in (one for one, state in now.items() if state == "ready"):
            if node not in self.rebooted:
                self.rebooted.append(node)
                reboot(self._lab, node)
        return {*self.rebooted} == {*self._nodes} and all(
            now.get(node, "done") == "done" for node in self._nodes
        )

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
        assert sorted(self.rebooted) == sorted(self._nodes)


def homes(lab: MaintainedLab) -> dict[str, list[object]]:
    """Node -> its primaries, and whether it is drained."""
    return {name: lab.node(name, "pinst_list", "drained") for name in lab.nodes}


def running(lab: MaintainedLab) -> dict[str, str]:
    """Instance -> the node on which it really runs."""
    return {name: node for node in lab.nodes for name in lab.running(node)}


class Migrated(NamedTuple):
    """One live migration."""

    instance: str
    begin: float
    """s since the epoch"""
    end: float
    """s since the epoch"""


def downtime(
    lab: MaintainedLab, runs: Runs, instance: str, earlier: Iterable[Migrated] = ()
) -> float:
    """Seconds in which an instance ran nowhere, live migrations left out.

    The fake hypervisor ends an instance on the old node just before it begins on the new one.
    ``earlier``: those that the queue of this master may not have.
    """
    own = [one for one in (*earlier, *migrated(lab)) if one.instance == instance]
    return sum(
        end - begin
        for begin, end in runs.absences(instance)
        if not any(one.begin <= begin and end <= one.end for one in own)
    )


def migrated(lab: MaintainedLab) -> list[Migrated]:
    """The live migrations that the queue of this master has.

    A node has no jobs of the time in which it was not a master candidate.
    """
    fields = ("status", "ops", "start_ts", "end_ts")
    return [
        Migrated(one["instance_name"], _seconds(row, "start_ts"), _seconds(row, "end_ts"))
        for row in lab.luxi.rows("job", fields)
        for one in row["ops"]
        # The same job sets or removes the tag that remembers where the instance comes from.
        if one["OP_ID"] == "OP_INSTANCE_MIGRATE" and row["status"] == "success"
    ]


def _seconds(row: Mapping[str, Any], field: str) -> float:
    seconds, microseconds = row[field]
    return float(seconds + microseconds / 10**6)
