"""The jobs that move instances, as Ganeti takes them in an allocator's answer (allocation 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

#: One operation: ``OP_ID`` and its parameters.
Operation = dict[str, Any]
#: Operations of one job, run in order.
Job = list[Operation]

MIGRATE: Final = "OP_INSTANCE_MIGRATE"
FAILOVER: Final = "OP_INSTANCE_FAILOVER"
REPLACE_DISKS: Final = "OP_INSTANCE_REPLACE_DISKS"


class MoveOperation(NamedTuple):
    """An operation that moves an instance."""

    command: str
    """the command of gnt-instance, and the last part of RAPI's resource"""
    method: str
    """the HTTP method of RAPI's resource"""
    copies: bool
    """whether the disks are copied"""


#: The only operations Ganeti accepts from an allocator.
MOVES: Final[Mapping[str, MoveOperation]] = MappingProxyType(
    {
        MIGRATE: MoveOperation("migrate", "PUT", copies=False),
        FAILOVER: MoveOperation("failover", "PUT", copies=False),
        REPLACE_DISKS: MoveOperation("replace-disks", "POST", copies=True),
    }
)

SET_NODE_PARAMS: Final = "OP_NODE_SET_PARAMS"
SET_TAGS: Final = "OP_TAGS_SET"
REMOVE_TAGS: Final = "OP_TAGS_DEL"


def migrate(instance: str, target: str | None = None) -> Operation:
    """Swap primary and secondary, or go to ``target`` (without a secondary only)."""
    return {
        "OP_ID": MIGRATE,
        "instance_name": instance,
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
        **_to(target),
    }


def failover(instance: str, target: str | None = None) -> Operation:
    """The same for an instance that is only announced, or whose node cannot migrate it.

    Ganeti stops it first, and refuses where the disks on the target are degraded; it does neither
    where the primary is marked offline.
    """
    return {
        "OP_ID": FAILOVER,
        "instance_name": instance,
        "shutdown_timeout": 120,
        "ignore_consistency": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        **_to(target),
    }


def clean_up(instance: str) -> Operation:
    """Repair what a migration that was cut in half has left; fails where the instance is down."""
    return {"OP_ID": MIGRATE, "instance_name": instance, "cleanup": True}


def activate_disks(instance: str, *, wait_for_sync: bool = False) -> Operation:
    """Connect the disks of both nodes.

    ``wait_for_sync``: it fails unless they are in sync at its end.
    """
    return {
        "OP_ID": "OP_INSTANCE_ACTIVATE_DISKS",
        "instance_name": instance,
        "wait_for_sync": wait_for_sync,
    }


def restart(instance: str) -> Job:
    """Start an instance that is down on its primary, with disks that are assembled again."""
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": instance, "no_remember": True}
    return [stop, {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": instance, "force": False}]


def out_of_band(node: str, command: str) -> Operation:
    """Have the out-of-band program of a node run: ``power-off`` or ``power-status``."""
    return {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": [node],
        "command": command,
        # It is switched off before it is marked offline.
        "ignore_status": True,
    }


def _to(target: str | None) -> Operation:
    return {} if target is None else {"target_node": target}


def replace_secondary(instance: str, node: str) -> Operation:
    """Copy the disks to a new secondary."""
    return {
        "OP_ID": REPLACE_DISKS,
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        "remote_node": node,
    }


def replace_in_place(instance: str, *, primary: bool) -> Operation:
    """Copy the disks of one side to new volumes on the same node; the other side has to be good."""
    side = "primary" if primary else "secondary"
    return {
        "OP_ID": REPLACE_DISKS,
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": f"replace_on_{side}",
        "disks": [],
    }


def set_allocatable(node: str, volume: str, allocatable: bool) -> Operation:
    """Permit or forbid new logical volumes on a physical volume."""
    return {
        "OP_ID": "OP_NODE_MODIFY_STORAGE",
        "node_name": node,
        "storage_type": "lvm-pv",
        "name": volume,
        "changes": {"allocatable": allocatable},
    }


def repair_storage(node: str, group: str) -> Operation:
    """Take missing physical volumes out of a volume group, and what lay on them.

    Ganeti refuses it while the other side of a running instance is faulty; of stopped instances
    it knows nothing.
    """
    return {
        "OP_ID": "OP_REPAIR_NODE_STORAGE",
        "node_name": node,
        "storage_type": "lvm-vg",
        "name": group,
        "ignore_consistency": False,
    }


def nodes_after(nodes: tuple[str, ...], operation: Operation) -> tuple[str, ...]:
    """Primary and secondary of an instance after an operation of `MOVES`."""
    if MOVES[operation["OP_ID"]].copies:
        return (nodes[0], operation["remote_node"])
    target = operation.get("target_node")
    return nodes[::-1] if target is None else (target,)


def set_role(node: str, role: str) -> Operation:
    """Make a node ``drained`` or ``offline``.

    Another node is promoted where the master candidates become too few.
    """
    return {"OP_ID": SET_NODE_PARAMS, "node_name": node, role: True, "auto_promote": True}


def set_tags(kind: str, name: str, tags: Sequence[str]) -> Operation:
    """Put tags on an object; those it has already stay.

    ``kind``: cluster (its name is empty), nodegroup, node or instance.
    """
    return {"OP_ID": SET_TAGS, "kind": kind, "name": name or None, "tags": list(tags)}


def remove_tags(kind: str, name: str, tags: Sequence[str]) -> Operation:
    """Take tags off an object; fails, and takes none, when one is not there."""
    return {"OP_ID": REMOVE_TAGS, "kind": kind, "name": name or None, "tags": list(tags)}


def after(
    operation: Operation, jobs: Sequence[int], states: Sequence[str] = ("success",)
) -> Operation:
    """The operation, to start when these jobs have ended; it fails if one ends in another state.

    ``jobs``: Ganeti's numbers; a negative one counts back among the jobs that are submitted in
    the same call, -1 is the job before (luxid only).  ``states``: success, error or canceled;
    none: any of them.  Ganeti fails the operation when it does not know a job (any more).
    """
    known = operation.get("depends") or []
    return {**operation, "depends": [*known, *([job, list(states)] for job in jobs)]}


def moves_result(
    moved: Sequence[tuple[str, str, Sequence[str]]],
    failed: Sequence[tuple[str, str]],
    jobs: Sequence[Job],
) -> list[list[object]]:
    """The result of a request that moves instances.

    ``moved``: instance, name of its group then, its nodes then (primary first);
    ``failed``: instance and the reason.
    """
    return [
        [[name, group, list(nodes)] for name, group, nodes in moved],
        [[name, reason] for name, reason in failed],
        list(jobs),
    ]
