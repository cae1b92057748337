"""Request type ``allocate-secondary``: an instance becomes drbd (allocation 9.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.placement.explained import one_place
from ganeti_steward.allocators.placement.placing import PlaceSearch
from ganeti_steward.allocators.rules.candidates import secondary_verdicts, stay_verdicts, terms_of
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Refusal

if TYPE_CHECKING:
    from ganeti_steward.allocators.placement.placing import Placement
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import AllocateSecondary


def allocate_secondary(
    request: AllocateSecondary,
    cluster: Cluster,
    context: Context,
    kind: type[PlaceSearch] = PlaceSearch,
) -> Outcome:
    """Answer with the best secondary for the instance where it is.

    Unlike hail, never with a node that is drained.
    """
    state = load(cluster, None, context.options.kvm_memory)
    placement = place_secondary(request, state, context, kind)
    return one_place(context, placement, lambda nodes: nodes[1])


def place_secondary(
    request: AllocateSecondary,
    state: State,
    context: Context,
    kind: type[PlaceSearch] = PlaceSearch,
) -> Placement | Refusal:
    """The best secondary on a state; a refusal where none is looked for."""
    instance = state.frame.cluster.instance(request.name)
    if len(instance.nodes) > 1:
        return Refusal(f"Instance already has a secondary: {request.name} on {instance.nodes[1]}")
    resident = state.resident(request.name)
    terms = terms_of(state.frame, instance, context.site_rules)
    if terms.fault:
        return Refusal(terms.fault)
    primary, left = resident.primary, state.removed(resident)
    demand = state.frame.tag_rules.demand(instance._replace(template="drbd", nodes=()))
    verdicts = (
        stay_verdicts(left, demand, primary, policy=True),
        secondary_verdicts(left, demand, terms, 0),
    )
    everywhere = np.ones(state.frame.size, np.bool_)
    test = CapacityTest(state, everywhere) if context.options.capacity_checks else None
    search = kind(left, demand, verdicts, everywhere, terms, test, keeps=primary)
    trial = search.group(int(state.frame.group[primary]))
    return search.placement((trial,), trial if trial.best else None)
