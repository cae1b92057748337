"""Request type ``relocate``: one new node for an existing instance (allocation 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.placement.explained import one_place
from ganeti_steward.allocators.placement.placing import Placement, PlaceSearch
from ganeti_steward.allocators.rules.candidates import (
    move_verdicts,
    secondary_verdicts,
    stay_verdicts,
    terms_of,
)
from ganeti_steward.allocators.rules.move_kinds import stays_text
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Refusal

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.demand import Demand
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Relocate


def relocate(
    request: Relocate, cluster: Cluster, context: Context, kind: type[PlaceSearch] = PlaceSearch
) -> Outcome:
    """Answer with the best new secondary (drbd) or primary (external storage)."""
    template = cluster.instance(request.name).template
    state = load(cluster, template, context.options.kvm_memory)
    placement = place_elsewhere(request, state, context, kind)
    return one_place(context, placement, lambda nodes: [nodes[-1]], lambda _: "success")


def place_elsewhere(
    request: Relocate, state: State, context: Context, kind: type[PlaceSearch] = PlaceSearch
) -> Placement | Refusal:
    """The best new node on a state; a refusal where none is looked for."""
    resident = state.resident(request.name)
    fault = _fault(request, state, resident)
    if fault:
        return Refusal(fault)
    forced = context.options.ignore_soft_errors
    instance = state.frame.cluster.instance(request.name)
    terms = terms_of(state.frame, instance, context.site_rules, forced=forced)
    if terms.fault:
        return Refusal(terms.fault)
    demand = resident.demand
    if demand.instance.local and request.disk_space is not None:
        demand = demand._replace(disk=request.disk_space)
    leave = _leave_secondary if demand.drbd else _leave_primary
    return leave(state, resident, demand, terms, kind)


def _fault(request: Relocate, state: State, resident: Resident) -> str:
    """Why the request is never possible; empty when it is."""
    stays = stays_text(resident.demand.instance)
    if stays:
        return f"{request.name}: {stays}"
    if request.required_nodes != 1:
        return f"Unsupported request: {request.required_nodes} nodes requested, it must be 1"
    role = "secondary" if resident.demand.drbd else "primary"
    name = state.frame.cluster.nodes[getattr(resident, role)].name
    if request.relocate_from != (name,):
        given = ", ".join(request.relocate_from) or "no node"
        return (
            f"Unsupported request: excluded nodes not equal to instance's {role} "
            f"({given} instead of {name})"
        )
    return ""


def _leave_secondary(
    state: State, resident: Resident, demand: Demand, terms: Terms, kind: type[PlaceSearch]
) -> Placement:
    """drbd: replace the secondary; strict unless the node left is unusable (allocation 4.4).

    ``demand``: what it takes of the new node.
    """
    _, primary, secondary = resident
    left = state.removed(resident)
    forced = terms.forced or not bool(state.frame.usable[secondary])
    verdicts = (
        # The primary is taken off and put back, which only hard rules can forbid.
        stay_verdicts(left, resident.demand, primary, policy=False),
        secondary_verdicts(left, demand, terms, 0, forced=forced),
    )
    group = int(state.frame.group[primary])
    mates = state.frame.group == group
    search = kind(left, demand, verdicts, mates, terms, None, keeps=primary)
    trial = search.group(group, excluded=(secondary,))
    return search.placement((trial,), trial if trial.best else None)


def _leave_primary(
    state: State, resident: Resident, demand: Demand, terms: Terms, kind: type[PlaceSearch]
) -> Placement:
    """External storage: move the primary; see `_leave_secondary` (allocation 4.4)."""
    _, primary, _ = resident
    left = state.removed(resident)
    verdicts = (move_verdicts(left, demand, terms, primary),)
    group = int(state.frame.group[primary])
    search = kind(left, demand, verdicts, state.frame.group == group, terms, None)
    trial = search.group(group, excluded=(primary,))
    return search.placement((trial,), trial if trial.best else None)
