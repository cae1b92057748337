"""``allocate``: place one new instance (allocation 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.iallocator.cluster_reader import instance_of
from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.result_checks import are_nodes
from ganeti_steward.core.json_reader import Section
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Allocate

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed


def read_instance(section: Section) -> Allocate:
    """A new instance, where it may go, and on how many nodes."""
    instance = instance_of(section, section.text("name"))
    required = section.integer("required_nodes")
    if instance.template == "drbd" and required == 1:
        section.fault("a drbd instance needs 2 nodes, found the number 1", "required_nodes")
    return Allocate(
        instance=instance,
        required_nodes=required,
        group_name=section.optional_text("group_name"),
        restrict_to=section.optional_texts("restrict-to-nodes"),
    )


def _is_result(result: Any, request: Allocate, cluster: Cluster) -> bool:
    return are_nodes(result, request.required_nodes, cluster)


def _placed(result: Any, request: Allocate, cluster: Cluster) -> list[Placed]:
    from ganeti_steward.core.iallocator.placed import Placed  # only comparisons need it

    return [Placed(request.instance, tuple(result))]


TYPE: Final = RequestType(
    read=lambda section, top, cluster: read_instance(section),
    is_result=_is_result,
    instances=lambda request: [request.instance.name],
    placed=_placed,
)
