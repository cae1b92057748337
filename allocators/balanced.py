"""The default allocator ``balanced``: hail's rules, hail's score, better searches.

Each function answers one hook; see the modules of the same names.
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
    """Place one new instance."""
    from ganeti_steward.allocators.placement.allocate import allocate

    return allocate(request, cluster, context)


@hookimpl
def steward_multi_allocate(request: MultiAllocate, cluster: Cluster, context: Context) -> Outcome:
    """Place a batch."""
    from ganeti_steward.allocators.placement.multi_allocate import multi_allocate

    return multi_allocate(request, cluster, context)


@hookimpl
def steward_relocate(request: Relocate, cluster: Cluster, context: Context) -> Outcome:
    """Find one new node for an existing instance."""
    from ganeti_steward.allocators.placement.relocate import relocate

    return relocate(request, cluster, context)


@hookimpl
def steward_allocate_secondary(
    request: AllocateSecondary, cluster: Cluster, context: Context
) -> Outcome:
    """Find a secondary for an instance that becomes drbd."""
    from ganeti_steward.allocators.placement.allocate_secondary import allocate_secondary

    return allocate_secondary(request, cluster, context)


@hookimpl
def steward_node_evacuate(request: NodeEvacuate, cluster: Cluster, context: Context) -> Outcome:
    """Move instances off a node within their group."""
    from ganeti_steward.allocators.moves.node_evacuate import node_evacuate

    return node_evacuate(request, cluster, context)


@hookimpl
def steward_change_group(request: ChangeGroup, cluster: Cluster, context: Context) -> Outcome:
    """Move instances to other node groups."""
    from ganeti_steward.allocators.moves.change_group import change_group

    return change_group(request, cluster, context)


@hookimpl
def steward_capacity(request: Capacity, cluster: Cluster, context: Context) -> Outcome:
    """Tell how many instances like one still fit."""
    from ganeti_steward.allocators.capacity.capacity import capacity

    return capacity(request, cluster, context)


@hookimpl
def steward_balance(request: Balance, cluster: Cluster, context: Context) -> Outcome:
    """Make each group more even."""
    from ganeti_steward.allocators.balancing.balance import balance

    return balance(request, cluster, context)
