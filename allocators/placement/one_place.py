"""Requests for nodes of one instance: ``allocate``, ``allocate-secondary`` and ``relocate``.

Allocation 6, 7, 9.1 and 9.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ganeti_steward.allocators.placement.info import last_note, refusal_text, success_text
from ganeti_steward.allocators.placement.placing import Placement, Placer, PlaceSearch
from ganeti_steward.allocators.rules.candidates import (
    Terms,
    doubted,
    kept_for_last,
    move_verdicts,
    secondary_verdicts,
    stay_verdicts,
    terms_of,
)
from ganeti_steward.allocators.rules.checks import stays_text
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.requests import Allocate, AllocateSecondary, Relocate, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation


def one_place(
    context: Context,
    placement: Placement | Refusal,
    result: Callable[[Sequence[str]], Any],
    text: Callable[[Placement], str] = success_text,
) -> Outcome:
    """The outcome of a request for one place.

    ``result``: the answer's result, from the names of the nodes; ``text``: its sentence.
    """
    if isinstance(placement, Refusal):
        return placement
    explanations = explained(context, placement)
    if placement.chosen is None:
        return Refusal(refusal_text(placement), explanations)
    return Answer(result(placement.nodes()), text(placement), explanations)


def explained(context: Context, *placements: Placement) -> tuple[Explanation, ...]:
    """An explanation of each placement, where the call requests explanations."""
    if not context.explain:
        return ()
    from ganeti_steward.allocators.placement.explain import explain  # not on Ganeti's path

    return tuple(explain(placement) for placement in placements)


def allocate(
    request: Allocate, cluster: Cluster, context: Context, search: type[PlaceSearch] = PlaceSearch
) -> Outcome:
    """Answer with the best legal place, or with the reasons why there is none."""
    state = load(cluster, template_of(request, cluster), context.options.kvm_memory)
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
    terms = doubted(state.frame, demand.instance, terms)
    verdicts = (
        stay_verdicts(left, demand, primary, policy=True),
        secondary_verdicts(left, demand, terms, 0),
    )
    everywhere = np.ones(state.frame.size, np.bool_)
    test = CapacityTest(state, everywhere) if context.options.capacity_checks else None
    start = Placement(left, demand, everywhere, terms, test, keeps=primary)
    return kind(start, verdicts).only_group(int(state.frame.group[primary]))


def relocate(
    request: Relocate, cluster: Cluster, context: Context, kind: type[PlaceSearch] = PlaceSearch
) -> Outcome:
    """Answer with the best new secondary (drbd) or primary (external storage)."""
    state = load(cluster, template_of(request, cluster), context.options.kvm_memory)
    placement = place_elsewhere(request, state, context, kind)
    return one_place(
        context,
        placement,
        lambda nodes: [nodes[-1]],
        lambda placed: f"success{last_note(placed.state.frame, placed.demand.instance)}",
    )


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
        demand = demand._replace(disk=request.disk_space - sum(demand.elsewhere.values()))
    terms = kept_for_last(state.frame, instance, terms)
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
    start = Placement(left, demand, mates, terms, keeps=primary)
    return kind(start, verdicts).only_group(group, excluded=(secondary,))


def _leave_primary(
    state: State, resident: Resident, demand: Demand, terms: Terms, kind: type[PlaceSearch]
) -> Placement:
    """External storage: move the primary; see `_leave_secondary` (allocation 4.4)."""
    _, primary, _ = resident
    left = state.removed(resident)
    verdicts = (move_verdicts(left, demand, terms, primary),)
    group = int(state.frame.group[primary])
    start = Placement(left, demand, state.frame.group == group, terms)
    return kind(start, verdicts).only_group(group, excluded=(primary,))


def template_of(request: Request, cluster: Cluster) -> str | None:
    """The disk template whose space the nodes report; see `load`."""
    if isinstance(request, Allocate):
        return request.instance.template
    return cluster.instance(request.name).template if isinstance(request, Relocate) else None


#: Type of a request -> what finds the nodes of its instance on a state.
PLACERS: Final[Mapping[type, Callable[..., Placement | Refusal]]] = {
    Allocate: place,
    AllocateSecondary: place_secondary,
    Relocate: place_elsewhere,
}
