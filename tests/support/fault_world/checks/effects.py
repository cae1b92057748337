"""What one operation of the simulated world does; not by the product's own table, on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from fault_world.ganeti import Ganeti

Operation = Mapping[str, Any]

#: Operations that change nothing.
_READS: Final = frozenset(
    (
        "OP_INSTANCE_QUERY_DATA",
        "OP_NODE_QUERY_STORAGE",
        "OP_NODE_QUERYVOLS",
        "OP_GROUP_VERIFY_DISKS",
    )
)
_TAGS: Final = frozenset(("OP_TAGS_SET", "OP_TAGS_DEL"))
_LEAVES: Final = frozenset(("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER", "OP_INSTANCE_MOVE"))


class Effect(NamedTuple):
    """What an operation does."""

    out: frozenset[str] = frozenset()
    """names of nodes that are drained, set offline or lose their power"""
    powered: frozenset[str] = frozenset()
    """those of them that lose their power"""
    instance: str = ""
    """the instance that it changes"""
    target: str = ""
    """the node that gets the instance or a copy of it"""
    runs: bool = False
    """whether the instance runs on the target then"""


def changes(operation: Operation) -> bool:
    """Whether it changes anything."""
    status = operation.get("command") == "power-status"
    return operation["OP_ID"] not in _READS and not status


def only_tags(operation: Operation) -> bool:
    """Whether it changes tags only."""
    return operation["OP_ID"] in _TAGS


def effects_of(job: Sequence[Operation], ganeti: Ganeti) -> list[Effect]:
    """What its operations do one after the other, by the places of the instances now."""
    secondaries = {row["name"]: "".join(row["snodes"]) for row in ganeti.instances}
    primaries = {row["name"]: row["pnode"] for row in ganeti.instances}
    return [_effect(operation, primaries, secondaries) for operation in job]


def _effect(operation: Operation, primaries: dict[str, str], secondaries: dict[str, str]) -> Effect:
    kind, name = operation["OP_ID"], operation.get("instance_name", "")
    if kind == "OP_NODE_SET_PARAMS":
        lost = operation.get("drained") or operation.get("offline")
        return Effect(frozenset((operation["node_name"],) if lost else ()))
    if kind == "OP_OOB_COMMAND":
        off = operation["command"] in ("power-off", "power-cycle")
        names = frozenset(operation["node_names"] if off else ())
        return Effect(names, names)
    target: str = operation.get("remote_node") or operation.get("target_node") or ""
    if operation.get("mode") == "replace_new_secondary":
        secondaries[name] = target
    leaves = kind in _LEAVES and not operation.get("cleanup")
    if leaves and not target:
        target = secondaries.get(name, "")
        secondaries[name], primaries[name] = primaries.get(name, ""), target
    return Effect(instance=name, target=target, runs=leaves)
