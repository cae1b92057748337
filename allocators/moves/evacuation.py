"""Request type ``node-evacuate``: instances leave a node within their group (allocation 9.2).

The request names instances, not the node.  What is being left is inferred:

* each instance names the nodes it may have to leave: its primary (primary-only), its
  secondary (secondary-only), both (all);
* a node that all of them name is the one being left.  If two are (one instance, or several
  on the same pair, in mode all), it is the one that is unusable, where exactly one is;
* otherwise every node named by any of them is being left, as hail has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.moves.answer import move_all
from ganeti_steward.allocators.moves.best_move import MoveTask, Stages
from ganeti_steward.allocators.rules import move_kinds as kinds
from ganeti_steward.allocators.rules.candidates import doubted, policy_check, terms_of
from ganeti_steward.allocators.rules.checks import stays_text
from ganeti_steward.allocators.rules.groups import network_fault, takes_instances
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.requests import (
    PRIMARY_ONLY,
    SECONDARY_ONLY,
    ChangeGroup,
    NodeEvacuate,
)

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.frame import Demand, Frame
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context


def node_evacuate(request: NodeEvacuate, cluster: Cluster, context: Context) -> Outcome:
    """Answer with moves for as many as possible; the others are named with their reasons."""
    state = load(cluster, None, context.options.kvm_memory)
    return move_all(state, evacuations(request, state, context), context)


def evacuations(request: NodeEvacuate, state: State, context: Context) -> list[MoveTask]:
    """How each instance of the request may leave, on a state."""
    residents = [state.resident(name) for name in request.instances]
    left = nodes_left(state, residents, request.mode)
    return [evacuation(state, resident, request.mode, left, context) for resident in residents]


def nodes_left(state: State, residents: list[Resident], mode: str) -> frozenset[int]:
    """The nodes being left, by index."""
    named = [names for names in (_named(resident, mode) for resident in residents) if names]
    if not named:
        return frozenset()
    common = frozenset.intersection(*named)
    unusable = frozenset(node for node in common if not state.frame.usable[node])
    for nodes in (common, unusable):
        if len(nodes) == 1:
            return nodes
    return frozenset().union(*named)


def _named(resident: Resident, mode: str) -> frozenset[int]:
    """The nodes one instance may have to leave."""
    nodes: set[int] = set()
    if mode != SECONDARY_ONLY:
        nodes.add(resident.primary)
    if mode != PRIMARY_ONLY and resident.demand.drbd:
        nodes.add(resident.secondary)
    return frozenset(nodes - {-1})


def evacuation(
    state: State, resident: Resident, mode: str, left: frozenset[int], context: Context
) -> MoveTask:
    """How one instance may leave the nodes ``left``, by index; ``mode`` is one of EVAC_MODES."""
    frame = state.frame
    demand, primary, secondary = resident
    forced = context.options.ignore_soft_errors
    terms = terms_of(frame, demand.instance, context.site_rules, forced=forced)
    group = int(frame.group[primary])
    targets: Mask = frame.group == group
    targets[[primary, *left]] = False
    if mode == SECONDARY_ONLY and demand.drbd:
        targets[secondary] = False
    return MoveTask(
        resident=resident,
        terms=doubted(frame, demand.instance, terms),
        stages=_stages(resident, mode, left),
        groups=(group,),
        targets=targets,
        fault=_fault(resident, mode) or terms.fault,
    )


def _fault(resident: Resident, mode: str) -> str:
    """Why the instance can never be moved as requested; empty when it can."""
    instance = resident.demand.instance
    stays = stays_text(instance)
    if not stays and mode == SECONDARY_ONLY and not resident.demand.drbd:
        return f"Instances with disk template '{instance.template}' can't execute change secondary"
    return stays


def _stages(resident: Resident, mode: str, left: frozenset[int]) -> Stages:
    """The kinds of move that leave the node, those that copy the disks less often first."""
    if not resident.demand.drbd:
        return ((kinds.MOVE,),)
    if mode == PRIMARY_ONLY:
        return (kinds.FAILOVER,), (kinds.REPLACE_AND_FAILOVER,)
    if mode == SECONDARY_ONLY:
        return ((kinds.REPLACE_SECONDARY,),)
    # In mode all the primary always changes, as with hail.
    if resident.primary not in left:
        return (kinds.REPLACE_AND_FAILOVER,), kinds.TO_TWO_NODES
    if resident.secondary not in left:
        return (kinds.FAILOVER_AND_REPLACE, kinds.REPLACE_PRIMARY), kinds.TO_TWO_NODES
    return (kinds.TO_TWO_NODES,)


def change_group(request: ChangeGroup, cluster: Cluster, context: Context) -> Outcome:
    """Answer with moves for as many as possible; the others are named with their reasons."""
    state = load(cluster, None, context.options.kvm_memory)
    return move_all(state, group_changes(request, state, context), context)


def group_changes(request: ChangeGroup, state: State, context: Context) -> list[MoveTask]:
    """How each instance of the request may go to other groups, on a state."""
    residents = [state.resident(name) for name in request.instances]
    groups = target_groups(request, state, residents)
    everywhere = np.ones(state.frame.size, np.bool_)
    test = CapacityTest(state, everywhere) if context.options.capacity_checks else None
    return [_change(state, resident, groups, test, context) for resident in residents]


def target_groups(request: ChangeGroup, state: State, residents: list[Resident]) -> tuple[int, ...]:
    """Where instances may go, whatever the alloc_policy: by index."""
    frame = state.frame
    index = frame.cluster.group_index
    home = {int(frame.group[resident.primary]) for resident in residents}
    named = {index[uuid] for uuid in request.target_groups} or set(range(len(index)))
    return tuple(sorted(named - home))


def _change(
    state: State,
    resident: Resident,
    groups: tuple[int, ...],
    test: CapacityTest | None,
    context: Context,
) -> MoveTask:
    frame = state.frame
    demand = resident.demand
    forced = context.options.ignore_soft_errors
    terms = terms_of(frame, demand.instance, context.site_rules, forced=forced)
    closed = _closed(frame, demand, groups)
    return MoveTask(
        resident=resident,
        terms=doubted(frame, demand.instance, terms),
        stages=(kinds.TO_TWO_NODES if demand.drbd else (kinds.MOVE,),),
        groups=tuple(group for group in groups if group not in closed),
        targets=np.isin(frame.group, groups),
        fault=stays_text(demand.instance) or terms.fault,
        closed=closed,
        extra_checks=(policy_check(frame, demand),),
        test=test,
    )


def _closed(frame: Frame, demand: Demand, groups: tuple[int, ...]) -> dict[int, str]:
    """Groups that take nothing, and those without a network of the instance."""
    closed = {}
    for at in groups:
        group = frame.cluster.groups[at]
        fault = network_fault(group, demand.instance)
        if not takes_instances(group):
            closed[at] = f"the group is {group.alloc_policy}"
        elif fault:
            closed[at] = fault
    return closed
