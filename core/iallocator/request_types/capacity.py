"""``capacity``: count how many instances like one still fit (the 2.1 design)."""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.request_types.allocate import read_instance
from ganeti_steward.core.iallocator.result_checks import are_nodes
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Capacity


def _is_result(result: Any, request: Capacity, cluster: Cluster) -> bool:
    placements = result["placements"]
    return (
        result["count"] == len(placements)
        and isinstance(result["limited_by"], str)
        and all(are_nodes(nodes, request.item.required_nodes, cluster) for nodes in placements)
    )


def _summary(result: Any, request: Capacity, cluster: Cluster) -> str:
    return f"count:{result['count']}"


TYPE: Final = RequestType(
    read=lambda section, top, cluster: Capacity(read_instance(section)),
    is_result=_is_result,
    instances=lambda request: [request.item.instance.name],
    placed=None,
    summary=_summary,
)
