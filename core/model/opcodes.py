"""The jobs that move instances, as Ganeti takes them in an allocator's answer (allocation 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

#: One operation: ``OP_ID`` and its parameters.
Operation = dict[str, Any]
#: Operations of one job, run in order.
Job = list[Operation]

MIGRATE: Final = "OP_INSTANCE_MIGRATE"
FAILOVER: Final = "OP_INSTANCE_FAILOVER"
REPLACE_DISKS: Final = "OP_INSTANCE_REPLACE_DISKS"
#: The only operations Ganeti takes from an allocator (facts, 3).
MOVES: Final = (MIGRATE, FAILOVER, REPLACE_DISKS)

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
    """The same for an instance that is only announced."""
    return {
        "OP_ID": FAILOVER,
        "instance_name": instance,
        "shutdown_timeout": 120,
        "ignore_consistency": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        **_to(target),
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


def set_tags(kind: str, name: str, tags: Sequence[str]) -> Operation:
    """Put tags on an object; those it has already stay.

    ``kind``: cluster (its name is empty), nodegroup, node or instance.
    """
    return {"OP_ID": SET_TAGS, "kind": kind, "name": name or None, "tags": list(tags)}


def remove_tags(kind: str, name: str, tags: Sequence[str]) -> Operation:
    """Take tags off an object; fails, and takes none, when one is not there."""
    return {"OP_ID": REMOVE_TAGS, "kind": kind, "name": name or None, "tags": list(tags)}


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
