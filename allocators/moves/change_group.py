"""Request type ``change-group``: instances move to other node groups (allocation 9.3).

The group is chosen per instance: by alloc_policy, then by how little the score of the group
grows.  Its instance policy and its networks must fit, and as with an allocation no instance
may become unable to leave its node (allocation 8, "must not get worse").  The groups the
instances come from are no targets, and unallocable ones are never used: when the user names
no group, Ganeti itself names all others, so a name in the request means nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.moves.answer import move_all
from ganeti_steward.allocators.moves.best_move import MoveTask
from ganeti_steward.allocators.rules import move_kinds as kinds
from ganeti_steward.allocators.rules.candidates import policy_check, terms_of
from ganeti_steward.allocators.rules.groups import network_fault, takes_instances
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.demand import Demand
    from ganeti_steward.allocators.state.frame import Frame
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import ChangeGroup


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
    return [_task(state, resident, groups, test, context) for resident in residents]


def target_groups(request: ChangeGroup, state: State, residents: list[Resident]) -> tuple[int, ...]:
    """Where instances may go, whatever the alloc_policy: by index."""
    frame = state.frame
    index = frame.cluster.group_index
    home = {int(frame.group[resident.primary]) for resident in residents}
    named = {index[uuid] for uuid in request.target_groups} or set(range(len(index)))
    return tuple(sorted(named - home))


def _task(
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
        terms=terms,
        stages=(kinds.TO_TWO_NODES if demand.drbd else (kinds.MOVE,),),
        groups=tuple(group for group in groups if group not in closed),
        targets=np.isin(frame.group, groups),
        fault=kinds.stays_text(demand.instance) or terms.fault,
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
