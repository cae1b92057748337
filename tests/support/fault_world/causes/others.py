"""Jobs of others: Ganeti's watcher and harep, and owners of instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fault_world.faults import Fault
    from fault_world.world import World

Row = dict[str, Any]


def submit(world: World, jobs: Sequence[Sequence[Row]], source: str = "gnt:client") -> None:
    """Jobs of others are handed over, where luxid takes any."""
    luxid, reason = world.luxid, [[source, "", world.clock.now]]
    if luxid.running and not luxid.drained and jobs:
        luxid.submit([[{**op, "reason": reason} for op in job] for job in jobs])
        luxid.advance()


def locks_held(world: World, fault: Fault) -> None:
    """A job of an owner holds the lock of an instance for minutes."""
    if world.ganeti.has_instance(fault.subject):
        submit(world, [[{"OP_ID": "OP_BACKUP_EXPORT", "instance_name": fault.subject}]])


def watcher_runs(world: World, fault: Fault) -> None:
    """Instances that should run, and do not, are started where they are; disks are connected."""
    ganeti, jobs = world.ganeti, []
    for row in ganeti.instances:
        if row["admin_state"] != "up" or not _is_usable(world, row["pnode"]):
            continue
        name = row["name"]
        if not ganeti.runs[name]:
            jobs.append([{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": name}])
        elif row["snodes"] and len(ganeti.data[name].whole) < 2:
            jobs.append([{"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": name}])
    submit(world, jobs, "gnt:watcher")


def harep_runs(world: World, fault: Fault) -> None:
    """Instances whose primary is marked offline are started on their secondary."""
    ganeti = world.ganeti
    submit(
        world,
        [
            [{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": row["name"]}]
            for row in ganeti.instances
            if row["snodes"]
            and ganeti.node(row["pnode"])["offline"]
            and _is_usable(world, row["snodes"][0])
            # harep is run by people who know that the node is off.
            and row["pnode"] in ganeti.off
        ],
    )


def _is_usable(world: World, node: str) -> bool:
    return world.ganeti.answers(node) and not world.ganeti.node(node)["offline"]
