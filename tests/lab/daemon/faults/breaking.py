"""What breaks in these scenarios, and how it is repaired at the end of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from ...cluster import op, until
from ..maintained_lab import MaintainedLab

#: Points of a migration: the memory is sent, the instance is to go on at its new node, it does.
TRANSFER: Final = "transfer"
ARRIVE: Final = "arrive"
ARRIVED: Final = "arrived"

_DAEMON_UTIL: Final = "/usr/lib/ganeti/daemon-util"


@contextmanager
def without_noded(lab: MaintainedLab, node: str) -> Iterator[None]:
    """The node daemon has ended; the node's instances and agent go on."""
    lab.stop_noded(node)
    try:
        yield
    finally:
        lab.power_on(node)


@contextmanager
def isolated(lab: MaintainedLab, node: str, *instances: str) -> Iterator[None]:
    """The same, and the drbd instances have lost their connections: DRBD does not stop others."""
    for name in instances:
        lab.storage("cut", name, node=node)
    with without_noded(lab, node):
        yield


@contextmanager
def migrations(lab: MaintainedLab, point: str, *nodes: str, fail: bool = False) -> Iterator[None]:
    """Migrations stay, or fail, at this point on these nodes until the end of the block."""
    state = lab.directory / "fake/state"
    files = [state / f"{node}-{point}" for node in nodes]
    for file in files:
        file.write_text("fail\n" if fail else "")
    try:
        yield
    finally:
        for file in files:
            file.unlink()


def kill_daemon(lab: MaintainedLab, name: str) -> None:
    """End one of Ganeti's daemons on the master with SIGKILL."""
    pid = f"/run/ganeti/ganeti-{name}.pid"
    lab.on(lab.master, "sh", "-c", f'kill -KILL "$(cat {pid})" && rm {pid}')


def start_daemon(lab: MaintainedLab, name: str) -> None:
    """Start one of Ganeti's daemons on the master, as systemd does with one that was killed."""
    lab.on(lab.master, _DAEMON_UTIL, "start", f"ganeti-{name}")


@contextmanager
def power_program(lab: MaintainedLab) -> Iterator[Path]:
    """All nodes can be switched off and on by Ganeti; all have power again afterwards.

    A file with a node's name in the folder that is yielded changes the program's answers about
    this node (see ``contrib/lab/lab-power``).
    """
    folder = lab.directory / "power"
    lab.do(op("CLUSTER_SET_PARAMS", ndparams={"oob_program": str(folder / "oob")}))
    try:
        yield folder
    finally:
        for file in (*folder.glob("*.lab"), *folder.glob("*.late")):
            file.unlink()
        off = [name for name, powered in lab.rows("node", "name", "powered") if not powered]
        off += [file.name.removesuffix(".off") for file in folder.glob("*.off")]
        lab.do(*(power(node, "on") for node in sorted({*off})))
        lab.do(op("CLUSTER_SET_PARAMS", ndparams={"oob_program": ""}))
        for node in [node for node, agent in lab.agents.items() if agent.poll() is not None]:
            lab.start_agent(node)


def power(node: str, command: str) -> dict[str, Any]:
    """The opcode of ``gnt-node power``."""
    return op("OOB_COMMAND", node_names=[node], command=f"power-{command}", power_delay=0.0)


@contextmanager
def no_targets(lab: MaintainedLab, *nodes: str) -> Iterator[None]:
    """These nodes take no instances until the end of the block, when they have none either."""

    def capable(is_capable: bool) -> list[dict[str, Any]]:
        return [op("NODE_SET_PARAMS", node_name=name, vm_capable=is_capable) for name in nodes]

    lab.do(*capable(False))
    try:
        yield
    finally:
        lab.do(*capable(True))


@contextmanager
def in_group(lab: MaintainedLab, group: str, *nodes: str) -> Iterator[None]:
    """These nodes make up, or come into, a group; they are back and empty afterwards."""
    before = {name: old for name, old in lab.rows("node", "name", "group") if name in nodes}
    known = [name for (name,) in lab.rows("group", "name")]
    with ExitStack() as last:
        if group not in known:
            lab.do(op("GROUP_ADD", group_name=group))
            last.callback(lab.do, op("GROUP_REMOVE", group_name=group))
        for old in {*before.values()}:
            here = [name for name in nodes if before[name] == old]
            last.callback(lab.do, op("GROUP_ASSIGN_NODES", group_name=old, nodes=here))
        last.callback(lab.reset)
        lab.do(op("GROUP_ASSIGN_NODES", group_name=group, nodes=[*nodes]))
        yield


def held_job(lab: MaintainedLab, operation: str, seconds: float = 300) -> int:
    """The number of the job with this operation that runs, once there is one."""
    found: list[int] = []

    def is_there() -> bool:
        rows = lab.rows("job", "id", "status", "ops")
        found[:] = [
            int(number)
            for number, status, ops in rows
            if status == "running" and operation in {one["OP_ID"] for one in ops}
        ]
        return bool(found)

    until(is_there, seconds, every=0.3)
    return found[0]


@contextmanager
def unreachable(lab: MaintainedLab, *nodes: str) -> Iterator[None]:
    """Nothing reaches the addresses of some nodes; what runs there goes on."""
    addresses = {
        row["pip"] for row in lab.luxi.rows("node", ("name", "pip")) if row["name"] in nodes
    }
    found = lab.on(lab.master, "ip", "-o", "-4", "addr", "show").splitlines()
    devices = {
        address: line.split()[1]
        for line in found
        for address in addresses
        if f" {address}/" in line
    }
    # Without it the other addresses of a device go with its first one.
    lab.on(lab.master, "sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1")
    for address, device in devices.items():
        lab.on(lab.master, "ip", "addr", "del", f"{address}/24", "dev", device)
    try:
        yield
    finally:
        for address, device in devices.items():
            lab.on(lab.master, "ip", "addr", "add", f"{address}/24", "dev", device)


@contextmanager
def without_power(lab: MaintainedLab, node: str) -> Iterator[None]:
    """A node is off; it and its agent run again at the end."""
    with power_program(lab) as folder:
        lab.on(lab.master, str(folder / "oob"), "power-off", node)
        with unreachable(lab, node):
            yield
