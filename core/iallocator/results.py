"""Whether what an allocator returned answers the request; Ganeti itself checks next to nothing."""

from __future__ import annotations

from typing import Any

from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.core.model.requests import (
    Allocate,
    AllocateSecondary,
    Balance,
    Capacity,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
    Request,
)


def outcome_fault(outcome: object, request: Request, cluster: Cluster) -> str:
    """What is wrong with what an allocator returned, for a sentence; empty for nothing."""
    if not isinstance(outcome, Answer | Refusal):
        return f"gave {type(outcome).__name__}, not an answer or a refusal"
    try:
        outcome.info.encode()
    except (AttributeError, UnicodeEncodeError):
        return f"gave the info {shown(outcome.info)}, which is no text"
    explanations: object = outcome.explanations
    if explanations != () and not _are_explanations(explanations):
        return f"gave the explanations {shown(explanations)}"
    if isinstance(outcome, Refusal) or is_result(outcome.result, request, cluster):
        return ""
    return f"gave {shown(outcome.result)}, which is no answer to this request on this cluster"


def _are_explanations(given: object) -> bool:
    from ganeti_steward.core.model.explanation import Told  # not on Ganeti's path

    return isinstance(given, tuple) and all(isinstance(one, Told) for one in given)


def is_result(result: Any, request: Request, cluster: Cluster) -> bool:
    """Whether the shape is right and everything named exists (allocation 10)."""
    try:
        return _is_result(result, request, cluster)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _is_result(result: Any, request: Request, cluster: Cluster) -> bool:
    if isinstance(request, Allocate | Relocate):
        return _are_nodes(result, request.required_nodes, cluster)
    if isinstance(request, AllocateSecondary):
        return _are_nodes([result], 1, cluster)
    if isinstance(request, MultiAllocate):
        return _is_batch(result, request, cluster)
    if isinstance(request, Capacity):
        return _is_capacity(result, request, cluster)
    return _are_moves(result, request, cluster)


def _are_nodes(names: Any, number: int, cluster: Cluster) -> bool:
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) and name in cluster.node_index for name in names)
        and len(set(names)) == len(names) == number
    )


def _is_batch(result: Any, request: MultiAllocate, cluster: Cluster) -> bool:
    """Whether each instance is placed or named as failed, once."""
    asked = sorted((item.instance.name, item.required_nodes) for item in request.items)
    placed, failed = result
    names = [*(name for name, _ in placed), *failed]
    if sorted(names) != [name for name, _ in asked]:
        return False
    # Two bodies may have the same name.
    return all(
        (name, len(nodes)) in asked and _are_nodes(nodes, len(nodes), cluster)
        for name, nodes in placed
    )


def _is_capacity(result: Any, request: Capacity, cluster: Cluster) -> bool:
    placements = result["placements"]
    return (
        result["count"] == len(placements)
        and isinstance(result["limited_by"], str)
        and all(_are_nodes(nodes, request.item.required_nodes, cluster) for nodes in placements)
    )


def _are_moves(
    result: Any, request: NodeEvacuate | ChangeGroup | Balance, cluster: Cluster
) -> bool:
    """Whether each instance asked about is moved, with jobs, or named as failed, once."""
    moved, failed, jobs = result
    groups = {group.name for group in cluster.groups}
    for name, group, nodes in moved:
        known = name in cluster.instance_index and group in groups
        if not known or not _are_nodes(nodes, len(nodes), cluster):
            return False
    if not all(reason is None or isinstance(reason, str) for _, reason in failed):
        return False
    operated = [operation["instance_name"] for job in jobs for operation in job]
    if not all(operation["OP_ID"] in MOVES for job in jobs for operation in job):
        return False
    names = [name for name, _, _ in moved]
    if set(names) != set(operated):
        return False
    if isinstance(request, Balance):
        limit = request.max_moves
        return not failed and (limit is None or len(jobs) <= limit)
    return sorted([*names, *(name for name, _ in failed)]) == sorted(request.instances)
