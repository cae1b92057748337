"""``allocate-secondary``: find a secondary for an instance that becomes drbd (allocation 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.iallocator.cluster_reader import instance_name
from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.result_checks import are_nodes
from ganeti_steward.core.json_reader import Section
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import AllocateSecondary

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed


def _read(section: Section, top: Section, cluster: Cluster) -> AllocateSecondary:
    return AllocateSecondary(instance_name(section, top))


def _is_result(result: Any, request: AllocateSecondary, cluster: Cluster) -> bool:
    return are_nodes([result], 1, cluster)


def _placed(result: Any, request: AllocateSecondary, cluster: Cluster) -> list[Placed]:
    from ganeti_steward.core.iallocator.placed import Placed  # only comparisons need it

    instance = cluster.instance(request.name)
    return [Placed(instance._replace(template="drbd"), (*instance.nodes[:1], result))]


TYPE: Final = RequestType(
    read=_read,
    is_result=_is_result,
    instances=lambda request: [request.name],
    placed=_placed,
)
