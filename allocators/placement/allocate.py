"""Request type ``allocate``: one new instance (allocation 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.placement.explained import one_place
from ganeti_steward.allocators.placement.placing import Placement, Placer, PlaceSearch
from ganeti_steward.allocators.state.load import load

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Allocate


def allocate(
    request: Allocate, cluster: Cluster, context: Context, search: type[PlaceSearch] = PlaceSearch
) -> Outcome:
    """Answer with the best legal place, or with the reasons why there is none."""
    state = load(cluster, request.instance.template, context.options.kvm_memory)
    return one_place(context, place(request, state, context, search), list)


def place(
    request: Allocate, state: State, context: Context, search: type[PlaceSearch] = PlaceSearch
) -> Placement:
    """The best legal place on a state.

    An allocation under the name of an existing instance is ``gnt-instance recreate-disks``:
    what it takes now becomes free, and it has to stay in its group.
    """
    cluster, group = state.frame.cluster, request.group_name
    if request.instance.name in cluster.instance_index:
        resident = state.resident(request.instance.name)
        state = state.removed(resident)
        group = group or cluster.nodes[resident.primary].group
    placer = Placer(state, context, search)
    return placer.place(state, request, group, placer.terms(request))
