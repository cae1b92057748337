"""What happens to luxid, to the daemon, to jobs, and who is the master."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_DNS, uuid5

from fault_world.clock import SECOND
from fault_world.old_luxid import OldLuxid
from ganeti_steward.plugins.model.incident import JOB_SOURCE

if TYPE_CHECKING:
    from fault_world.faults import Fault
    from fault_world.world import World


def lasting(world: World, fault: Fault) -> None:
    """Calls, reports and operations are different while it lasts, see `Faults`."""
    world.faults.active.append(fault)
    world.clock.after(fault.lasts, partial(world.faults.end, fault))


def luxid_restarts(world: World, fault: Fault) -> None:
    """Luxid ends, and is started again after a while."""
    world.luxid.stop()
    world.clock.after(fault.lasts, partial(_luxid_back, world))


def _luxid_back(world: World) -> None:
    if world.ganeti.master not in world.ganeti.off:
        world.luxid.start()


def daemon_killed(world: World, fault: Fault) -> None:
    """SIGKILL, wherever it is."""
    for daemon in world.daemons:
        daemon.process.kill()


def daemon_terminated(world: World, fault: Fault) -> None:
    """SIGTERM."""
    for daemon in world.daemons:
        daemon.terminate()


def daemon_stopped(world: World, fault: Fault) -> None:
    """SIGSTOP, and SIGCONT after a while."""
    for daemon in world.daemons:
        daemon.process.stop()
        world.clock.after(fault.lasts, daemon.process.go_on)


def master_failover(world: World, fault: Fault) -> None:
    """To a candidate that runs; the daemon on the old master gets no word of it."""
    ganeti = world.ganeti
    candidates = [row["name"] for row in ganeti.nodes if row["master_candidate"]]
    new = fault.subject
    away = ganeti.off | world.isolated
    if new != ganeti.master and new in candidates and new not in away:
        fail_over(world, new)


def fail_over(world: World, new: str) -> None:
    """A node becomes the master; what it runs for that ends 5 s before luxid answers there."""
    ganeti = world.ganeti
    for row in ganeti.nodes:
        row["master"] = row["name"] == new
    ganeti.info["master"] = new
    world.old_luxids.pop(new, None)
    ganeti.serial += 10
    world.luxid.stop()
    world.spread()
    world.clock.after(5, partial(_luxid_back, world))


def job_canceled(world: World, fault: Fault) -> None:
    """A person cancels a job that has not started."""
    queued = [n for n, row in world.luxid.queue.rows.items() if row["status"] == "queued"]
    if queued:
        world.luxid.queue.cancel(world.draw("canceled").choice(queued))


def jobs_archived(world: World, fault: Fault) -> None:
    """All jobs that have ended are archived."""
    for row in world.luxid.queue.rows.values():
        if row["end_ts"]:
            row["archived"] = True


def archived_at_once(world: World, fault: Fault) -> None:
    """Jobs are archived within seconds of their end, for a while; ``detail``: or removed."""
    end = world.clock.now + int(fault.lasts * SECOND)
    _archive_until(world, end, purges=fault.detail == "removed")


def _archive_until(world: World, end: int, *, purges: bool) -> None:
    for row in world.luxid.queue.rows.values():
        if row["end_ts"]:
            row["archived"] = True
    if purges:
        world.luxid.purge()
    if world.clock.now < end:
        world.clock.after(2, partial(_archive_until, world, end, purges=purges))


def master_left_behind(world: World, fault: Fault) -> None:
    """Another node becomes the master, and luxid of the old one goes on for a while.

    ``detail``: whether the old master is cut off from the others meanwhile, or reaches their node
    agents only.
    """
    old = world.ganeti.master
    before = OldLuxid(world)
    rows = [row for row in world.ganeti.nodes if row["master_candidate"] and not row["master"]]
    # A node that is cut off has no votes.
    away = world.ganeti.off | world.isolated
    names = [row["name"] for row in rows if row["name"] not in away]
    new = fault.subject if fault.subject in names else min(names, default="")
    if not new:
        return
    # It has the configuration that it wrote itself, and does not get the one by which another
    # node is the master.
    world.spread()
    for nodes in _CUT[fault.detail](world):
        nodes.add(old)
        world.clock.after(fault.lasts, partial(nodes.discard, old))
    master_failover(world, fault._replace(subject=new))
    world.old_luxids[old] = before
    world.clock.after(fault.lasts, partial(_old_luxid_ends, world, old))


#: What an old master does not reach, or reaches though it is cut off from all others.
_CUT: Final[Mapping[str, Callable[[World], Sequence[set[str]]]]] = {
    "cut-off": lambda world: (world.isolated,),
    "agents-only": lambda world: (world.isolated, world.reaches_agents),
    "reached": lambda world: (),
}


def _old_luxid_ends(world: World, node: str) -> None:
    world.old_luxids.pop(node, None)


def queue_drained(world: World, fault: Fault) -> None:
    """The queue takes no jobs for a while (gnt-cluster queue drain)."""
    world.luxid.drained = True
    world.clock.after(fault.lasts, partial(_undrained, world))


def _undrained(world: World) -> None:
    world.luxid.drained = False


#: What filter rules of a person do, and to which jobs: all, or those of the daemon.
FILTERS: Final = ("PAUSE all", "PAUSE daemon", "REJECT daemon", "REJECT moves")
_PREDICATES: Final[Mapping[str, list[Any]]] = {
    "all": [],
    "daemon": [["reason", ["=", "source", JOB_SOURCE]]],
    "moves": [["opcode", ["=", "OP_ID", "OP_INSTANCE_MIGRATE"]]],
}


def jobs_filtered(world: World, fault: Fault) -> None:
    """A person's filter rule holds or rejects jobs for a while."""
    action, jobs = fault.detail.split()
    uuid = str(uuid5(NAMESPACE_DNS, f"filter at {fault.at}"))
    world.luxid.replace_filter(uuid, 5, _PREDICATES[jobs], action, [["gnt:user", "works", 1]])
    world.filters.add(uuid)
    world.clock.after(fault.lasts, partial(unfiltered, world, uuid))


def unfiltered(world: World, uuid: str) -> None:
    """A person's filter rule is deleted."""
    world.filters.discard(uuid)
    if uuid in world.luxid.filters:
        world.luxid.delete_filter(uuid)
        world.luxid.advance()
