"""What Ganeti's operations do to a cluster, and why Ganeti refuses them, in its words.

Of `simulate` and the demo, and of the worlds of tests, in which more can go wrong: they differ in
their `State`, and in how long an operation takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, Protocol

from ganeti_steward.core.model import opcodes
from ganeti_steward.plugins.maintenance.queue.short_jobs import QUERY_DATA
from ganeti_steward.plugins.maintenance.repairs.disk_gate import VERIFY_DISKS
from ganeti_steward.plugins.model.operations import SET_NODE_PARAMS
from ganeti_steward.plugins.simulation.jobs import JobFailed, Operation, Row
from ganeti_steward.plugins.simulation.node_roles import Roles, change_roles

DELAY: Final = "OP_TEST_DELAY"
MODIFY_STORAGE: Final = "OP_NODE_MODIFY_STORAGE"
QUERY_STORAGE: Final = "OP_NODE_QUERY_STORAGE"
QUERY_VOLUMES: Final = "OP_NODE_QUERYVOLS"
NEW_SECONDARY: Final = "replace_new_secondary"

#: Templates whose instances leave their node only where Ganeti copies their disks.
_NOT_MIRRORED: Final = ("plain", "file")
#: Ganeti's answer in place of one that it could not get.
_NO_DATA: Final = [2, None]
_NO_CONNECTION: Final = "Error 7: Failed to connect"
_MOVED: Final = {opcodes.MIGRATE: "migrated", opcodes.FAILOVER: "failed over"}

#: Ganeti's checks, a ``yield``, and what is done then; a second ``yield`` has the result.
_Steps = Iterator[Any]


class State(Roles, Protocol):
    """One cluster: its configuration, and what is true whatever that says."""

    def find(self, kind: str, name: str) -> Row:
        """A ``node``, ``instance`` or ``group``, as it is configured; raises KeyError."""

    def has_power(self, node: str) -> bool:
        """Whether a node runs."""

    def free_memory(self, node: str) -> int:
        """MiB."""

    def runs_on(self, instance: str) -> Set[str]:
        """Names of the nodes on which an instance runs."""

    def whole(self, instance: str) -> Set[str]:
        """Names of the nodes whose copies of its disks have everything."""

    def disk_status(self, instance: str, node: str) -> list[Any] | None:
        """What a node reports of its copies, as luxid has it; None: nothing."""

    def set_tags(self, kind: str, name: str, tags: Sequence[str]) -> None:
        """Give an object other tags; ``kind``: as in `set_tags` of the operations."""

    def set_state(self, instance: str, state: str) -> None:
        """``state``: up or down, as its owner wants it."""

    def place(self, instance: str, nodes: Sequence[str], *, live: bool = False) -> None:
        """Give an instance other nodes, the primary first; ``live``: it goes on to run there."""

    def start(self, instance: str) -> None:
        """Start it on its primary."""

    def stop(self, instance: str) -> None:
        """Stop it where it can be reached."""

    def renew_copy(self, instance: str, node: str) -> None:
        """Copy its disks to new volumes on a node, from another one."""

    def set_power(self, node: str, *, on: bool) -> None:
        """Switch a node on or off."""


class Effects:
    """What operations do to one cluster."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.known: dict[str, Callable[[Operation], _Steps]] = {
            opcodes.MIGRATE: self._migrate,
            opcodes.FAILOVER: self._fail_over,
            "OP_INSTANCE_MOVE": self._move,
            opcodes.REPLACE_DISKS: self._replace_disks,
            SET_NODE_PARAMS: self._set_params,
            opcodes.SET_TAGS: self._set_tags,
            opcodes.REMOVE_TAGS: self._remove_tags,
            "OP_INSTANCE_SHUTDOWN": self._shut_down,
            "OP_INSTANCE_STARTUP": self._start_up,
            "OP_INSTANCE_ACTIVATE_DISKS": self._activate_disks,
            QUERY_DATA: self._query_data,
            VERIFY_DISKS: self._verify_disks,
            QUERY_STORAGE: self._use_storage,
            QUERY_VOLUMES: self._use_storage,
            MODIFY_STORAGE: self._use_storage,
            "OP_REPAIR_NODE_STORAGE": self._use_storage,
            "OP_OOB_COMMAND": self._out_of_band,
            "OP_BACKUP_EXPORT": self._export,
            DELAY: self._delay,
        }
        """opcode -> its steps"""

    def check(self, operation: Operation) -> None:
        """Raise JobFailed where Ganeti refuses it at this moment."""
        next(self._steps(operation))

    def run(self, operation: Operation) -> Any:
        """Check it and do it; its result.  Raises JobFailed."""
        steps = self._steps(operation)
        next(steps)
        return next(steps, None)

    def _steps(self, operation: Operation) -> _Steps:
        kind = operation["OP_ID"]
        if kind not in self.known:
            raise JobFailed(f"Unknown opcode {kind}")
        return self.known[kind](operation)

    # What worlds of tests do in other ways

    def start(self, operation: Operation, instance: str) -> None:
        """An operation starts an instance."""
        self._state.start(instance)

    def place_for(self, row: Row) -> str | None:
        """What an allocator finds for another secondary."""
        return None

    def activate(self, instance: str, *, wait: bool) -> None:
        """Connect the copies of its disks; ``wait``: until they are the same, or that failed."""

    def renew(self, row: Row, node: str) -> None:
        """Copy the disks of an instance to new volumes on the same node."""
        self._state.renew_copy(row["name"], node)

    def storage(self, operation: Operation, node: str) -> list[list[Any]]:
        """Change the physical volumes of a node, or report what the operation queries."""
        return []

    def is_broken(self, row: Row) -> bool:
        """Whether a disk of an instance does not work."""
        return False

    def missing_volumes(self, row: Row) -> list[list[str]]:
        """Uuid of the node and name of each volume that an instance lacks."""
        return []

    def power(self, operation: Operation, node: str) -> bool:
        """Run the out-of-band program of a node; whether it has succeeded."""
        command = operation["command"]
        if command in ("power-off", "power-cycle"):
            self._state.set_power(node, on=False)
        if command in ("power-on", "power-cycle"):
            self._state.set_power(node, on=True)
        return True

    # What is checked

    def _instance(self, operation: Operation) -> Row:
        return self._find("instance", operation["instance_name"])

    def _find(self, kind: str, name: str) -> Row:
        try:
            return self._state.find(kind, name)
        except KeyError:
            text = f"{kind.capitalize()} '{name}' not known"
            raise JobFailed(text, "unknown_entity") from None

    def _reach(self, name: str) -> None:
        if self._find("node", name)["offline"]:
            raise _failed(f"Can't contact node {name}: Node is marked offline")
        if not self._state.answers(name):
            raise _failed(f"Can't contact node {name}: {_NO_CONNECTION}")

    def _take(self, name: str) -> None:
        """Check that a node takes instances."""
        node = self._find("node", name)
        if node["offline"]:
            text = f"Can't get data from node {name}: Node is marked offline"
            raise JobFailed(text, "environment_error")
        if node["drained"]:
            raise JobFailed(f"Can't use drained node {name}", "wrong_state")
        self._reach(name)

    def _have_room(self, row: Row, target: str) -> None:
        memory = row["beparams"]["maxmem"]
        if row["admin_state"] == "up" and self._state.free_memory(target) < memory:
            text = f"Not enough memory on node {target} for migrating instance {row['name']}"
            raise JobFailed(text, "insufficient_resources")

    def _target(self, row: Row, operation: Operation) -> str:
        """Where a migration or a failover leads."""
        target: str | None = operation.get("target_node")
        template, secondaries = row["disk_template"], row["snodes"]
        if template in _NOT_MIRRORED:
            text = f"Instance's disk layout '{template}' does not allow migrations"
            raise JobFailed(text, "wrong_state")
        if secondaries and target not in (None, *secondaries):
            moved = _MOVED[operation["OP_ID"]]
            text = (
                f"Instances with disk types {template} cannot be {moved} to arbitrary nodes "
                "(neither an iallocator nor a target node can be passed)"
            )
            raise JobFailed(text, "wrong_input")
        if not secondaries and target is None:
            raise JobFailed("A target node is needed", "wrong_input")
        if target == row["pnode"]:
            text = f"Cannot migrate instance {row['name']} to its primary ({target})"
            raise JobFailed(text, "wrong_state")
        return target or str(secondaries[0])

    # Instances

    def _migrate(self, operation: Operation) -> _Steps:
        state, row = self._state, self._instance(operation)
        if operation.get("cleanup"):
            yield from self._clean_up(row)
            return
        name, primary, target = row["name"], row["pnode"], self._target(row, operation)
        self._take(target)
        try:
            self._reach(primary)
            if primary not in state.runs_on(name):
                raise JobFailed(f"Instance {name} is not running", "wrong_state")
        except JobFailed:
            if not operation.get("allow_failover"):
                raise
            yield from self._fail_over(operation)
            return
        if row["snodes"] and not {primary, target} <= state.whole(name):
            raise _failed(f"Disk 0 is degraded on node {target}, aborting")
        self._have_room(row, target)
        yield
        state.place(name, _swapped(row, target), live=True)

    def _clean_up(self, row: Row) -> _Steps:
        """After a migration that was cut in half, an instance is where it runs."""
        name, found = row["name"], self._state.runs_on(row["name"])
        for node in _nodes(row):
            self._reach(node)
        if len(found) != 1:
            what = "seems to run on two nodes" if found else "does not seem to be running at all"
            raise _failed(f"Instance {name} {what}")
        yield
        if row["pnode"] not in found:
            self._state.place(name, _swapped(row, *found))

    def _fail_over(self, operation: Operation) -> _Steps:
        state, row = self._state, self._instance(operation)
        name, primary, target = row["name"], row["pnode"], self._target(row, operation)
        self._take(target)
        self._have_room(row, target)
        up = row["admin_state"] == "up"
        forced = operation.get("ignore_consistency") or self._find("node", primary)["offline"]
        gone = self._find("node", primary)["offline"] or not state.answers(primary)
        # DRBD is connected to a node that runs, also where its node daemon does not answer.
        degraded = not state.has_power(primary) or target not in state.whole(name)
        if row["snodes"] and up and degraded and not forced:
            raise _failed("Disk 0 is degraded on target node, aborting failover")
        if gone and not forced:
            raise _failed(f"Could not shutdown instance {name} on node {primary}: {_NO_CONNECTION}")
        yield
        if not gone:
            state.stop(name)
        state.place(name, _swapped(row, target))
        if up:
            self.start(operation, name)

    def _move(self, operation: Operation) -> _Steps:
        """It is stopped while its disks are copied."""
        state, row, target = self._state, self._instance(operation), operation["target_node"]
        name, template = row["name"], row["disk_template"]
        if row["disk.sizes"] and template not in _NOT_MIRRORED:
            text = f"Instance disk 0 has disk type {template} and is not suitable for copying"
            raise JobFailed(text, "wrong_state")
        if target == row["pnode"]:
            raise JobFailed(f"Instance {name} is already on the node {target}", "wrong_state")
        self._take(target)
        self._reach(row["pnode"])
        self._have_room(row, target)
        yield
        state.stop(name)
        state.renew_copy(name, target)
        state.place(name, (target,))
        if row["admin_state"] == "up":
            self.start(operation, name)

    def _replace_disks(self, operation: Operation) -> _Steps:
        state, row = self._state, self._instance(operation)
        name, mode = row["name"], operation["mode"]
        if row["disk_template"] != "drbd":
            raise JobFailed("Can only run replace disks for DRBD8-based instances", "wrong_input")
        primary, secondary = row["pnode"], row["snodes"][0]
        self._reach(primary)
        if mode == NEW_SECONDARY:
            new = self._new_secondary(row, operation)
            self._take(new)
            self._good_side(row, primary)
            yield
            state.place(name, (primary, new))
            state.renew_copy(name, new)
        else:
            self._reach(secondary)
            sides = (primary, secondary) if mode == "replace_on_primary" else (secondary, primary)
            self._good_side(row, sides[1])
            yield
            self.renew(row, sides[0])

    def _new_secondary(self, row: Row, operation: Operation) -> str:
        new = operation.get("remote_node") or self.place_for(row)
        if new is None:
            raise JobFailed("Can't compute nodes using iallocator", "insufficient_resources")
        if new in _nodes(row):
            which = "the primary" if new == row["pnode"] else "already the secondary"
            raise JobFailed(f"The specified node is {which} node of the instance", "wrong_input")
        return str(new)

    def _good_side(self, row: Row, node: str) -> None:
        name = row["name"]
        if node not in self._state.whole(name):
            text = f"Node {node} has degraded storage, unsafe to replace disks for instance {name}"
            raise _failed(text)

    def _shut_down(self, operation: Operation) -> _Steps:
        state, row = self._state, self._instance(operation)
        reached = not operation.get("ignore_offline_nodes") or state.answers(row["pnode"])
        if reached:
            self._reach(row["pnode"])
        yield
        if reached:
            state.stop(row["name"])
        if not operation.get("no_remember"):
            state.set_state(row["name"], "down")

    def _start_up(self, operation: Operation) -> _Steps:
        state, row = self._state, self._instance(operation)
        self._reach(row["pnode"])
        yield
        if not operation.get("no_remember"):
            state.set_state(row["name"], "up")
        if row["pnode"] not in state.runs_on(row["name"]):
            self.start(operation, row["name"])

    def _activate_disks(self, operation: Operation) -> _Steps:
        row, wait = self._instance(operation), bool(operation.get("wait_for_sync"))
        for name in _nodes(row):
            self._reach(name)
        yield
        self.activate(row["name"], wait=wait)
        if wait and row["snodes"] and not {*_nodes(row)} <= self._state.whole(row["name"]):
            raise _failed("Some disks of the instance are degraded!")
        yield []

    def _export(self, operation: Operation) -> _Steps:
        self._instance(operation)
        yield

    def _query_data(self, operation: Operation) -> _Steps:
        """Of each instance its nodes and the states of its disks."""
        rows = [self._find("instance", name) for name in operation["instances"]]
        for name in (node for row in rows for node in _nodes(row)):
            # Nothing is read from a node that is offline.
            if not self._find("node", name)["offline"]:
                self._reach(name)
        yield
        yield {row["name"]: self._data(row) for row in rows}

    def _data(self, row: Row) -> Mapping[str, Any]:
        sides = [self._state.disk_status(row["name"], node) for node in _nodes(row)]
        disk = {"dev_type": row["disk_template"], "pstatus": sides[0], "sstatus": sides[-1]}
        disks = [{**disk, "iv_name": f"disk/{at}"} for at in range(len(row["disk.sizes"]))]
        data = {"pnode": row["pnode"], "snodes": [*row["snodes"]], "disks": disks}
        offline = self._find("node", row["pnode"])["offline"]
        return {**data, "run_state": None if offline else "up"}

    def _verify_disks(self, operation: Operation) -> _Steps:
        """Nodes that do not answer, instances to activate, and missing volumes.

        A lost connection and a resync are in none of them.
        """
        state, group = self._state, self._find("group", operation["group_name"])["uuid"]
        yield
        nodes = {row["name"]: row for row in state.rows("node") if row["group.uuid"] == group}
        rows = [row for row in state.rows("instance") if row["pnode"] in nodes]
        silent = {
            row["uuid"]: _NO_CONNECTION
            for name, row in nodes.items()
            if not (row["offline"] or state.answers(name))
        }
        down = [
            row["name"]
            for row in rows
            if row["admin_state"] == "up" and row["snodes"]
            if self.is_broken(row) or not state.runs_on(row["name"])
        ]
        missing = {row["name"]: found for row in rows if (found := self.missing_volumes(row))}
        yield [silent, down, missing]

    # Nodes

    def _use_storage(self, operation: Operation) -> _Steps:
        names = operation.get("nodes") or [operation["node_name"]]
        for name in names:
            self._reach(name)
        yield
        yield [row for name in names for row in self.storage(operation, name)]

    def _set_params(self, operation: Operation) -> _Steps:
        yield from change_roles(self._state, self._find("node", operation["node_name"]), operation)

    def _out_of_band(self, operation: Operation) -> _Steps:
        names, command = operation["node_names"], operation["command"]
        for name in names:
            if command in ("power-off", "power-cycle") and self._find("node", name)["master"]:
                raise JobFailed(f"Cannot {command} the master node {name}", "wrong_input")
        yield
        done = {name: self.power(operation, name) for name in names}
        # An answer that cannot be read does not fail the job.
        yield [
            [[0, name], self._answer(command, name) if done[name] else _NO_DATA] for name in names
        ]

    def _answer(self, command: str, node: str) -> list[Any]:
        """What the program of a node has answered, as Ganeti passes it on."""
        status = command == "power-status"
        return [0, {"powered": self._state.has_power(node)} if status else None]

    def _delay(self, operation: Operation) -> _Steps:
        yield

    # Tags

    def _set_tags(self, operation: Operation) -> _Steps:
        tags = self._tags(operation)
        yield
        self._retag(operation, [*tags, *(tag for tag in operation["tags"] if tag not in tags)])

    def _remove_tags(self, operation: Operation) -> _Steps:
        tags = self._tags(operation)
        if missing := [tag for tag in operation["tags"] if tag not in tags]:
            names = ", ".join(f"'{tag}'" for tag in missing)
            raise JobFailed(f"Tag(s) {names} not found", "unknown_entity")
        yield
        self._retag(operation, [tag for tag in tags if tag not in operation["tags"]])

    def _tags(self, operation: Operation) -> Sequence[str]:
        kind, name = operation["kind"], operation["name"]
        if kind == "cluster":
            return [*self._state.info["tags"]]
        return [*self._find("group" if kind == "nodegroup" else kind, name)["tags"]]

    def _retag(self, operation: Operation, tags: Sequence[str]) -> None:
        self._state.set_tags(operation["kind"], operation["name"] or "", tags)


def _failed(text: str) -> JobFailed:
    """After the checks."""
    return JobFailed(text, kind="OpExecError")


def _nodes(row: Row) -> list[str]:
    """Of an instance, the primary first."""
    return [row["pnode"], *row["snodes"]]


def _swapped(row: Row, target: str) -> tuple[str, ...]:
    """The nodes of an instance that leaves its primary."""
    return (target, row["pnode"]) if row["snodes"] else (target,)
