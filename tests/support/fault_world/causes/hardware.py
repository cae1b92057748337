"""What happens to nodes, disks, clocks and reports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fault_world.clock import SECOND

if TYPE_CHECKING:
    from fault_world.faults import Fault
    from fault_world.world import World

Row = dict[str, Any]

#: What a node reports whose report changes each minute.
CHANGING = "changing"


def falls_ill(world: World, fault: Fault) -> None:
    """A node reports a fault for a while; ``detail``: the status, or `CHANGING`."""
    reports = world.ganeti.reports
    status = "evacuate" if fault.detail == CHANGING else fault.detail
    data: Row = {"status": status, "details": f"fault at {fault.at}"}
    if status == "live-repair":
        data["command"] = "fix"
    reports[fault.subject] = data
    if fault.detail == CHANGING:
        _change(world, fault, 1)
    world.clock.after(fault.lasts, partial(_recover, world, fault))


def _recover(world: World, fault: Fault) -> None:
    if _is_of(world, fault):
        del world.ganeti.reports[fault.subject]


def _is_of(world: World, fault: Fault) -> bool:
    """Whether a node still reports this fault."""
    data = world.ganeti.reports.get(fault.subject, {})
    return str(data.get("details", "")).startswith(f"fault at {fault.at}")


def _change(world: World, fault: Fault, number: int) -> None:
    if _is_of(world, fault):
        data = world.ganeti.reports[fault.subject]
        details = f"fault at {fault.at}, {number}"
        world.ganeti.reports[fault.subject] = data | {"details": details}
        world.clock.after(60, lambda: _change(world, fault, number + 1))


def loses_power(world: World, fault: Fault) -> None:
    """A node is off for a while; on the master luxid and the daemon end with it."""
    node = fault.subject
    world.ganeti.power_off(node)
    world.agents[node].lost()
    for daemon in world.daemons:
        if daemon.node == node:
            daemon.process.kill()
    if node == world.ganeti.master:
        world.luxid.stop()
    world.clock.after(fault.lasts, partial(_has_power, world, node))


def _has_power(world: World, node: str) -> None:
    world.ganeti.power_on(node)
    if node == world.ganeti.master:
        world.luxid.start()


def noded_hangs(world: World, fault: Fault) -> None:
    """A node runs, but Ganeti does not reach it."""
    deaf = world.ganeti.deaf
    deaf.add(fault.subject)
    world.clock.after(fault.lasts, partial(deaf.discard, fault.subject))


def agent_silent(world: World, fault: Fault) -> None:
    """A node's agent does not answer."""
    silent = world.ganeti.silent
    silent.add(fault.subject)
    world.clock.after(fault.lasts, partial(silent.discard, fault.subject))


def agent_forgets(world: World, fault: Fault) -> None:
    """A node's agent is installed again: it does not know which commands were run."""
    world.agents[fault.subject].forget()


def disk_degrades(world: World, fault: Fault) -> None:
    """The copy of a drbd instance on its secondary is lost."""
    data = world.ganeti.data.get(fault.subject)
    if data and len(data.copies) == 2:
        data.copies[world.ganeti.instance(fault.subject)["snodes"][0]] = 0


def disk_fails(world: World, fault: Fault) -> None:
    """All copies of disks on a node are lost, until they are made again."""
    for row in world.ganeti.on(fault.subject):
        data = world.ganeti.data[row["name"]]
        if len(data.copies) == 2 and len(data.whole) == 2:
            data.copies[fault.subject] = 0
            data.broken.add(fault.subject)


def disk_full(world: World, fault: Fault) -> None:
    """Nothing can be written on a node."""
    disk = world.disks[fault.subject]
    disk.fill()
    world.clock.after(fault.lasts, disk.empty)


def clock_jumps(world: World, fault: Fault) -> None:
    """The clock of a node is set; ``detail``: by so many seconds."""
    world.jumped += abs(int(fault.detail))
    world.ahead[fault.subject] += int(fault.detail) * SECOND


def network_cut(world: World, fault: Fault) -> None:
    """Neither Ganeti nor the daemon reaches a node, which runs on; DRBD has its own network."""
    noded_hangs(world, fault)
    cut_off(world, fault)


def path_cut(world: World, fault: Fault) -> None:
    """The master and a node do not reach each other; the other nodes reach both."""
    noded_hangs(world, fault)
    path = frozenset({world.ganeti.master, fault.subject})
    world.cut_paths[path] = world.clock.now
    world.clock.after(fault.lasts, partial(_path_is_back, world, path))


def _path_is_back(world: World, path: frozenset[str]) -> None:
    world.cut_paths.pop(path, None)


def cut_off(world: World, fault: Fault) -> None:
    """A node reaches no other node."""
    world.isolated.add(fault.subject)
    world.clock.after(fault.lasts, partial(world.isolated.discard, fault.subject))
