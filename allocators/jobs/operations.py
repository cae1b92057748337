"""Operations that move instances, as Ganeti takes them in an answer (allocation 10)."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti_steward.core.model import opcodes


def migrate(instance: str, target: str | None = None) -> opcodes.Operation:
    """Swap primary and secondary, or go to ``target`` (without a secondary only)."""
    return {
        "OP_ID": opcodes.MIGRATE,
        "instance_name": instance,
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
        **_to(target),
    }


def failover(instance: str, target: str | None = None) -> opcodes.Operation:
    """The same for an instance that is only announced, or whose node cannot migrate it.

    Ganeti stops it first, and refuses where the disks on the target are degraded; it does neither
    where the primary is marked offline.
    """
    return {
        "OP_ID": opcodes.FAILOVER,
        "instance_name": instance,
        "shutdown_timeout": 120,
        "ignore_consistency": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        **_to(target),
    }


def _to(target: str | None) -> opcodes.Operation:
    return {} if target is None else {"target_node": target}


def replace_secondary(instance: str, node: str) -> opcodes.Operation:
    """Copy the disks to a new secondary."""
    return {
        "OP_ID": opcodes.REPLACE_DISKS,
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        "remote_node": node,
    }


def nodes_after(nodes: tuple[str, ...], operation: opcodes.Operation) -> tuple[str, ...]:
    """Primary and secondary of an instance after an operation of `MOVES`."""
    if opcodes.MOVES[operation["OP_ID"]].copies:
        return (nodes[0], operation["remote_node"])
    target = operation.get("target_node")
    return nodes[::-1] if target is None else (target,)


def moves_result(
    moved: Sequence[tuple[str, str, Sequence[str]]],
    failed: Sequence[tuple[str, str]],
    jobs: Sequence[opcodes.Job],
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
