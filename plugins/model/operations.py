"""The operations of repairs and of tags, as luxid takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ganeti_steward.core.model import opcodes

SET_NODE_PARAMS: Final = "OP_NODE_SET_PARAMS"
ACTIVATE_DISKS: Final = "OP_INSTANCE_ACTIVATE_DISKS"


def clean_up(instance: str) -> opcodes.Operation:
    """Repair what a migration that was cut in half has left; fails where the instance is down."""
    return {"OP_ID": opcodes.MIGRATE, "instance_name": instance, "cleanup": True}


def activate_disks(instance: str, *, wait_for_sync: bool = False) -> opcodes.Operation:
    """Connect the disks of both nodes.

    ``wait_for_sync``: it fails unless they are in sync at its end.
    """
    return {
        "OP_ID": ACTIVATE_DISKS,
        "instance_name": instance,
        "wait_for_sync": wait_for_sync,
    }


def restart(instance: str) -> opcodes.Job:
    """Start an instance that is down on its primary, with disks that are assembled again."""
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": instance, "no_remember": True}
    return [stop, {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": instance, "force": False}]


def stop(instance: str) -> opcodes.Operation:
    """Shut an instance down; Ganeti's watcher does not start it again."""
    return {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": instance}


def start(instance: str) -> opcodes.Operation:
    """Start an instance on its primary."""
    return {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": instance, "force": False}


def copy_to(instance: str, node: str) -> opcodes.Operation:
    """Move an instance whose disks are on one node only: it is stopped while they are copied."""
    return {"OP_ID": "OP_INSTANCE_MOVE", "instance_name": instance, "target_node": node}


def out_of_band(node: str, command: str) -> opcodes.Operation:
    """Have the out-of-band program of a node run: ``power-off`` or ``power-status``."""
    return {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": [node],
        "command": command,
        # It is switched off before it is marked offline.
        "ignore_status": True,
    }


def replace_in_place(instance: str, *, primary: bool) -> opcodes.Operation:
    """Copy the disks of one side to new volumes on the same node; the other side has to be good."""
    side = "primary" if primary else "secondary"
    return {
        "OP_ID": opcodes.REPLACE_DISKS,
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": f"replace_on_{side}",
        "disks": [],
    }


def set_allocatable(node: str, volume: str, allocatable: bool) -> opcodes.Operation:
    """Permit or forbid new logical volumes on a physical volume."""
    return {
        "OP_ID": "OP_NODE_MODIFY_STORAGE",
        "node_name": node,
        "storage_type": "lvm-pv",
        "name": volume,
        "changes": {"allocatable": allocatable},
    }


def repair_storage(node: str, group: str) -> opcodes.Operation:
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


def set_role(node: str, role: str) -> opcodes.Operation:
    """Make a node ``drained`` or ``offline``.

    Another node is promoted where the master candidates become too few.
    """
    return {"OP_ID": SET_NODE_PARAMS, "node_name": node, role: True, "auto_promote": True}


def take_back(node: str, *, candidate: bool = False) -> opcodes.Operation:
    """Have a node that was drained get instances again.

    ``candidate``: whether it becomes a master candidate, also where there are enough.
    """
    roles = {"drained": False, **({"master_candidate": True} if candidate else {})}
    return {"OP_ID": SET_NODE_PARAMS, "node_name": node, **roles, "auto_promote": True}


def promote(node: str) -> opcodes.Operation:
    """Make a node a master candidate; it is neither drained nor offline then."""
    return {"OP_ID": SET_NODE_PARAMS, "node_name": node, "master_candidate": True}


def set_tags(kind: str, name: str, tags: Sequence[str]) -> opcodes.Operation:
    """Put tags on an object; those it has already stay.

    ``kind``: cluster (its name is empty), nodegroup, node or instance.
    """
    return {"OP_ID": opcodes.SET_TAGS, "kind": kind, "name": name or None, "tags": list(tags)}


def remove_tags(kind: str, name: str, tags: Sequence[str]) -> opcodes.Operation:
    """Take tags off an object; fails, and takes none, when one is not there."""
    return {"OP_ID": opcodes.REMOVE_TAGS, "kind": kind, "name": name or None, "tags": list(tags)}


def after(
    operation: opcodes.Operation, jobs: Sequence[int], states: Sequence[str] = ("success",)
) -> opcodes.Operation:
    """The operation, to start when these jobs have ended; it fails if one ends in another state.

    ``jobs``: Ganeti's numbers; a negative one counts back among the jobs that are submitted in
    the same call, -1 is the job before (luxid only).  ``states``: success, error or canceled;
    none: any of them.  Ganeti fails the operation when it does not know a job (any more).
    """
    known = operation.get("depends") or []
    return {**operation, "depends": [*known, *([job, list(states)] for job in jobs)]}
