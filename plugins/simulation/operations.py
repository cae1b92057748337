"""What Ganeti's operations do to the simulated cluster, how long they take, and why they fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.allocators.placement.one_place import relocate
from ganeti_steward.core.model import opcodes
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import Relocate
from ganeti_steward.plugins.maintenance.queue.short_jobs import QUERY_DATA
from ganeti_steward.plugins.model.operations import SET_NODE_PARAMS
from ganeti_steward.plugins.simulation.assumptions import SECOND, Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.jobs import JobFailed, Operation

_DELAY: Final = "OP_TEST_DELAY"
_ROLES: Final = ("offline", "drained", "master_candidate")
_NEW_SECONDARY: Final = "replace_new_secondary"

#: s that an operation takes in addition to what it copies, and the others as a whole.
_SET_UP: Final = 15
_SHORT: Final = 3


class SimulatedOperations:
    """Operations on one cluster."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        assumed: Assumptions,
        succeeded: Callable[[Operation], None] = lambda operation: None,
    ) -> None:
        """``succeeded`` is called with each operation that does."""
        self._cluster, self._assumed, self._on_success = cluster, assumed, succeeded
        self._random = Random(f"jobs {assumed.seed}")

    def begin(self, operation: Operation) -> tuple[float, Callable[[], Any]]:
        """It starts: the ns until its end, and what happens then; both raise Failed."""
        operation = self._resolved(operation)
        self._check(operation)
        if self._random.random() < self._assumed.job_failures:
            raise JobFailed("it failed for a reason of its own")
        if operation["OP_ID"] == opcodes.FAILOVER:
            self._cluster.stop(operation["instance_name"])
        return self._seconds(operation) * SECOND, partial(self._end, operation)

    def _end(self, operation: Operation) -> Any:
        try:
            self._check(operation)
            self._act(operation)
        finally:
            if operation["OP_ID"] in opcodes.MOVES:
                self._cluster.resume(operation["instance_name"])
        self._on_success(operation)
        return self._result(operation)

    def _seconds(self, operation: Operation) -> float:
        kind, assumed = operation["OP_ID"], self._assumed
        if kind == _DELAY:
            return float(operation["duration"])
        if kind not in opcodes.MOVES:
            return _SHORT
        one = self._cluster.instances[operation["instance_name"]]
        seconds: dict[str, float] = {
            opcodes.MIGRATE: _SET_UP + one.memory / assumed.migrated_per_second,
            opcodes.FAILOVER: assumed.failover_seconds,
            opcodes.REPLACE_DISKS: _SET_UP + one.disk_space / assumed.copied_per_second,
        }
        return seconds[kind]

    def _resolved(self, operation: Operation) -> Operation:
        """With the node that an allocator finds, where the operation leaves that to one."""
        name = operation.get("instance_name", "")
        one = self._cluster.instances.get(name)
        if not one or operation.get("mode") != _NEW_SECONDARY or "remote_node" in operation:
            return operation
        request = Relocate(name, 1, one.secondaries)
        found = relocate(request, self._cluster.cluster, Context())
        if isinstance(found, Answer) and isinstance(found.result, list):
            return {**operation, "remote_node": found.result[0]}
        return operation

    # Faults

    def _check(self, operation: Operation) -> None:
        """Raise Failed where it is not possible at this moment."""
        kind = operation["OP_ID"]
        if kind in opcodes.MOVES:
            self._check_move(operation)
        elif kind == SET_NODE_PARAMS and operation["node_name"] not in self._cluster.nodes:
            raise JobFailed(f"node {operation['node_name']} is not known")
        elif kind == opcodes.REMOVE_TAGS and not set(operation["tags"]) <= self._tags(operation):
            raise JobFailed(f"a tag is not there: {', '.join(operation['tags'])}")

    def _check_move(self, operation: Operation) -> None:
        cluster, name, kind = self._cluster, operation["instance_name"], operation["OP_ID"]
        one = cluster.instances.get(name)
        if one is None:
            raise JobFailed(f"instance {name} is not known")
        forced = kind == opcodes.FAILOVER and (
            cluster.nodes[one.primary].offline or operation.get("ignore_consistency")
        )
        if _moves(operation):
            after = nodes_after(one.nodes, dict(operation))
            target = after[-1] if kind == opcodes.REPLACE_DISKS else after[0]
            if kind == opcodes.REPLACE_DISKS and target in one.nodes:
                raise JobFailed(f"instance {name} has its disks on node {target} already")
            if not cluster.usable(target):
                raise JobFailed(f"node {target} takes no instance")
        elif operation.get("mode") == _NEW_SECONDARY:
            raise JobFailed(f"no node is left for the disks of {name}")
        if not (cluster.alive(one.primary) or forced):
            raise JobFailed(f"node {one.primary} does not answer")

    # Effects

    def _act(self, operation: Operation) -> None:
        kind, cluster = operation["OP_ID"], self._cluster
        if kind in opcodes.MOVES and _moves(operation):
            name = operation["instance_name"]
            cluster.place(name, nodes_after(cluster.instances[name].nodes, dict(operation)))
        elif kind == SET_NODE_PARAMS:
            self._set_role(operation)
        elif kind == opcodes.SET_TAGS:
            self._set_tags(operation, self._tags(operation) | set(operation["tags"]))
        elif kind == opcodes.REMOVE_TAGS:
            self._set_tags(operation, self._tags(operation) - set(operation["tags"]))

    def _set_role(self, operation: Operation) -> None:
        """As Ganeti does it: at most one of the roles is left, candidates are replaced."""
        given = {role: operation[role] for role in _ROLES if operation.get(role) is not None}
        cleared = dict.fromkeys(_ROLES, False) if any(given.values()) else {}
        self._cluster.set_roles(operation["node_name"], **(cleared | given))
        self._cluster.promote()

    def _tags(self, operation: Operation) -> set[str]:
        cluster, kind, name = self._cluster, operation["kind"], operation["name"]
        if kind == "node":
            return set(cluster.nodes[name].tags)
        if kind == "instance":
            return set(cluster.instances[name].tags)
        return set(cluster.cluster_tags)

    def _set_tags(self, operation: Operation, tags: set[str]) -> None:
        cluster, kind, name = self._cluster, operation["kind"], operation["name"]
        if kind == "node":
            cluster.tag_node(name, tags)
        elif kind == "instance":
            cluster.tag_instance(name, tags)
        else:
            cluster.tag_cluster(tags)

    # Results

    def _result(self, operation: Operation) -> Any:
        """What it returns; of most nothing is read."""
        if operation["OP_ID"] != QUERY_DATA:
            return None
        known = [name for name in operation["instances"] if name in self._cluster.instances]
        return {name: self._data(self._cluster.instances[name]) for name in known}

    def _data(self, one: Instance) -> Mapping[str, Any]:
        """The nodes of an instance and the states of its disks."""
        alive = [self._cluster.alive(name) for name in one.nodes]
        # The own disk of each side is good; the connection is not while the other one is away.
        status = [None, None, None, None, None, not all(alive), 1]
        sides = [status if is_alive else None for is_alive in alive]
        count = len(one.disks)
        disk = {"dev_type": one.template, "pstatus": sides[0], "sstatus": sides[-1]}
        disks = [{**disk, "iv_name": f"disk/{number}"} for number in range(count)]
        data = {"pnode": one.primary, "snodes": list(one.secondaries), "disks": disks}
        # Ganeti reads nothing from a node that is offline.
        offline = self._cluster.nodes[one.primary].offline
        return {**data, "run_state": None if offline else "up"}


def _moves(operation: Operation) -> bool:
    """Whether the instance has other nodes afterwards."""
    return operation["OP_ID"] != opcodes.REPLACE_DISKS or "remote_node" in operation
