"""``balance``: plan moves that lower the score of each group (the 2.1 design)."""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.result_checks import are_moves, moves_placed, moves_summary
from ganeti_steward.core.json_reader import Section
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Balance


def _read(section: Section, top: Section, cluster: Cluster) -> Balance:
    if section.data.get("max_moves") is None:
        return Balance()
    limit = section.integer("max_moves")
    if limit < 0:
        section.fault(f"at least 0 is expected, found {limit}", "max_moves")
    return Balance(limit)


def _is_result(result: Any, request: Balance, cluster: Cluster) -> bool:
    _, failed, jobs = result
    limit = request.max_moves
    return are_moves(result, cluster) and not failed and (limit is None or len(jobs) <= limit)


TYPE: Final = RequestType(
    read=_read,
    is_result=_is_result,
    instances=lambda request: (),
    placed=moves_placed,
    summary=moves_summary,
)
