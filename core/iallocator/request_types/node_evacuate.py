"""``node-evacuate``: move instances off nodes, within their groups (allocation 9.2)."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.iallocator.cluster_reader import instance_names
from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.result_checks import moves_all, moves_placed, moves_summary
from ganeti_steward.core.json_reader import Section
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import EVAC_MODES, NodeEvacuate


def _read(section: Section, top: Section, cluster: Cluster) -> NodeEvacuate:
    names = instance_names(section, top, cluster)
    return NodeEvacuate(names, section.choice("evac_mode", EVAC_MODES))


TYPE: Final = RequestType(
    read=_read,
    is_result=lambda result, request, cluster: moves_all(result, request.instances, cluster),
    instances=lambda request: request.instances,
    placed=moves_placed,
    summary=moves_summary,
    leaves_out=True,
)
