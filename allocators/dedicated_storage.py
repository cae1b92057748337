"""The allocator ``dedicated``: exclusive storage or nothing.

`balanced` keeps to the same rule (allocation 6) where all nodes have exclusive storage.
It gives no answer elsewhere, so that in a chain another policy can follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.rules.groups import takes_instances
from ganeti_steward.core import hookimpl

if TYPE_CHECKING:
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Allocate, MultiAllocate


@hookimpl
def steward_allocate(request: Allocate, cluster: Cluster, context: Context) -> Outcome | None:
    """Place one new instance."""
    if not is_mine(cluster, request.group_name):
        return None
    from ganeti_steward.allocators.placement.one_place import allocate

    return allocate(request, cluster, context)


@hookimpl
def steward_multi_allocate(
    request: MultiAllocate, cluster: Cluster, context: Context
) -> Outcome | None:
    """Place a batch, if it is for such nodes throughout."""
    if not all(is_mine(cluster, item.group_name or request.group_name) for item in request.items):
        return None
    from ganeti_steward.allocators.placement.multi_allocate import multi_allocate

    return multi_allocate(request, cluster, context)


def is_mine(cluster: Cluster, group_name: str | None) -> bool:
    """Whether every node of the group, or of all groups that may be used, has exclusive storage."""
    if group_name is None:
        groups = {g.uuid for g in cluster.groups if takes_instances(g)}
    else:
        groups = {cluster.groups[i].uuid for i in cluster.groups_named(group_name)}
    nodes = [node for node in cluster.nodes if node.group in groups]
    return bool(nodes) and all(node.exclusive_storage for node in nodes)
