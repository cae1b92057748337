"""What Ganeti's operations do to the cluster, how long they take, and why they fail.

The third model of them, on purpose: it has what the others lack, power, daemons that do not answer,
copies that are old, and locks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks.effects import changes, only_tags
from fault_world.checks.texts import texts
from fault_world.clock import SECOND
from fault_world.storage import GROUP
from ganeti_steward.plugins.model.incident import JOB_SOURCE
from ganeti_steward.plugins.simulation.jobs import JobFailed

if TYPE_CHECKING:
    from fault_world.world import World

Row = dict[str, Any]
Operation = Mapping[str, Any]

_FLAGS: Final = ("master_candidate", "drained", "offline")
#: Seconds that an operation takes, at least and at most.
_SECONDS: Final[Mapping[str, tuple[float, float]]] = {
    "OP_INSTANCE_MIGRATE": (10, 90),
    "OP_INSTANCE_FAILOVER": (5, 120),
    "OP_INSTANCE_MOVE": (60, 600),
    "OP_INSTANCE_REPLACE_DISKS": (60, 900),
    "OP_INSTANCE_SHUTDOWN": (2, 120),
    "OP_INSTANCE_STARTUP": (2, 20),
    "OP_INSTANCE_ACTIVATE_DISKS": (1, 15),
    "OP_INSTANCE_RECREATE_DISKS": (20, 300),
    "OP_BACKUP_EXPORT": (120, 900),
    "OP_OOB_COMMAND": (1, 15),
}
_SHORT: Final = (0.2, 4)


class Operations:
    """The part `Operations` of the model of the queue."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._locked: dict[str, int] = {}
        """name of an instance -> until when a job holds its lock, ns since the epoch"""

    def begin(self, operation: Operation) -> tuple[float, Callable[[], Any]]:
        """It starts, once it has its locks: the ns until its end, and what happens then."""
        world, kind = self._world, operation["OP_ID"]
        now = world.clock.now
        if kind == "OP_TEST_DELAY":
            return operation["duration"] * SECOND, lambda: True
        seconds = world.draw("operation").uniform(*_SECONDS.get(kind, _SHORT)) * world.pace
        name = operation.get("instance_name", "")
        begin = max(now, self._locked.get(name, 0)) if name else now
        end = begin + int(seconds * SECOND)
        if begin > now:
            self._waits(operation, begin - now)
        if name:
            self._locked[name] = end
        return end - now, partial(self._end, operation)

    def _waits(self, operation: Operation, delay: int) -> None:
        """Its job waits for a lock that another one holds."""
        (found,) = re.findall(r"^job=([0-9]+);", operation["reason"][-1][1])
        row = self._world.luxid.queue.rows[int(found)]
        row["status"] = "waiting"
        self._world.clock.after(delay / SECOND, partial(_has_locks, row))

    def _end(self, operation: Operation) -> Any:
        world, kind = self._world, operation["OP_ID"]
        fault = world.faults.of_operation(operation)
        if fault:
            raise JobFailed(fault, kind="OpExecError")
        name = operation.get("instance_name", "")
        data = world.ganeti.data.get(name)
        before = len(data.whole) if data else 0
        if changes(operation) and not only_tags(operation) and world.faults.has_no_effect():
            return None
        drained = {row["name"] for row in world.ganeti.nodes if row["drained"]}
        result = _EFFECTS[kind](world, dict(operation))
        world.checks.remembered(operation, drained)
        if data and data.copies:
            world.checks.changed_disks(operation, before, len(data.whole))
        return result


def _has_locks(row: Row) -> None:
    if row["status"] == "waiting":
        row["status"] = "running"


def is_known(kind: str) -> bool:
    """Whether there is such an operation."""
    return kind in _EFFECTS or kind == "OP_TEST_DELAY"


def _instance(world: World, op: Row) -> Row:
    name = op["instance_name"]
    if not world.ganeti.has_instance(name):
        raise JobFailed(f"Instance '{name}' not known", "unknown_entity")
    return world.ganeti.instance(name)


def _node(world: World, name: str) -> Row:
    try:
        return world.ganeti.node(name)
    except KeyError:
        raise JobFailed(f"Node '{name}' not known", "unknown_entity") from None


def _usable(world: World, name: str) -> None:
    node = _node(world, name)
    if node["offline"]:
        text = f"Can't get data from node {name}: Node is marked offline"
        raise JobFailed(text, "environment_error")
    if node["drained"]:
        raise JobFailed(f"Can't use drained node {name}", "wrong_state")
    _reached(world, name)


def _reached(world: World, name: str) -> None:
    if _node(world, name)["offline"]:
        raise JobFailed(f"Can't contact node {name}: Node is marked offline", kind="OpExecError")
    if not world.ganeti.answers(name):
        text = f"Can't contact node {name}: Error 7: Failed to connect"
        raise JobFailed(text, kind="OpExecError")


def _target(row: Row, op: Row) -> str:
    target: str | None = op.get("target_node")
    if row["disk_template"] in ("plain", "file"):
        text = f"Instance's disk layout '{row['disk_template']}' does not allow migrations"
        raise JobFailed(text, "wrong_state")
    if row["snodes"]:
        if target not in (None, *row["snodes"]):
            raise JobFailed("Instances with disk types drbd cannot be moved to arbitrary nodes")
        secondary: str = row["snodes"][0]
        return secondary
    if target is None:
        raise JobFailed("A target node is needed", "wrong_input")
    if target == row["pnode"]:
        text = f"Cannot migrate instance {row['name']} to its primary ({target})"
        raise JobFailed(text, "wrong_state")
    return target


def _room(world: World, row: Row, target: str) -> None:
    if row["admin_state"] == "up" and world.ganeti.free_memory(target) < row["beparams"]["maxmem"]:
        text = f"Not enough memory on node {target} for migrating instance {row['name']}"
        raise JobFailed(text, "insufficient_resources")


def _migrate(world: World, op: Row) -> None:
    row, ganeti = _instance(world, op), world.ganeti
    name, primary, target = row["name"], row["pnode"], _target(row, op)
    _usable(world, target)
    _reached(world, primary)
    if op.get("cleanup") and not ganeti.runs[name]:
        raise JobFailed(f"Instance {name} does not seem to be running at all", kind="OpExecError")
    if op.get("cleanup"):
        return
    if primary not in ganeti.runs[name]:
        if not op.get("allow_failover"):
            raise JobFailed("Instance is not running", "wrong_state")
        _fail_over(world, op)
        return
    if row["snodes"] and ganeti.data[name].whole != {primary, target}:
        raise JobFailed(f"Disk 0 is degraded on node {target}, aborting", kind="OpExecError")
    _room(world, row, target)
    ganeti.write(name)
    ganeti.runs[name].discard(primary)
    ganeti.runs[name].add(target)
    ganeti.moved(name, target, [primary] if row["snodes"] else [])


def _fail_over(world: World, op: Row) -> None:
    row, ganeti = _instance(world, op), world.ganeti
    name, primary, target = row["name"], row["pnode"], _target(row, op)
    _usable(world, target)
    _room(world, row, target)
    ignore = op.get("ignore_consistency", False)
    gone = ganeti.node(primary)["offline"] or not ganeti.answers(primary)
    if row["snodes"] and row["admin_state"] == "up":
        stale = target not in ganeti.data[name].whole
        if (stale or gone) and not (ignore or ganeti.node(primary)["offline"]):
            raise JobFailed(
                "Disk 0 is degraded on target node, aborting failover", kind="OpExecError"
            )
    if not gone:
        ganeti.stop(name)
    elif not (ignore or ganeti.node(primary)["offline"]):
        text = f"Could not shutdown instance {name} on node {primary}, aborting"
        raise JobFailed(text, kind="OpExecError")
    ganeti.moved(name, target, [primary] if row["snodes"] else [])
    if row["admin_state"] == "up":
        world.checks.starts(op, name)
        ganeti.start(name)


def _copy(world: World, op: Row) -> None:
    """``OP_INSTANCE_MOVE``: it is stopped while its disks are copied."""
    row, ganeti, target = _instance(world, op), world.ganeti, op["target_node"]
    _usable(world, target)
    _reached(world, row["pnode"])
    _room(world, row, target)
    ganeti.stop(row["name"])
    ganeti.data[row["name"]].copies[target] = ganeti.data[row["name"]].written
    ganeti.moved(row["name"], target, [])
    if row["admin_state"] == "up":
        ganeti.start(row["name"])


def _replace_disks(world: World, op: Row) -> None:
    row, ganeti = _instance(world, op), world.ganeti
    name, mode = row["name"], op["mode"]
    if row["disk_template"] != "drbd":
        raise JobFailed("Can only run replace disks for DRBD8-based instances", "wrong_input")
    primary, secondary = row["pnode"], row["snodes"][0]
    _reached(world, primary)
    if mode in ("replace_new_secondary",):
        new = op.get("remote_node") or world.place_for(row)
        if new is None:
            raise JobFailed("Can't compute nodes using iallocator", "insufficient_resources")
        if new in (primary, secondary):
            raise JobFailed("The specified node is already a node of the instance", "wrong_input")
        _usable(world, new)
        if primary not in ganeti.data[name].whole:
            raise JobFailed(
                f"Disk 0 is degraded on node {primary}, unsafe to replace the secondary"
            )
        ganeti.moved(name, primary, [new])
    elif mode == "replace_on_primary":
        _reached(world, secondary)
        ganeti.storage.replace_in_place(primary, row)
        if secondary not in ganeti.data[name].whole:
            raise JobFailed(
                f"Disk 0 is degraded on node {secondary}, unsafe to replace the primary"
            )
        ganeti.data[name].broken.discard(primary)
    else:
        _reached(world, secondary)
        ganeti.storage.replace_in_place(secondary, row)
        if primary not in ganeti.data[name].whole:
            raise JobFailed(
                f"Disk 0 is degraded on node {primary}, unsafe to replace the secondary"
            )
        ganeti.data[name].broken.discard(secondary)
    ganeti.resync(name)


def _set_params(world: World, op: Row) -> list[list[str]]:
    ganeti, node = world.ganeti, _node(world, op["node_name"])
    if node["master"]:
        text = "The master role can be changed only via master-failover"
        raise JobFailed(text, "wrong_input")
    leaves = node["master_candidate"] and bool(op.get("drained") or op.get("offline"))
    others = [one for one in ganeti.nodes if one is not node]
    free = [
        one for one in others if one["master_capable"] and not (one["offline"] or one["drained"])
    ]
    pool = ganeti.info["candidate_pool_size"]
    few = sum(one["master_candidate"] for one in others) < min(pool, len(free))
    if leaves and few and not op.get("auto_promote"):
        text = "Not enough master candidates, please pass auto promote option"
        raise JobFailed(text, "wrong_state")
    if node["offline"] and op.get("offline") is False:
        _answering(world, node["name"])
    wanted = {flag: op[flag] for flag in _FLAGS if op.get(flag) is not None}
    if any(wanted.values()):
        wanted = dict.fromkeys(_FLAGS, False) | wanted
    changes = [[flag, str(new)] for flag, new in wanted.items() if node[flag] != new]
    node.update(wanted)
    ganeti.candidates()
    ganeti.changed()
    return changes


def _answering(world: World, name: str) -> None:
    if not world.ganeti.answers(name):
        raise JobFailed(f"Node {name} does not answer: it cannot be readded", "environment_error")


def _tags(world: World, op: Row) -> list[str]:
    kind, name = op["kind"], op["name"]
    if kind == "cluster":
        return _tags_of(world.ganeti.info)
    if kind == "node":
        return _tags_of(_node(world, name))
    rows = world.ganeti.instances if kind == "instance" else world.ganeti.groups
    for row in rows:
        if row["name"] == name:
            return _tags_of(row)
    raise JobFailed(f"'{name}' not known", "unknown_entity")


def _tags_of(row: Row) -> list[str]:
    """The tags of an object, to be changed."""
    tags: list[str] = row["tags"]
    return tags


def _set_tags(world: World, op: Row) -> None:
    tags = _tags(world, op)
    tags += [tag for tag in op["tags"] if tag not in tags]
    world.checks.results.tagged(op["tags"])
    world.ganeti.changed()


def _remove_tags(world: World, op: Row) -> None:
    tags = _tags(world, op)
    if missing := [tag for tag in op["tags"] if tag not in tags]:
        names = ", ".join(f"'{tag}'" for tag in missing)
        raise JobFailed(f"Tag(s) {names} not found", "unknown_entity")
    tags[:] = [tag for tag in tags if tag not in op["tags"]]
    world.checks.results.untagged(op["tags"])
    world.ganeti.changed()


def _shut_down(world: World, op: Row) -> None:
    row = _instance(world, op)
    if not op.get("ignore_offline_nodes") or world.ganeti.answers(row["pnode"]):
        _reached(world, row["pnode"])
        world.ganeti.stop(row["name"])
    if not op.get("no_remember"):
        row["admin_state"] = "down"
    world.ganeti.changed()


def _start(world: World, op: Row) -> None:
    row = _instance(world, op)
    _reached(world, row["pnode"])
    if not op.get("no_remember"):
        row["admin_state"] = "up"
    if row["pnode"] not in world.ganeti.runs[row["name"]]:
        world.checks.starts(op, row["name"])
        world.ganeti.start(row["name"])
    world.ganeti.changed()


def _activate_disks(world: World, op: Row) -> list[Any]:
    row = _instance(world, op)
    for name in (row["pnode"], *row["snodes"]):
        _reached(world, name)
    name = row["name"]
    world.ganeti.data[name].active = True
    if row["snodes"] and len(world.ganeti.data[name].whole) < 2:
        world.ganeti.data[name].resyncing = True
        if op.get("wait_for_sync"):
            resynced(world, name)
            if len(world.ganeti.data[name].whole) < 2:
                raise JobFailed("Some disks of the instance are degraded!", kind="OpExecError")
            return []
        world.clock.after(world.draw("resync").uniform(20, 600), partial(resynced, world, name))
    return []


def resynced(world: World, name: str) -> None:
    """The copies of an instance are the same again, unless that stalls or was given up."""
    if world.faults.stalls():
        world.clock.after(60, partial(resynced, world, name))
        return
    if world.ganeti.has_instance(name) and world.ganeti.data[name].resyncing:
        world.ganeti.resync(name)


def _query_data(world: World, op: Row) -> Row:
    found = {}
    for name in op["instances"]:
        row = _instance(world, {"instance_name": name})
        offline = _node(world, row["pnode"])["offline"]
        for node in (row["pnode"], *row["snodes"]):
            if not _node(world, node)["offline"]:
                _reached(world, node)
        sides = [_side(world, row, node) for node in (row["pnode"], *row["snodes"])]
        disk = {"dev_type": row["disk_template"], "pstatus": sides[0], "sstatus": sides[-1]}
        disks = [{**disk, "iv_name": f"disk/{at}"} for at in range(len(row["disk.sizes"]))]
        if not offline:
            world.ganeti.data[name].in_sync = all(
                side and not side[5] and side[3] is None and side[6] == 1 for side in sides
            )
        data = {"pnode": row["pnode"], "snodes": row["snodes"], "disks": disks}
        found[name] = {**data, "run_state": None if offline else "up"}
    return found


def _side(world: World, row: Row, node: str) -> list[Any] | None:
    ganeti, data = world.ganeti, world.ganeti.data[row["name"]]
    if not ganeti.answers(node) or ganeti.node(node)["offline"]:
        return None
    if row["pnode"] not in ganeti.runs[row["name"]] and not data.active:
        return None
    # A side whose own disk is broken stays connected.
    connected = data.whole | (data.broken - {node})
    behind = not connected.issuperset(data.copies) or any(one in ganeti.off for one in data.copies)
    percent = 50.0 if data.resyncing else None
    own = 4 if node in data.broken else 1 if node in data.whole else 2
    return ["/dev/drbd0", 147, 0, percent, None, behind, own]


def _query_storage(world: World, op: Row) -> list[list[Any]]:
    (node,) = op["nodes"]
    _reached(world, node)
    return world.ganeti.storage.physical(node)


def _query_volumes(world: World, op: Row) -> list[list[str]]:
    (node,) = op["nodes"]
    _reached(world, node)
    return world.ganeti.storage.logical(node)


def _modify_storage(world: World, op: Row) -> None:
    node = op["node_name"]
    _reached(world, node)
    world.ganeti.storage.set_allocatable(node, op["name"], op["changes"]["allocatable"])


def _repair_storage(world: World, op: Row) -> None:
    _reached(world, op["node_name"])
    world.ganeti.storage.repair(op["node_name"])


def _verify_disks(world: World, op: Row) -> list[Any]:
    """Nodes that cannot be read, instances to activate, and those with missing volumes.

    A lost connection and a resync are in neither.
    """
    ganeti = world.ganeti
    silent = {
        row["uuid"]: "Error 7: Failed to connect"
        for row in ganeti.nodes
        if not (row["offline"] or ganeti.answers(row["name"]))
    }
    down = [
        row["name"]
        for row in ganeti.instances
        if row["admin_state"] == "up"
        and row["snodes"]
        and (ganeti.data[row["name"]].broken or not ganeti.runs[row["name"]])
    ]
    missing = {
        row["name"]: [[ganeti.node(node)["uuid"], f"{GROUP}/{row['uuid']}.disk0_data"]]
        for row in ganeti.instances
        for node in (row["pnode"], *row["snodes"])
        if ganeti.storage.lacks(node, row["name"])
    }
    return [silent, down, missing]


def _oob(world: World, op: Row) -> list[Any]:
    names, command = op["node_names"], op["command"]
    if command in ("power-off", "power-cycle") and world.ganeti.master in names:
        text = f"Cannot {command} the master node {world.ganeti.master}"
        raise JobFailed(text, "wrong_input")
    if command == "power-cycle" and not world.faults.keeps_power():
        for name in names:
            world.checks.reboots.rebooted(texts([op]).get(JOB_SOURCE, ""), name)
    elif command == "power-off" and not world.faults.keeps_power():
        for name in names:
            world.ganeti.power_off(name)
        world.faults.surprise(command)
    elif command == "power-on":
        for name in names:
            world.ganeti.power_on(name)
    return [
        [[0, name], [0, {"powered": name not in world.ganeti.off}]]
        if command == "power-status"
        else [[0, name], [0, None]]
        for name in names
    ]


_EFFECTS: Final[Mapping[str, Callable[[World, Row], Any]]] = {
    "OP_INSTANCE_MIGRATE": _migrate,
    "OP_INSTANCE_FAILOVER": _fail_over,
    "OP_INSTANCE_MOVE": _copy,
    "OP_INSTANCE_REPLACE_DISKS": _replace_disks,
    "OP_NODE_SET_PARAMS": _set_params,
    "OP_TAGS_SET": _set_tags,
    "OP_TAGS_DEL": _remove_tags,
    "OP_INSTANCE_SHUTDOWN": _shut_down,
    "OP_INSTANCE_STARTUP": _start,
    "OP_INSTANCE_ACTIVATE_DISKS": _activate_disks,
    "OP_INSTANCE_QUERY_DATA": _query_data,
    "OP_OOB_COMMAND": _oob,
    "OP_BACKUP_EXPORT": _instance,
    "OP_NODE_QUERY_STORAGE": _query_storage,
    "OP_NODE_QUERYVOLS": _query_volumes,
    "OP_NODE_MODIFY_STORAGE": _modify_storage,
    "OP_REPAIR_NODE_STORAGE": _repair_storage,
    "OP_GROUP_VERIFY_DISKS": _verify_disks,
}
