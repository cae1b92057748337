"""``multi-allocate``: place a batch of new instances (allocation 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.iallocator.request_type import RequestType
from ganeti_steward.core.iallocator.request_types.allocate import read_instance
from ganeti_steward.core.iallocator.result_checks import are_nodes
from ganeti_steward.core.json_reader import Section
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import MultiAllocate

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed


def _read(section: Section, top: Section, cluster: Cluster) -> MultiAllocate:
    bodies = [
        section.entry("instances", number, body)
        for number, body in enumerate(section.items("instances"))
    ]
    items = tuple(map(read_instance, bodies))
    return MultiAllocate(items, section.optional_text("group_name"))


def _is_result(result: Any, request: MultiAllocate, cluster: Cluster) -> bool:
    """Whether each instance is placed or named as failed, once."""
    wanted = sorted((item.instance.name, item.required_nodes) for item in request.items)
    placed, failed = result
    names = [*(name for name, _ in placed), *failed]
    if sorted(names) != [name for name, _ in wanted]:
        return False
    # Two bodies may have the same name.
    return all(
        (name, len(nodes)) in wanted and are_nodes(nodes, len(nodes), cluster)
        for name, nodes in placed
    )


def _placed(result: Any, request: MultiAllocate, cluster: Cluster) -> list[Placed]:
    from ganeti_steward.core.iallocator.placed import Placed  # only comparisons need it

    bodies = {(i.instance.name, i.required_nodes): i.instance for i in request.items}
    return [Placed(bodies[name, len(nodes)], tuple(nodes)) for name, nodes in result[0]]


def _summary(result: Any, request: MultiAllocate, cluster: Cluster) -> str:
    return f"placed:{len(result[0])},failed:{len(result[1])}"


TYPE: Final = RequestType(
    read=_read,
    is_result=_is_result,
    instances=lambda request: [item.instance.name for item in request.items],
    placed=_placed,
    summary=_summary,
    leaves_out=True,
)
