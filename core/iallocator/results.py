"""Whether what an allocator returned answers the request; Ganeti itself checks next to nothing."""

from __future__ import annotations

from typing import Any

from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.iallocator.request_type import type_of
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Request


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
    from ganeti_steward.core.model.explanation import Explained  # not on Ganeti's path

    return isinstance(given, tuple) and all(isinstance(one, Explained) for one in given)


def is_result(result: Any, request: Request, cluster: Cluster) -> bool:
    """Whether the shape is right and everything named exists (allocation 10)."""
    try:
        return type_of(request).is_result(result, request, cluster)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
