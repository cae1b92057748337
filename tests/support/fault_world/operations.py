"""How long Ganeti's operations take, the locks they wait for, and what goes wrong meanwhile.

What they do is in the product's `effects`; this world has power, daemons that do not answer, and
copies that are old.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks.effects import changes, only_tags
from fault_world.checks.texts import texts
from fault_world.clock import SECOND
from fault_world.rows import Row, places
from fault_world.storage import GROUP
from ganeti_steward.core.model.opcodes import REMOVE_TAGS, SET_TAGS
from ganeti_steward.plugins.maintenance.queue.short_jobs import QUERY_DATA
from ganeti_steward.plugins.model.incident import JOB_SOURCE
from ganeti_steward.plugins.simulation.effects import (
    DELAY,
    MODIFY_STORAGE,
    QUERY_STORAGE,
    QUERY_VOLUMES,
    Effects,
)
from ganeti_steward.plugins.simulation.jobs import JobFailed, Operation

if TYPE_CHECKING:
    from fault_world.world import World

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


class Operations(Effects):
    """The part `Operations` of the model of the queue."""

    def __init__(self, world: World) -> None:
        super().__init__(world.ganeti)
        self._world = world
        self._locked: dict[str, int] = {}
        """name of an instance -> until when a job holds its lock, ns since the epoch"""

    def begin(self, operation: Operation) -> tuple[float, Callable[[], Any]]:
        """It starts, once it has its locks: the ns until its end, and what happens then."""
        world, kind = self._world, operation["OP_ID"]
        now = world.clock.now
        if kind == DELAY:
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
        world = self._world
        fault = world.faults.of_operation(operation)
        if fault:
            raise JobFailed(fault, kind="OpExecError")
        name = operation.get("instance_name", "")
        data = world.ganeti.data.get(name)
        before = len(data.whole) if data else 0
        if changes(operation) and not only_tags(operation) and world.faults.has_no_effect():
            return None
        drained = {row["name"] for row in world.ganeti.nodes if row["drained"]}
        result = self.run(operation)
        self._note(operation)
        world.checks.remembered(operation, drained)
        if data and data.copies:
            world.checks.changed_disks(operation, before, len(data.whole))
        return result

    def _note(self, operation: Operation) -> None:
        """What the checks have to know of what was done."""
        world, kind = self._world, operation["OP_ID"]
        if kind == SET_TAGS:
            world.checks.results.tagged(operation["tags"])
        elif kind == REMOVE_TAGS:
            world.checks.results.untagged(operation["tags"])
        for name in operation["instances"] if kind == QUERY_DATA else ():
            row = world.ganeti.instance(name)
            if not world.ganeti.node(row["pnode"])["offline"]:
                sides = [world.ganeti.disk_status(name, node) for node in places(row)]
                world.ganeti.data[name].in_sync = all(
                    side and not side[5] and side[3] is None and side[6] == 1 for side in sides
                )

    # Where more happens than without faults

    def start(self, operation: Operation, instance: str) -> None:
        self._world.checks.starts(operation, instance)
        super().start(operation, instance)

    def place_for(self, row: Row) -> str | None:
        return self._world.place_for(row)

    def activate(self, instance: str, *, wait: bool) -> None:
        world, data = self._world, self._world.ganeti.data[instance]
        data.active = True
        if len(data.whole) == len(data.copies):
            return
        data.resyncing = True
        if wait:
            resynced(world, instance)
        else:
            seconds = world.draw("resync").uniform(20, 600)
            world.clock.after(seconds, partial(resynced, world, instance))

    def renew(self, row: Row, node: str) -> None:
        self._world.ganeti.storage.replace_in_place(node, row)
        super().renew(row, node)

    def storage(self, operation: Operation, node: str) -> list[list[Any]]:
        storage, kind = self._world.ganeti.storage, operation["OP_ID"]
        if kind == QUERY_STORAGE:
            return storage.physical(node)
        if kind == QUERY_VOLUMES:
            return storage.logical(node)
        if kind == MODIFY_STORAGE:
            storage.set_allocatable(node, operation["name"], operation["changes"]["allocatable"])
        else:
            storage.repair(node)
        return []

    def is_broken(self, row: Row) -> bool:
        return bool(self._world.ganeti.data[row["name"]].broken)

    def missing_volumes(self, row: Row) -> list[list[str]]:
        ganeti, volume = self._world.ganeti, f"{GROUP}/{row['uuid']}.disk0_data"
        lacking = [node for node in places(row) if ganeti.storage.lacks(node, row["name"])]
        return [[ganeti.node(node)["uuid"], volume] for node in lacking]

    def power(self, operation: Operation, node: str) -> bool:
        world, command = self._world, operation["command"]
        if command in ("power-off", "power-cycle") and world.faults.keeps_power():
            return True
        if command == "power-cycle":
            world.checks.reboots.rebooted(texts([operation]).get(JOB_SOURCE, ""), node)
            return True
        done = super().power(operation, node)
        if command == "power-off":
            world.faults.surprise(command)
        return done


def _has_locks(row: Row) -> None:
    if row["status"] == "waiting":
        row["status"] = "running"


def resynced(world: World, name: str) -> None:
    """The copies of an instance are the same again, unless that stalls or was given up."""
    if world.faults.stalls():
        world.clock.after(60, partial(resynced, world, name))
        return
    if world.ganeti.has_instance(name) and world.ganeti.data[name].resyncing:
        world.ganeti.resync(name)
