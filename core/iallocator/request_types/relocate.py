"""``relocate``: find one new node for an existing instance (allocation 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.iallocator.cluster_reader import full_names, instance_name
from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.result_checks import are_nodes
from ganeti_steward.core.json_reader import Section
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Relocate

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed


def _read(section: Section, top: Section, cluster: Cluster) -> Relocate:
    name = instance_name(section, top)
    leave = full_names(top, "nodes", cluster.node_index, section, "relocate_from")
    given = section.data.get("disk_space_total") is not None
    space = section.integer("disk_space_total") if given else None
    return Relocate(name, section.integer("required_nodes"), leave, space)


def _is_result(result: Any, request: Relocate, cluster: Cluster) -> bool:
    return are_nodes(result, request.required_nodes, cluster)


def _placed(result: Any, request: Relocate, cluster: Cluster) -> list[Placed]:
    from ganeti_steward.core.iallocator.placed import Placed  # only comparisons need it

    instance = cluster.instance(request.name)
    kept = tuple(node for node in instance.nodes if node not in request.relocate_from)
    return [Placed(instance, (*kept, *result))]


TYPE: Final = RequestType(
    read=_read,
    is_result=_is_result,
    instances=lambda request: [request.name],
    placed=_placed,
)
