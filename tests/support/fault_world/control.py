"""What happens to luxid, to the daemon, to jobs, and who is the master."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

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
    """To a candidate that runs; the daemon on the old master is not told."""
    ganeti = world.ganeti
    candidates = [row["name"] for row in ganeti.nodes if row["master_candidate"]]
    new = fault.subject
    if new == ganeti.master or new not in candidates or new in ganeti.off:
        return
    for row in ganeti.nodes:
        row["master"] = row["name"] == new
    ganeti.info["master"] = new
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
