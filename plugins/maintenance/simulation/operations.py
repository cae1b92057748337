"""What Ganeti's operations do to the simulated cluster, how long they take, and why they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.allocators.placement.one_place import relocate
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import (
    FAILOVER,
    MIGRATE,
    MOVES,
    REMOVE_TAGS,
    REPLACE_DISKS,
    SET_NODE_PARAMS,
    SET_TAGS,
    nodes_after,
)
from ganeti_steward.core.model.requests import Relocate
from ganeti_steward.plugins.maintenance.repairs.disk_check import QUERY_DATA
from ganeti_steward.plugins.maintenance.simulation.assumptions import SECOND, Assumptions
from ganeti_steward.plugins.maintenance.simulation.site import Site

_DELAY: Final = "OP_TEST_DELAY"
_ROLES: Final = ("offline", "drained", "master_candidate")

_NEW_SECONDARY: Final = "replace_new_secondary"

#: s that an operation takes in addition to what it copies, and the others as a whole.
_SET_UP: Final = 15
_SHORT: Final = 3

Operation = Mapping[str, Any]


class Operations:
    """Operations on one site."""

    def __init__(self, site: Site, assumed: Assumptions) -> None:
        self._site, self._assumed = site, assumed

    def duration(self, operation: Operation) -> int:
        """ns"""
        kind, assumed = operation["OP_ID"], self._assumed
        if kind == _DELAY:
            return int(operation["duration"] * SECOND)
        if kind not in MOVES or operation["instance_name"] not in self._site.instances:
            return _SHORT * SECOND
        one = self._site.instances[operation["instance_name"]]
        seconds = {
            MIGRATE: _SET_UP + one.memory / assumed.migrated_per_second,
            FAILOVER: assumed.failover_seconds,
            REPLACE_DISKS: _SET_UP + one.disk_space / assumed.copied_per_second,
        }
        return int(seconds[kind] * SECOND)

    def resolved(self, operation: Operation) -> Operation:
        """With the node that an allocator finds, where the operation leaves that to one."""
        name = operation.get("instance_name", "")
        one = self._site.instances.get(name)
        if not one or operation.get("mode") != _NEW_SECONDARY or "remote_node" in operation:
            return operation
        request = Relocate(name, 1, one.secondaries)
        found = relocate(request, self._site.cluster, Context())
        if isinstance(found, Answer) and isinstance(found.result, list):
            return {**operation, "remote_node": found.result[0]}
        return operation

    def fault(self, operation: Operation) -> str:
        """Why it fails at this moment; empty when it does not."""
        kind = operation["OP_ID"]
        if kind in MOVES:
            return self._move_fault(operation)
        if kind == SET_NODE_PARAMS and operation["node_name"] not in self._site.nodes:
            return f"node {operation['node_name']} is not known"
        if kind == REMOVE_TAGS and not set(operation["tags"]) <= self._tags(operation):
            return f"a tag is not there: {', '.join(operation['tags'])}"
        return ""

    def _move_fault(self, operation: Operation) -> str:
        site, name, kind = self._site, operation["instance_name"], operation["OP_ID"]
        one = site.instances.get(name)
        if one is None:
            return f"instance {name} is not known"
        if not _moves(operation):
            if operation.get("mode") == _NEW_SECONDARY:
                return f"no node is left for the disks of {name}"
            return "" if site.alive(one.primary) else f"node {one.primary} does not answer"
        after = nodes_after(one.nodes, dict(operation))
        target = after[-1] if kind == REPLACE_DISKS else after[0]
        if kind == REPLACE_DISKS and target in one.nodes:
            return f"instance {name} has its disks on node {target} already"
        if not site.usable(target):
            return f"node {target} takes no instance"
        away = site.nodes[one.primary].offline or operation.get("ignore_consistency")
        forced = kind == FAILOVER and away
        if not (site.alive(one.primary) or forced):
            return f"node {one.primary} does not answer"
        return ""

    def result(self, operation: Operation) -> Any:
        """What it returns once it has ended; of most nothing is read."""
        if operation["OP_ID"] != QUERY_DATA:
            return None
        known = [name for name in operation["instances"] if name in self._site.instances]
        return {name: self._data(self._site.instances[name]) for name in known}

    def _data(self, one: Instance) -> Mapping[str, Any]:
        """The nodes of an instance and the states of its disks."""
        alive = [self._site.alive(name) for name in one.nodes]
        # The own disk of each side is good; the connection is not while the other one is away.
        status = [None, None, None, None, None, not all(alive), 1]
        sides = [status if is_alive else None for is_alive in alive]
        count = len(one.disks)
        disk = {"dev_type": one.template, "pstatus": sides[0], "sstatus": sides[-1]}
        disks = [{**disk, "iv_name": f"disk/{number}"} for number in range(count)]
        return {"pnode": one.primary, "snodes": list(one.secondaries), "disks": disks}

    def begin(self, operation: Operation) -> None:
        """It starts."""
        if operation["OP_ID"] == FAILOVER:
            self._site.stop(operation["instance_name"])

    def end(self, operation: Operation, *, failed: bool) -> None:
        """It ends; a failed one has changed nothing."""
        kind = operation["OP_ID"]
        if kind in MOVES and operation["instance_name"] in self._site.instances:
            name = operation["instance_name"]
            if not failed and _moves(operation):
                nodes = nodes_after(self._site.instances[name].nodes, dict(operation))
                self._site.place(name, nodes)
            self._site.resume(name)
        elif failed:
            return
        elif kind == SET_NODE_PARAMS:
            self._set_role(operation)
        elif kind == SET_TAGS:
            self._set_tags(operation, self._tags(operation) | set(operation["tags"]))
        elif kind == REMOVE_TAGS:
            self._set_tags(operation, self._tags(operation) - set(operation["tags"]))

    # Roles

    def _set_role(self, operation: Operation) -> None:
        """As Ganeti does it: at most one of the roles is left, candidates are replaced."""
        given = {role: operation[role] for role in _ROLES if operation.get(role) is not None}
        cleared = dict.fromkeys(_ROLES, False) if any(given.values()) else {}
        self._site.set_roles(operation["node_name"], **(cleared | given))
        promote(self._site)

    # Tags

    def _tags(self, operation: Operation) -> set[str]:
        site, kind, name = self._site, operation["kind"], operation["name"]
        if kind == "node":
            return set(site.nodes[name].tags)
        return set(site.instances[name].tags) if kind == "instance" else set(site.cluster_tags)

    def _set_tags(self, operation: Operation, tags: set[str]) -> None:
        site, kind, name = self._site, operation["kind"], operation["name"]
        if kind == "node":
            site.tag_node(name, tags)
        elif kind == "instance":
            site.tag_instance(name, tags)
        else:
            site.tag_cluster(tags)


def _moves(operation: Operation) -> bool:
    """Whether the instance has other nodes afterwards."""
    return operation["OP_ID"] != REPLACE_DISKS or "remote_node" in operation


def promote(site: Site) -> None:
    """Make more nodes master candidates where there are fewer than the pool is to have."""
    usable = sorted(node.name for node in site.nodes.values() if site.usable(node.name))
    wanted = min(site.candidate_pool_size, len(usable))
    missing = wanted - sum(site.nodes[name].master_candidate is True for name in usable)
    for name in [one for one in usable if not site.nodes[one].master_candidate][: max(missing, 0)]:
        site.set_roles(name, master_candidate=True)
