"""The default allocator ``balanced``: hail's rules, hail's score, better searches.

The engine of a request type is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.core import hookimpl

if TYPE_CHECKING:
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import (
        Allocate,
        AllocateSecondary,
        Balance,
        Capacity,
        ChangeGroup,
        MultiAllocate,
        NodeEvacuate,
        Relocate,
    )


@hookimpl
def steward_allocate(request: Allocate, cluster: Cluster, context: Context) -> Outcome:
    """Place one new instance on ``required_nodes`` nodes."""
    from ganeti_steward.allocators.placement.one_place import allocate

    return allocate(request, cluster, context)


@hookimpl
def steward_multi_allocate(request: MultiAllocate, cluster: Cluster, context: Context) -> Outcome:
    """Place a batch of new instances; ``group_name`` holds for those that name none."""
    from ganeti_steward.allocators.placement.multi_allocate import multi_allocate

    return multi_allocate(request, cluster, context)


@hookimpl
def steward_relocate(request: Relocate, cluster: Cluster, context: Context) -> Outcome:
    """Find one new node for an instance that leaves ``relocate_from``."""
    from ganeti_steward.allocators.placement.one_place import relocate

    return relocate(request, cluster, context)


@hookimpl
def steward_allocate_secondary(
    request: AllocateSecondary, cluster: Cluster, context: Context
) -> Outcome:
    """Find a secondary for an instance that becomes drbd."""
    from ganeti_steward.allocators.placement.one_place import allocate_secondary

    return allocate_secondary(request, cluster, context)


@hookimpl
def steward_node_evacuate(request: NodeEvacuate, cluster: Cluster, context: Context) -> Outcome:
    """Move instances off their primaries, their secondaries or both (allocation 9.2)."""
    from ganeti_steward.allocators.moves.evacuation import node_evacuate

    return node_evacuate(request, cluster, context)


@hookimpl
def steward_change_group(request: ChangeGroup, cluster: Cluster, context: Context) -> Outcome:
    """Move instances to other node groups (allocation 9.3)."""
    from ganeti_steward.allocators.moves.evacuation import change_group

    return change_group(request, cluster, context)


@hookimpl
def steward_balance(request: Balance, cluster: Cluster, context: Context) -> Outcome:
    """Plan moves that lower the score of each group (the 2.1 design's ``balance``)."""
    from ganeti_steward.allocators.balancing.planning.balance import balance

    return balance(request, cluster, context)


@hookimpl
def steward_capacity(request: Capacity, cluster: Cluster, context: Context) -> Outcome:
    """Count how many instances like this one still fit (the 2.1 design's ``capacity``)."""
    from ganeti_steward.allocators.capacity.capacity import capacity

    return capacity(request, cluster, context)
